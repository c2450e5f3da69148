//! A compiled program, and how it is run.

use std::cell::Cell;
use std::ops::Range;

use millstream_core::kernel::NativeView;
use millstream_ir::nest::Stride;
use millstream_ir::{Nest, Program};

use crate::COST_UNIT;
use crate::build::{Unfit, build};
use crate::launch::{Launch, Misfit, Window, resolve};
use crate::level::Level;
use crate::machine::{Job, Machine, Tiles};
use crate::matmul::MatmulCode;
use crate::plan::{Plan, Template};
use crate::scratch::Scratch;

/// Who runs the pieces of a launch.
pub trait Team {
    /// Runs `work` on ranges of `0..pieces` that cover each piece exactly once, on any threads at once. All together take one
    /// thread about `ns` nanoseconds. Blocks until all are done.
    ///
    /// # Errors
    /// The message of the first panic.
    fn share(
        &mut self,
        pieces: u64,
        ns: u64,
        work: &(dyn Fn(Range<u64>) + Sync),
    ) -> Result<(), String>;
}

/// The calling thread and nobody else. Does not catch panics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Team for Alone {
    fn share(
        &mut self,
        pieces: u64,
        _ns: u64,
        work: &(dyn Fn(Range<u64>) + Sync),
    ) -> Result<(), String> {
        work(0..pieces);
        Ok(())
    }
}

