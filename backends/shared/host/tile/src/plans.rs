//! The plans of a nest. Plans over tiles are built at once; plans with machine code are built when they are likely to
//! pay off. Both give bit-identical results.
//!
//! Encoding machine code and mapping memory for it takes longer than all other compilation. A program that compiles
//! much and runs little should not wait for it.

use std::slice::ChunksExact;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_ir::Nest;
use millstream_ir::nest::{Op, Value};

use crate::build::build;
use crate::options::Options;
use crate::plan::{Plan, Template, Way};
use crate::prepare_error::CompileError;
use millstream_loops::level::Level;

/// A first launch with this many elements is worth machine code: it saves more than it costs.
const FUSED_ELEMENTS_MIN: usize = 1 << 17;

/// One plan for a nest without inner axes. Otherwise two along rows and two across: the first of each retains values
/// for later passes, the second computes them again.
const FLAT: &[(Template, bool)] = &[(Template::Column, false)];
const REDUCING: &[(Template, bool)] = &[
    (Template::Row, true),
    (Template::Row, false),
    (Template::Column, true),
    (Template::Column, false),
];

/// A plan, over tiles and with machine code.
#[derive(Debug)]
pub(crate) struct Variant {
    way: Way,
    /// The choice of a plan and the tiling of rows depend on this one only, because the order in which a row is summed
    /// must not depend on machine code.
    pub(crate) over_tiles: Plan,
    /// With machine code; `None` if there is no code for the plan.
    fused: OnceLock<Option<Plan>>,
}

/// All plans of a nest.
#[derive(Debug)]
pub(crate) struct Plans {
    /// Whether machine code is allowed.
    machine_code: bool,
    /// The plans that read gathers in runs, if any gather can be read so, and then those that do not.
    variants: Vec<Variant>,
    /// The number of each of these.
    ways: usize,
    has_run: AtomicBool,
}

impl Plans {
    pub(crate) fn of(nest: &Nest, level: Level, options: Options) -> Result<Self, CompileError> {
        let ways = if nest.inner == 0 { FLAT } else { REDUCING };
        let variant = |&(template, retains): &(Template, bool), runs: bool| {
            let way = Way {
                template,
                retains,
                level,
                fuses: false,
                runs,
            };
            Ok::<_, CompileError>(Variant {
                way,
                over_tiles: build(nest, way)?,
                fused: OnceLock::new(),
            })
        };
        let mut variants = Vec::new();
        let gathers = |value: &Value| matches!(value.op, Op::Gather { .. });
        if nest.values.iter().any(gathers) {
            let in_runs = ways.iter().map(|way| variant(way, true));
            variants = in_runs.collect::<Result<_, _>>()?;
            if variants
                .iter()
                .all(|in_runs: &Variant| in_runs.over_tiles.gathered.is_empty())
            {
                variants.clear();
            }
        }
        for way in ways {
            variants.push(variant(way, false)?);
        }
        Ok(Self {
            machine_code: options.machine_code && cfg!(feature = "machine-code"),
            variants,
            ways: ways.len(),
            has_run: AtomicBool::new(false),
        })
    }

    /// Returns the plans to choose from, by the way in which they read gathers.
    pub(crate) fn choices(&self) -> ChunksExact<'_, Variant> {
        self.variants.chunks_exact(self.ways)
    }

    /// Returns `true` if a launch with this many elements uses machine code.
    #[inline]
    pub(crate) fn fuses(&self, elements: usize) -> bool {
        // Relaxed: at worst one more launch runs over tiles.
        let is_worth_it = || self.has_run.load(Ordering::Relaxed) || elements >= FUSED_ELEMENTS_MIN;
        self.machine_code && is_worth_it()
    }

    /// Records that the nest has run: a program that runs twice may run often.
    #[inline]
    pub(crate) fn ran(&self) {
        if !self.has_run.load(Ordering::Relaxed) {
            self.has_run.store(true, Ordering::Relaxed);
        }
    }

    /// Returns a plan by its number among the choices, one after the other.
    #[inline]
    pub(crate) fn plan(&self, nest: &Nest, number: usize, fuses: bool) -> &Plan {
        self.variants[number].plan(nest, fuses)
    }
}

impl Variant {
    /// Returns the plan, with machine code if `fuses` is set and there is code for it.
    #[inline]
    pub(crate) fn plan(&self, nest: &Nest, fuses: bool) -> &Plan {
        if !fuses {
            return &self.over_tiles;
        }
        let make = || {
            let fused = build(nest, Way { fuses, ..self.way }).ok()?;
            fused.is_fused.then_some(fused)
        };
        self.fused
            .get_or_init(make)
            .as_ref()
            .unwrap_or(&self.over_tiles)
    }
}
