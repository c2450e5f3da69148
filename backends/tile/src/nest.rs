//! A nest that was compiled: which of its plans suits a launch, how the launch is cut, and what is remembered of the last ones.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_core::kernel::NativeView;
use millstream_ir::nest::{Op, Stride, Value};
use millstream_ir::{Blocking, Nest, ReduceOp, Rows};

use crate::COST_UNIT;
use crate::build::Unfit;
use crate::code::{Alone, RunError, Team};
use crate::launch::{Launch, Window, resolve};
use crate::level::Level;
use crate::machine::{Job, Machine, Part};
use crate::misfit::Misfit;
use crate::plan::{Plan, Template};
use crate::plans::Plans;
use crate::scratch::Scratch;
use crate::tiles::Tiles;

/// A nest, compiled for every template that can run it.
#[derive(Debug)]
pub(crate) struct NestCode {
    /// Its own in this process, and not 0.
    id: u64,
    nest: Nest,
    plans: Plans,
    /// Those whose gathers are read in runs, where any can be.
    in_runs: Option<Plans>,
    /// How rows are walked, if that is said.
    rows: Option<Rows>,
}

/// The same, with nothing to reduce where there are no inner axes: a row is one element, which is its own sum and the first of itself.
fn with_rows_of_one(mut nest: Nest) -> Nest {
    if nest.inner == 0 {
        for value in &mut nest.values {
            match value.op {
                Op::Reduce(ReduceOp::ArgMin | ReduceOp::ArgMax, _) => value.op = Op::Const(0),
                Op::Reduce(_, of) => value.op = Op::Cast(of),
                _ => {}
            }
        }
    }
    nest
}

/// How a nest can be cut up, with registers of so many elements beside the usual ones.
pub(crate) fn blockings(nest: &Nest, vectors: &[u8]) -> Vec<Blocking> {
    let narrow = vectors.iter().map(|len| Blocking::USUAL.vector(*len));
    let mut found: Vec<Blocking> = narrow.collect();
    if nest.inner > 0 {
        for rows in [Rows::Along, Rows::Across] {
            let blocking = Blocking::USUAL.rows(rows);
            found.push(blocking);
            found.extend(vectors.iter().map(|len| blocking.vector(*len)));
        }
    }
    found
}

/// Launches that a thread remembers: a loop over a handful of kernels finds each of them as it was.
const REMEMBERED: usize = 8;

thread_local! {
    /// Taken while they are in use: a launch inside of another, on the same thread, would find none and make its own.
    static LAUNCHES: Cell<Option<Box<[Prepared; REMEMBERED]>>> = const { Cell::new(None) };
}

/// A launch that was checked and cut, and what it was made of: the same bindings and words are not looked at again.
#[derive(Default)]
struct Prepared {
    /// The nest; 0 if nothing is prepared.
    of: u64,
    views: Vec<NativeView>,
    words: Vec<u64>,
    window: Option<Window>,
    launch: Launch,
    cut: Cut,
}

/// How a launch is run.
#[derive(Clone, Copy, Default)]
struct Cut {
    /// Which plan, and whether it is the one with machine code.
    plan: usize,
    fuses: bool,
    in_runs: bool,
    tiles: Tiles,
    kept_lanes: usize,
    /// Rows, or tiles, of the whole launch and of a piece of it.
    rows: usize,
    in_piece: usize,
    elements: usize,
    streams: bool,
    turns_only: bool,
    /// Every thread goes over everything, and scatters to places of its own.
    by_place: bool,
}

impl Prepared {
    fn is_for(&self, of: u64, views: &[NativeView], words: &[u64], window: Option<Window>) -> bool {
        self.of == of && self.words == words && self.views == views && self.window == window
    }

