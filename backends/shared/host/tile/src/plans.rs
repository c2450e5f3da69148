//! The plans of a nest. Plans over tiles are built at once; plans with machine code are built when they are likely to
//! pay off. Both give bit-identical results.
//!
//! Encoding machine code and mapping memory for it takes longer than all other compilation. A program that compiles
//! much and runs little should not wait for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_ir::Nest;

use crate::build::build;
use crate::compile_error::CompileError;
use crate::level::Level;
use crate::options::Options;
use crate::plan::{Plan, Template};

/// A first launch with this many elements is worth machine code: it saves more than it costs.
const FUSED_ELEMENTS_MIN: usize = 1 << 17;

/// One plan for a nest without inner axes. Otherwise two along rows and two across: the first of each retains values
/// for later passes, the second computes them again.
const FLAT: &[(Template, bool)] = &[(Template::Flat, false)];
const REDUCING: &[(Template, bool)] = &[
    (Template::Row, true),
    (Template::Row, false),
    (Template::Column, true),
    (Template::Column, false),
];

/// All plans of a nest.
#[derive(Debug)]
pub(crate) struct Plans {
    level: Level,
    /// Whether machine code is allowed.
    machine_code: bool,
    /// Whether gathers are read in runs where possible.
    runs: bool,
    kinds: &'static [(Template, bool)],
    over_tiles: Vec<Plan>,
    /// The plans with machine code; `None` if there is no code for the plan.
    fused: Vec<OnceLock<Option<Plan>>>,
    has_run: AtomicBool,
}

impl Plans {
    pub(crate) fn of(
        nest: &Nest,
        level: Level,
        options: Options,
        runs: bool,
    ) -> Result<Self, CompileError> {
        let kinds = match nest.inner {
            0 => FLAT,
            _ => REDUCING,
        };
        let over_tiles = kinds
            .iter()
            .map(|(template, retains)| build(nest, *template, *retains, level, false, runs))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            level,
            machine_code: options.machine_code && cfg!(feature = "machine-code"),
            runs,
            kinds,
            over_tiles,
            fused: kinds.iter().map(|_| OnceLock::new()).collect(),
            has_run: AtomicBool::new(false),
        })
    }

    /// Returns the plans over tiles. The choice of a plan and the tiling of rows depend on these only, because the
    /// order in which a row is summed must not depend on machine code.
    pub(crate) fn over_tiles(&self) -> &[Plan] {
        &self.over_tiles
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

    /// Returns the chosen plan, with machine code if `fuses` is set and there is code for it.
    #[inline]
    pub(crate) fn plan(&self, nest: &Nest, chosen: usize, fuses: bool) -> &Plan {
        let over_tiles = &self.over_tiles[chosen];
        if !fuses {
            return over_tiles;
        }
        let make = || {
            let (template, retains) = self.kinds[chosen];
            let plan = build(nest, template, retains, self.level, true, self.runs).ok()?;
            plan.is_fused().then_some(plan)
        };
        self.fused[chosen]
            .get_or_init(make)
            .as_ref()
            .unwrap_or(over_tiles)
    }
}