/// Why a launch has not run, or not to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// It was refused before anything ran.
    Misfit(Misfit),
    /// A piece panicked with this message.
    Panic(String),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::Misfit(misfit) => write!(f, "{misfit}"),
            RunError::Panic(message) => write!(f, "it panicked: {message}"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<Misfit> for RunError {
    fn from(misfit: Misfit) -> Self {
        Self::Misfit(misfit)
    }
}

/// A program, compiled for this processor.
#[derive(Debug)]
pub struct Code {
    kind: Box<Kind>,
}

#[derive(Debug)]
enum Kind {
    Nest(NestCode),
    Matmul(MatmulCode),
}

/// A nest for every template that can run it.
#[derive(Debug)]
pub(crate) struct NestCode {
    nest: Nest,
    /// For nests without inner axes.
    flat: Option<Plan>,
    /// For those with: what is needed again is kept, or computed again.
    row: Option<[Plan; 2]>,
    column: Option<[Plan; 2]>,
}

thread_local! {
    /// Paths of a launch, kept for the next one.
    static LAUNCH: Cell<Option<Box<Launch>>> = const { Cell::new(None) };
}

/// Elements of a piece: some ten microseconds of work, so that a handful of threads share what is worth a wake.
const PIECE_ELEMENTS: usize = 1 << 15;

/// Bytes of registers that a tile should fill: most of the first cache. More for rows, which want to be one tile.
const TILE_BYTES: usize = 32 << 10;
const ROW_TILE_BYTES: usize = 128 << 10;

/// Bytes of values that are kept from pass to pass: they should stay in the second cache.
const KEPT_BYTES_MAX: usize = 512 << 10;

impl Code {
    /// Compiles a program. Takes microseconds.
    ///
    /// # Errors
    /// What of it cannot be run here.
    pub fn compile(program: &Program) -> Result<Self, Unfit> {
        Self::compile_for(program, Level::of_processor())
    }

    /// As [`Code::compile`], for a level that the processor has.
    pub(crate) fn compile_for(program: &Program, level: Level) -> Result<Self, Unfit> {
        program.check().map_err(Unfit::Wrong)?;
        let kind = match program {
            Program::Nest(nest) => Kind::Nest(NestCode::compile(nest, level)?),
            Program::Matmul(matmul) => Kind::Matmul(MatmulCode::compile(matmul, level)?),
            _ => return Err(Unfit::Kind),
        };
        Ok(Self {
            kind: Box::new(kind),
        })
    }

    /// Runs a launch: views are its bindings, words its launch words. Blocks until it is done.
    ///
    /// # Errors
    /// Why it is refused (then nothing ran), or what a piece panicked with.
    ///
    /// # Safety
    /// The memory behind the views is initialized, and nobody else touches what the program writes or writes what it reads
    /// until this returns. Views may overlap.
    pub unsafe fn run(
        &self,
        views: &[NativeView],
        words: &[u64],
        team: &mut dyn Team,
    ) -> Result<(), RunError> {
        match &*self.kind {
            // SAFETY: the caller's promises.
            Kind::Nest(nest) => unsafe { nest.run(views, words, None, team) },
            // SAFETY: the caller's promises.
            Kind::Matmul(matmul) => unsafe { matmul.run(views, words, team) },
        }
    }
}

impl NestCode {
    pub(crate) fn compile(nest: &Nest, level: Level) -> Result<Self, Unfit> {
        let axes = nest.outer.max(nest.inner);
        if axes > crate::AXES_MAX {
            return Err(Unfit::Axes(axes));
        }
        let pair = |template| -> Result<[Plan; 2], Unfit> {
            Ok([
                build(nest, template, true, level)?,
                build(nest, template, false, level)?,
            ])
        };
        let has_rows = nest.inner > 0;
        Ok(Self {
            flat: (!has_rows)
                .then(|| build(nest, Template::Flat, false, level))
                .transpose()?,
            row: has_rows.then(|| pair(Template::Row)).transpose()?,
            column: has_rows.then(|| pair(Template::Column)).transpose()?,
            nest: nest.clone(),
        })
    }

    /// As [`Code::run`], a part of the outer axes, on this thread.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn run_window(
        &self,
        views: &[NativeView],
        words: &[u64],
        window: Window,
    ) -> Result<(), RunError> {
        // SAFETY: the caller's promises.
        unsafe { self.run(views, words, Some(window), &mut Alone) }
    }

    /// As [`Code::run`].
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn run(
        &self,
        views: &[NativeView],
        words: &[u64],
        window: Option<Window>,
        team: &mut dyn Team,
    ) -> Result<(), RunError> {
        let kept = LAUNCH.try_with(Cell::take).ok().flatten();
        let mut launch = kept.unwrap_or_else(|| Box::new(Launch::new()));
        // SAFETY: the caller's promises.
        let result = unsafe { self.run_with(&mut launch, views, words, window, team) };
        let _ = LAUNCH.try_with(|cell| cell.set(Some(launch)));
        result
    }

    unsafe fn run_with(
        &self,
        launch: &mut Launch,
        views: &[NativeView],
        words: &[u64],
        window: Option<Window>,
        team: &mut dyn Team,
    ) -> Result<(), RunError> {
        if !launch.measure(&self.nest, views, words)? {
            return Ok(());
        }
        let plan = self.choose(launch, words);
        launch.prepare(&self.nest, plan, views, words, window)?;
        let (tiles, kept_lanes) = cut(plan, launch);
        launch.settle_direct(plan, &tiles);
        let rows = match plan.template {
            Template::Row => launch.outer.total,
            _ => tiles.count,
        };
        let elements = launch.outer.total * launch.inner.total.max(1);
        let in_piece = match elements > PIECE_ELEMENTS && launch.rows_are_apart(plan) {
            true => (PIECE_ELEMENTS * rows / elements).clamp(1, rows),
            false => rows,
        };
        let job = Job {
            nest: &self.nest,
            plan,
            launch,
            views,
            words,
            tiles,
            kept_lanes,
            streams: launch.streams(plan),
        };
        let work = |pieces: Range<u64>| {
            let start = pieces.start as usize * in_piece;
            let end = (pieces.end as usize * in_piece).min(rows);
            Scratch::with(|scratch| {
                // SAFETY: the launch was prepared of these views and words; each piece comes once; the caller's promises.
                unsafe { Machine::new(job, scratch).run(start..end) };
            });
        };
        let pieces = rows.div_ceil(in_piece);
        if pieces == 1 {
            work(0..1);
            return Ok(());
        }
        let ns = (elements as u64).saturating_mul(plan.cost) / COST_UNIT;
        team.share(pieces as u64, ns, &work)
            .map_err(RunError::Panic)
    }

    /// The plan that suits a launch best.
    fn choose(&self, launch: &Launch, words: &[u64]) -> &Plan {
        let (row, column) = match (&self.flat, &self.row, &self.column) {
            (Some(flat), ..) => return flat,
            (None, Some(row), Some(column)) => (row, column),
            // One of the two is there.
            (None, row, column) => {
                debug_assert!(false, "a nest has a plan");
                let plans = row.iter().chain(column).flatten();
                return plans
                    .last()
                    .unwrap_or_else(|| unreachable!("a nest has a plan"));
            }
        };
        let (rows, len) = (launch.outer.total, launch.inner.total);
        let [along, across] = self.costs(launch, words);
        let code = |plan: &Plan| {
            plan.passes
                .iter()
                .map(|pass| pass.body.len() + 1)
                .sum::<usize>()
        };
        let elements = rows.saturating_mul(len);
        let by_row = elements.saturating_mul(along)
            + rows.saturating_mul((code(&row[0]) + len / 2048) * CALL_COST);
        let by_column = elements.saturating_mul(across)
            + (len * rows.div_ceil(COLUMN_LANES)).saturating_mul(code(&column[0]) * CALL_COST);
        if by_row <= by_column {
            let is_short = row[0].kept as usize * len <= KEPT_BYTES_MAX;
            &row[usize::from(!is_short)]
        } else {
            let is_short = column[0].kept as usize * len * 64 <= KEPT_BYTES_MAX;
            &column[usize::from(!is_short)]
        }
    }

    /// What an element costs to read and write along the inner axes, and across them, in parts of a nanosecond.
    fn costs(&self, launch: &Launch, words: &[u64]) -> [usize; 2] {
        let mut costs = [1, 1];
        for access in &self.nest.accesses {
            let (outer, inner) = access.strides.split_at(self.nest.outer);
            if inner.iter().all(|stride| *stride == Stride::Zero) {
                continue;
            }
            for (cost, (strides, axes)) in costs
                .iter_mut()
                .zip([(inner, &launch.inner), (outer, &launch.outer)])
            {
                let mut moving = strides.iter().zip(&axes.lens).filter(|(_, len)| **len > 1);
                let is_unit = match strides.len() == inner.len() && std::ptr::eq(strides, inner) {
                    // Inner axes stay in their order.
                    true => moving
                        .next_back()
                        .is_none_or(|(stride, _)| resolve(*stride, words).unsigned_abs() <= 1),
                    false => {
                        let mut all = moving
                            .map(|(stride, _)| resolve(*stride, words).unsigned_abs())
                            .peekable();
                        all.peek().is_none() || all.any(|stride| stride == 1)
                    }
                };
                *cost += if is_unit { 1 } else { STRIDED_COST };
            }
        }
        costs
    }
}