    /// Prepares a launch with something to do.
    fn prepare(
        &mut self,
        code: &NestCode,
        views: &[NativeView],
        words: &[u64],
        window: Option<Window>,
    ) -> Result<(), Misfit> {
        self.of = 0;
        let launch = &mut self.launch;
        let elements = launch.outer.total * launch.inner.total.max(1);
        let fuses = code.plans.fuses(elements);
        let mut in_runs = code.in_runs.is_some();
        let (plans, chosen, plan) = loop {
            let plans = code.plans(in_runs);
            let chosen = code.choose(plans, launch, words);
            let plan = plans.plan(&code.nest, chosen, fuses);
            launch.prepare(&code.nest, plan, views, words, window)?;
            if !in_runs || launch.runs_are_long(plan) {
                break (plans, chosen, plan);
            }
            in_runs = false;
            launch.measure(&code.nest, views, words)?;
        };
        let (tiles, kept_lanes) = cut(plan, &plans.over_tiles()[chosen], launch);
        let mut turns_only = false;
        let tiles = match launch.turn(plan) {
            true => {
                turns_only = launch.turns_only(plan);
                tiles.in_blocks(&launch.outer)
            }
            false if launch.moves_densely(plan) => Tiles::of_moves(&launch.outer),
            false => tiles,
        };
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
        self.cut = Cut {
            plan: chosen,
            fuses,
            in_runs,
            tiles,
            kept_lanes,
            rows,
            in_piece,
            elements,
            streams: launch.streams(plan),
            turns_only,
            by_place: elements > PIECE_ELEMENTS && launch.scatters_alone(),
        };
        self.views.clear();
        self.views.extend_from_slice(views);
        self.words.clear();
        self.words.extend_from_slice(words);
        self.window = window;
        self.of = code.id;
        Ok(())
    }
}

/// Elements of a piece: some ten microseconds of work, so that a handful of threads share what is worth a wake.
const PIECE_ELEMENTS: usize = 1 << 15;

/// Bytes of registers that a tile should fill: most of the first cache. More for rows, which want to be one tile.
const TILE_BYTES: usize = 32 << 10;
const ROW_TILE_BYTES: usize = 128 << 10;

/// Bytes of values that are kept from pass to pass: along rows they should stay in the second cache. Across rows they may be more, as
/// they are read in the order in which they were written; a softmax over the first axis of 1024 x 1024 took 1.35 ms with them and 1.67 ms
/// where exponentials were computed again.
const KEPT_BYTES_MAX: usize = 512 << 10;
const KEPT_COLUMNS_BYTES_MAX: usize = 2 << 20;

impl NestCode {
    pub(crate) fn compile(nest: &Nest, level: Level, rows: Option<Rows>) -> Result<Self, Unfit> {
        let axes = nest.outer.max(nest.inner);
        if axes > crate::AXES_MAX {
            return Err(Unfit::Axes(axes));
        }
        let nest = with_rows_of_one(nest.clone());
        /// The next one's.
        static ID: AtomicU64 = AtomicU64::new(1);
        let gathers = |value: &Value| matches!(value.op, Op::Gather { .. });
        let in_runs = nest.values.iter().any(gathers);
        let in_runs = in_runs.then(|| Plans::of(&nest, level, true)).transpose()?;
        let has_runs = |plan: &Plan| !plan.gathered.is_empty();
        Ok(Self {
            in_runs: in_runs.filter(|plans| plans.over_tiles().iter().any(has_runs)),
            // Relaxed: they only have to differ.
            id: ID.fetch_add(1, Ordering::Relaxed),
            plans: Plans::of(&nest, level, false)?,
            nest,
            rows,
        })
    }

    /// As [`Code::run`](crate::Code::run), a part of the outer axes, on this thread.
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

