//! A compiled nest: preparing and running its launches, and the cache of prepared launches.

mod choice;

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use choice::tile;
use millstream_ir::nest::Op;
use millstream_ir::{Blocking, Nest, ReduceOp, Rows};
use millstream_protocol::NativeView;

use crate::COST_UNIT;
use crate::launch::{Launch, Window};
use crate::machine::{Job, Machine, Part};
use crate::options::Options;
use crate::plan::Template;
use crate::plans::Plans;
use crate::prepare_error::PrepareError;
use crate::prepare_error::{CompileError, too_many_axes};
use crate::scratch::{Cached, Scratch, with_cached};
use crate::team::{RunError, Team};
use millstream_loops::level::Level;

/// A nest, compiled for every template that can run it.
#[derive(Debug)]
pub(crate) struct NestCode {
    /// Unique in this process, and not 0.
    id: u64,
    nest: Nest,
    plans: Plans,
    /// The direction of rows, if the blocking sets it.
    rows: Option<Rows>,
}

/// Removes the reductions of a nest without inner axes: each row is one element, which is its own sum, and at index
/// 0.
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

/// Returns the blockings of a nest, with registers of these lengths besides the usual ones.
pub(crate) fn blockings(nest: &Nest, vectors: &[u8]) -> Vec<Blocking> {
    let mut ways = vec![Blocking::DEFAULT];
    if nest.inner > 0 {
        ways.extend([Rows::Along, Rows::Across].map(|rows| Blocking::DEFAULT.rows(rows)));
    }
    let narrow = |way: Blocking| vectors.iter().map(move |len| way.vector(*len));
    let all = ways
        .into_iter()
        .flat_map(|way| [way].into_iter().chain(narrow(way)));
    // The first is the default.
    all.skip(1).collect()
}

/// Launches that a thread caches: a loop over a handful of kernels finds each of them.
const PREPARED_MAX: usize = 8;

thread_local! {
    static LAUNCHES: Cached<[Prepared; PREPARED_MAX]> = const { Cell::new(None) };
}

/// A checked and partitioned launch, with its arguments: a launch with the same bindings and words skips the checks.
#[derive(Default)]
struct Prepared {
    /// The id of the nest; 0 if nothing is prepared.
    of: u64,
    views: Vec<NativeView>,
    words: Vec<u64>,
    window: Option<Window>,
    launch: Launch,
    /// The number of the plan, and whether it is the one with machine code.
    plan: usize,
    fuses: bool,
    /// Rows, or tiles, of the whole launch, and of a piece of it.
    rows: usize,
    in_piece: usize,
}

impl Prepared {
    /// Prepares a launch that is not empty.
    fn prepare(
        &mut self,
        code: &NestCode,
        views: &[NativeView],
        words: &[u64],
        window: Option<Window>,
    ) -> Result<(), PrepareError> {
        self.of = 0;
        let launch = &mut self.launch;
        let fuses = code.plans.fuses(launch.elements());
        let (mut choices, mut number) = (code.plans.choices(), 0);
        let (variant, plan) = loop {
            let variants = choices.next().unwrap_or_default();
            let chosen = code.choose(variants, launch, words);
            let plan = variants[chosen].plan(&code.nest, fuses);
            launch.prepare(&code.nest, plan, views, words, window)?;
            if choices.len() == 0 || launch.may_have_long_runs(plan) {
                number += chosen;
                break (&variants[chosen], plan);
            }
            number += variants.len();
            launch.measure(&code.nest, views, words)?;
        };
        tile(launch, plan, &variant.over_tiles);
        let rows = match plan.template {
            Template::Row => launch.outer.total,
            Template::Column => launch.tiles.count,
        };
        let elements = launch.elements();
        self.in_piece = match elements > PIECE_ELEMENTS && launch.rows_are_disjoint(plan) {
            true => (PIECE_ELEMENTS * rows / elements).clamp(1, rows),
            false => rows,
        };
        launch.scatter_is_sole_store &= elements > PIECE_ELEMENTS;
        (self.plan, self.fuses, self.rows) = (number, fuses, rows);
        self.views.clear();
        self.views.extend_from_slice(views);
        self.words.clear();
        self.words.extend_from_slice(words);
        self.window = window;
        self.of = code.id;
        Ok(())
    }
}