/// In 1/16 nanoseconds: an instruction besides its elements, and an element that does not lie beside its neighbour.
const CALL_COST: usize = 80;
const STRIDED_COST: usize = 16;

/// Lanes of a tile of columns, at most.
const COLUMN_LANES: usize = 512;

/// How the lanes of a launch are cut into tiles, and lanes of what is kept.
fn cut(plan: &Plan, launch: &Launch) -> (Tiles, usize) {
    let unit = (plan.unit as usize).max(1);
    match plan.template {
        Template::Flat => {
            let lanes = (TILE_BYTES / unit / 64 * 64).clamp(256, 2048);
            (Tiles::of(&launch.outer, lanes), 0)
        }
        Template::Row => {
            let lanes = (ROW_TILE_BYTES / unit / 64 * 64).clamp(512, 4096);
            (
                Tiles::of(&launch.inner, lanes),
                launch.inner.total.next_multiple_of(64),
            )
        }
        Template::Column => {
            let steps = launch.inner.total;
            let kept = KEPT_BYTES_MAX / (plan.kept as usize * steps).max(1);
            let lanes = (TILE_BYTES / unit).min(kept) / 64 * 64;
            let tiles = Tiles::of(&launch.outer, lanes.clamp(64, COLUMN_LANES));
            (tiles, tiles.lanes * steps)
        }
    }
}