    /// As [`Code::run`](crate::Code::run).
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
        let kept = LAUNCHES.try_with(Cell::take).ok().flatten();
        let mut launches = kept.unwrap_or_default();
        let prepared = &mut launches[self.id as usize % REMEMBERED];
        // SAFETY: the caller's promises.
        let result = unsafe { self.run_with(prepared, views, words, window, team) };
        let _ = LAUNCHES.try_with(|cell| cell.set(Some(launches)));
        result
    }

    unsafe fn run_with(
        &self,
        prepared: &mut Prepared,
        views: &[NativeView],
        words: &[u64],
        window: Option<Window>,
        team: &mut dyn Team,
    ) -> Result<(), RunError> {
        let is_known = prepared.is_for(self.id, views, words, window);
        let is_settled = prepared.cut.fuses || !self.plans.fuses(0);
        if !is_known || !is_settled {
            prepared.of = 0;
            if !prepared.launch.measure(&self.nest, views, words)? {
                return Ok(());
            }
            prepared.prepare(self, views, words, window)?;
        }
        let (launch, cut) = (&prepared.launch, prepared.cut);
        let plan = self
            .plans(cut.in_runs)
            .plan(&self.nest, cut.plan, cut.fuses);
        self.plans.ran();
        let job = Job {
            nest: &self.nest,
            plan,
            launch,
            views,
            words,
            tiles: cut.tiles,
            kept_lanes: cut.kept_lanes,
            streams: cut.streams,
            turns_only: cut.turns_only,
            places: Part::ALL,
        };
        let work = |pieces: Range<u64>| {
            let start = pieces.start as usize * cut.in_piece;
            let end = (pieces.end as usize * cut.in_piece).min(cut.rows);
            Scratch::with(|scratch| {
                // SAFETY: the launch was prepared of these views and words; each piece comes once; the caller's promises.
                unsafe { Machine::new(job, scratch).run(start..end) };
            });
        };
        let threads = team.threads() as u64;
        if cut.by_place && threads > 1 {
            let ns = (cut.elements as u64).saturating_mul(plan.cost) / COST_UNIT;
            let work = |parts: Range<u64>| {
                let places = Part {
                    first: parts.start,
                    end: parts.end,
                    of: threads,
                };
                let job = job.scattering_to(places);
                Scratch::with(|scratch| {
                    // SAFETY: as above; each place is in one part.
                    unsafe { Machine::new(job, scratch).run(0..cut.rows) };
                });
            };
            return team.share(threads, ns, &work).map_err(RunError::Panic);
        }
        let pieces = cut.rows.div_ceil(cut.in_piece);
        if pieces == 1 {
            work(0..1);
            return Ok(());
        }
        let ns = (cut.elements as u64).saturating_mul(plan.cost) / COST_UNIT;
        team.share(pieces as u64, ns, &work)
            .map_err(RunError::Panic)
    }

    fn plans(&self, in_runs: bool) -> &Plans {
        let in_runs = self.in_runs.as_ref().filter(|_| in_runs);
        in_runs.unwrap_or(&self.plans)
    }

    /// The plan that suits a launch best.
    fn choose(&self, plans: &Plans, launch: &Launch, words: &[u64]) -> usize {
        let [row, _, column, _] = plans.over_tiles() else {
            return 0;
        };
        let len = launch.inner.total;
        let is_along = match self.rows {
            Some(rows) => rows == Rows::Along,
            None => self.is_cheaper_along(launch, words, row, column),
        };
        if is_along {
            let is_short = row.kept as usize * len <= KEPT_BYTES_MAX;
            usize::from(!is_short)
        } else {
            // In narrower tiles, what is not computed again costs more than that.
            let bytes = column.kept as usize * len * KEPT_COLUMNS_MIN;
            let is_short = bytes <= KEPT_COLUMNS_BYTES_MAX;
            2 + usize::from(!is_short)
        }
    }

    /// Are rows walked along, rather than many at once across?
    fn is_cheaper_along(&self, launch: &Launch, words: &[u64], row: &Plan, column: &Plan) -> bool {
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
            + rows.saturating_mul((code(row) + len / 2048) * CALL_COST);
        let by_column = elements.saturating_mul(across)
            + (len * rows.div_ceil(COLUMN_LANES)).saturating_mul(code(column) * CALL_COST);
        by_row <= by_column
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

/// Lanes of a tile of columns, at most: stretches of a page, since the processor fetches ahead within one alone. And at least, where what is
/// needed again is kept.
const COLUMN_LANES: usize = 1024;
const KEPT_COLUMNS_MIN: usize = 256;

/// How the lanes of a launch are cut into tiles, and lanes of what is kept. Rows are cut as they would be over tiles.
fn cut(plan: &Plan, over_tiles: &Plan, launch: &Launch) -> (Tiles, usize) {
    let unit = (plan.unit as usize).max(1);
    match plan.template {
        Template::Flat => {
            let lanes = (TILE_BYTES / unit / 64 * 64).clamp(256, 2048);
            (Tiles::of(&launch.outer, lanes), 0)
        }
        Template::Row => {
            let unit = (over_tiles.unit as usize).max(1);
            let lanes = (ROW_TILE_BYTES / unit / 64 * 64).clamp(512, 4096);
            (
                Tiles::of(&launch.inner, lanes),
                launch.inner.total.next_multiple_of(64),
            )
        }
        Template::Column => {
            let steps = launch.inner.total;
            let kept = KEPT_COLUMNS_BYTES_MAX / (plan.kept as usize * steps).max(1);
            let lanes = (TILE_BYTES / unit).min(kept) / 64 * 64;
            let tiles = Tiles::of(&launch.outer, lanes.clamp(64, COLUMN_LANES));
            (tiles, tiles.lanes * steps)
        }
    }
}
