//! The plans of a nest: those over tiles, which are made at once, and those with machine code, which are made when it is clear
//! that they are worth it. Both compute the same to the bit.
//!
//! Encoding machine code, and having memory for it, takes longer than all else of compiling. So whoever compiles much and runs
//! little should not have to wait for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_ir::Nest;

use crate::build::{CompileError, build};
use crate::level::Level;
use crate::options::Options;
use crate::plan::{Plan, Template};

/// A launch of so many elements is worth machine code though it is the first: it wins more than it costs.
const FUSED_ELEMENTS_MIN: usize = 1 << 17;

/// One for a nest without inner axes. Else two by rows and two by columns, of each what is needed again is kept in the first, and
/// computed again in the second.
const FLAT: &[(Template, bool)] = &[(Template::Flat, false)];
const REDUCING: &[(Template, bool)] = &[
    (Template::Row, true),
    (Template::Row, false),
    (Template::Column, true),
    (Template::Column, false),
];

/// Every plan of a nest.
#[derive(Debug)]
pub(crate) struct Plans {
    level: Level,
    /// May there be machine code?
    machine_code: bool,
    /// Are gathers read in runs where that can be?
    runs: bool,
    kinds: &'static [(Template, bool)],
    over_tiles: Vec<Plan>,
    /// With machine code; none where there is none for it.
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

    /// Those over tiles. Which one suits a launch, and how rows are cut, is read off these: the order in which a row is summed
    /// must not depend on whether there is machine code.
    pub(crate) fn over_tiles(&self) -> &[Plan] {
        &self.over_tiles
    }

    /// Is a launch of so many elements to have machine code?
    #[inline]
    pub(crate) fn fuses(&self, elements: usize) -> bool {
        // Relaxed: at worst one more launch goes by tiles.
        let is_worth_it = || self.has_run.load(Ordering::Relaxed) || elements >= FUSED_ELEMENTS_MIN;
        self.machine_code && is_worth_it()
    }

    /// It has run: who comes once may come again.
    #[inline]
    pub(crate) fn ran(&self) {
        if !self.has_run.load(Ordering::Relaxed) {
            self.has_run.store(true, Ordering::Relaxed);
        }
    }

    /// The plan that was chosen, with machine code if it is to be and can be.
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