/// Elements of a piece: some ten microseconds of work, so that a handful of threads share any launch that is worth a
/// wake.
const PIECE_ELEMENTS: usize = 1 << 15;

impl NestCode {
    pub(crate) fn compile(
        nest: &Nest,
        level: Level,
        options: Options,
    ) -> Result<Self, CompileError> {
        let axes = nest.outer.max(nest.inner);
        if axes > crate::AXES_MAX {
            return Err(too_many_axes(axes));
        }
        let nest = with_rows_of_one(nest.clone());
        /// The id of the next nest.
        static ID: AtomicU64 = AtomicU64::new(1);
        Ok(Self {
            // Relaxed: the ids only have to differ.
            id: ID.fetch_add(1, Ordering::Relaxed),
            plans: Plans::of(&nest, level, options)?,
            nest,
            rows: options.blocking.rows,
        })
    }

    /// As [`Code::run`](crate::Code::run), for a window of the outer axes if there is one.
    ///
    /// # Safety
    /// As for [`Code::run`](crate::Code::run).
    pub(crate) unsafe fn run(
        &self,
        views: &[NativeView],
        words: &[u64],
        window: Option<Window>,
        team: &mut dyn Team,
    ) -> Result<(), RunError> {
        with_cached(&LAUNCHES, |launches| {
            let prepared = &mut launches[self.id as usize % PREPARED_MAX];
            // SAFETY: the caller's promises.
            unsafe { self.run_with(prepared, views, words, window, team) }
        })
    }

    unsafe fn run_with(
        &self,
        prepared: &mut Prepared,
        views: &[NativeView],
        words: &[u64],
        window: Option<Window>,
        team: &mut dyn Team,
    ) -> Result<(), RunError> {
        let is_known = prepared.of == self.id
            && prepared.words == words
            && prepared.views == views
            && prepared.window == window;
        let is_settled = prepared.fuses || !self.plans.fuses(0);
        if !is_known || !is_settled {
            prepared.of = 0;
            if !prepared.launch.measure(&self.nest, views, words)? {
                return Ok(());
            }
            prepared.prepare(self, views, words, window)?;
        }
        let launch = &prepared.launch;
        let plan = self.plans.plan(&self.nest, prepared.plan, prepared.fuses);
        self.plans.ran();
        let job = Job {
            nest: &self.nest,
            plan,
            launch,
            views,
            words,
            places: Part::ALL,
        };
        let (rows, in_piece) = (prepared.rows, prepared.in_piece);
        let threads = team.threads() as u64;
        // Every thread visits all rows, and scatters only to its own share of the indices.
        let splits_scatter = launch.scatter_is_sole_store && threads > 1;
        let work = |pieces: Range<u64>| {
            let (mut job, mut own) = (job, 0..rows);
            if splits_scatter {
                job.places = Part {
                    first: pieces.start,
                    end: pieces.end,
                    of: threads,
                };
            } else {
                own.start = pieces.start as usize * in_piece;
                own.end = rows.min(pieces.end as usize * in_piece);
            }
            Scratch::with(|scratch| {
                // SAFETY: the launch was prepared from these views and words; each piece runs once, or each index
                // belongs to one part; the caller's promises.
                unsafe { Machine::new(job, scratch).run(own) };
            });
        };
        let pieces = match splits_scatter {
            true => threads,
            false => rows.div_ceil(in_piece) as u64,
        };
        if pieces == 1 {
            work(0..1);
            return Ok(());
        }
        let ns = (launch.elements() as u64).saturating_mul(plan.cost) / COST_UNIT;
        team.share(pieces, ns, &work).map_err(RunError::Panic)
    }
}
