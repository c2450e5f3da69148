//! The loops of a nest for each kind.

use super::emit::{Emit, Values};
use super::{CUBE_THREADS, Kind, Plan, ROW_THREADS, ROWS_A_CUBE, THREADS};
use crate::nest::{AccessId, Nest, Op, ValueId, Word};
use crate::scalar::{combines, neutral};
use crate::ssa::{Axis, Builder, Function, MemoryRef, Position, Scope, Val};
use crate::{BinaryOp, CompareOp, DType, ProgramError, ReduceOp};

/// Returns the function of a valid nest.
pub(super) fn function(nest: &Nest, kind: Kind) -> Result<Function, ProgramError> {
    let (name, threads, lanes) = match kind {
        Kind::Thread { lanes } => ("threads", [THREADS, 1, 1], lanes),
        Kind::Row => ("rows", [ROW_THREADS, ROWS_A_CUBE, 1], 1),
        Kind::Cube => ("cubes", [CUBE_THREADS, 1, 1], 1),
    };
    let k = Builder::new(name, threads);
    let buffers = nest.buffers.iter().enumerate();
    let buffers = buffers.map(|(index, buffer)| {
        // The mode is that of the nest: this level does not know whether stores cover the whole buffer.
        k.param(format!("b{index}"), buffer.dtype, buffer.mode)
    });
    let buffers = buffers.collect();
    let words: Vec<Val<'_>> = (0..nest.words)
        .map(|word| k.scalar(format!("w{word}"), DType::U64))
        .collect();
    let rows = Rows::new(Emit {
        k: &k,
        nest,
        words: &words,
        buffers,
        lanes,
        product: None,
    });
    match kind {
        Kind::Thread { .. } => rows.thread_rows(),
        Kind::Row => rows.team_rows(Scope::Subgroup(ROW_THREADS)),
        Kind::Cube => rows.team_rows(Scope::Cube),
    }
    drop(rows);
    k.build()
}

/// The rows of a nest.
pub(super) struct Rows<'k, 'n> {
    emit: Emit<'k, 'n>,
    plan: Plan,
}

impl<'k, 'n> Rows<'k, 'n> {
    pub(super) fn new(emit: Emit<'k, 'n>) -> Self {
        let plan = Plan::of(emit.nest);
        Self { emit, plan }
    }

    /// Each thread computes its own rows, `lanes` neighbouring ones at once.
    fn thread_rows(&self) {
        let Emit { k, nest, lanes, .. } = self.emit;
        let rows = self.emit.volume(0..nest.outer) / i64::from(lanes);
        k.range(k.index(), rows, k.count(), |nth| {
            let outer = self.emit.unravel(0..nest.outer, nth * i64::from(lanes));
            self.whole_row(&outer);
        });
    }

    /// Computes the row at an index of the outer axes by one thread.
    pub(super) fn whole_row(&self, outer: &[Val<'k>]) {
        let known = self.row(outer, None, |element| {
            self.loop_over(&mut outer.to_vec(), self.emit.k.constant(0), element);
        });
        self.stores(outer, &known);
    }

    /// A team computes each row: a cube, or the threads of a cube that differ along x alone.
    fn team_rows(&self, team: Scope) {
        let Emit { k, nest, .. } = self.emit;
        let rows = self.emit.volume(0..nest.outer);
        let len = self.emit.volume(nest.outer..nest.rank());
        let (cube, cubes) = (k.cube(), k.cubes());
        let body = |row: Val<'k>, valid: Option<Val<'k>>| {
            let outer = self.emit.unravel(0..nest.outer, row);
            // A team without a row takes part in all reductions and barriers, with 0 elements.
            let end = valid.map_or(len, |valid| valid.select(len, 0));
            let known = self.row(&outer, Some(team), |element| {
                k.range(k.thread(), end, k.threads(), |nth| {
                    let inner = self.emit.unravel(nest.outer..nest.rank(), nth);
                    element(&[&outer[..], &inner].concat(), nth);
                });
            });
            if !self.plan.stores.is_empty() {
                // A reduction of the threads of a row orders no memory: another thread may still load the element that
                // is stored.
                if team != Scope::Cube && self.stores_what_rows_read() {
                    k.barrier();
                }
                let first = k.thread().eq(0);
                let stores = valid.map_or(first, |valid| first & valid);
                k.when(stores, || self.stores(&outer, &known));
            }
        };
        match team {
            Scope::Cube => k.range(cube, rows, cubes, |row| body(row, None)),
            Scope::Subgroup(_) => {
                let many = i64::from(ROWS_A_CUBE);
                k.range(cube * many, rows, cubes * many, |base| {
                    let row = base + k.position(Position::Thread, Axis::Y);
                    body(row.binary(BinaryOp::Min, rows - 1), Some(row.lt(rows)));
                });
            }
        }
    }

    /// Returns `true` if a store once for each row is to a buffer that rows load from.
    fn stores_what_rows_read(&self) -> bool {
        let nest = self.emit.nest;
        let buffer = |access: AccessId| nest.accesses[usize::from(access)].buffer;
        let reads = |wanted| {
            let mut values = nest.values.iter();
            values.any(|value| matches!(value.op, Op::Load(access) if buffer(access) == wanted))
        };
        let mut stores = self.plan.stores.iter();
        stores.any(|store| reads(buffer(nest.stores[*store].access)))
    }

    /// Computes the values of a row, pass by pass, and performs the stores of its elements. `elements` loops over them, for
    /// each with its index along all axes and its number within the row.
    fn row(
        &self,
        outer: &[Val<'k>],
        team: Option<Scope>,
        elements: impl Fn(&mut dyn FnMut(&[Val<'k>], Val<'k>)),
    ) -> Values<'k> {
        let Emit { k, nest, lanes, .. } = self.emit;
        let mut known: Values<'k> = vec![None; nest.values.len()];
        let compute = |ids: &[ValueId], at: &[Val<'k>], known: &mut Values<'k>| {
            for id in ids {
                known[usize::from(*id)] = Some(self.emit.value(*id, at, known));
            }
        };
        compute(&self.plan.row_values, outer, &mut known);
        for pass in &self.plan.passes {
            let found = pass.reduces.iter().map(|(id, op, of)| {
                let dtype = nest.values[usize::from(*of)].dtype;
                (*id, *of, Accumulator::new(k, *op, dtype, lanes))
            });
            let found: Vec<_> = found.collect();
            elements(&mut |at, nth| {
                let mut known = known.clone();
                compute(&pass.inner, at, &mut known);
                for (_, of, found) in &found {
                    if let Some(value) = known[usize::from(*of)] {
                        found.add(value, nth);
                    }
                }
                for store in &pass.stores {
                    self.emit.store(*store, at, &known);
                }
            });
            for (id, _, found) in &found {
                known[usize::from(*id)] = Some(found.result(team));
            }
            compute(&pass.row_values, outer, &mut known);
        }
        known
    }

    /// Performs the stores once for each row.
    fn stores(&self, outer: &[Val<'k>], known: &Values<'k>) {
        for store in &self.plan.stores {
            self.emit.store(*store, outer, known);
        }
    }

    /// Loops over the elements of a row in order: along the axes behind those of the index.
    fn loop_over(
        &self,
        at: &mut Vec<Val<'k>>,
        nth: Val<'k>,
        body: &mut dyn FnMut(&[Val<'k>], Val<'k>),
    ) {
        let axis = at.len();
        if axis == self.emit.nest.rank() {
            return body(at, nth);
        }
        let len = self.emit.number(axis as Word);
        self.emit.k.range(0, len, 1, |index| {
            at.push(index);
            self.loop_over(at, nth * len + index, body);
            at.pop();
        });
    }
}

// Reductions: the accumulator of a thread, and the combination of the threads of a team.

/// The index of a thread that has seen no element. No element has it.
const NO_INDEX: i64 = i64::MAX;

/// The accumulator of a reduction.
pub(super) struct Accumulator<'k> {
    k: &'k Builder,
    op: ReduceOp,
    /// The result so far, one for each lane.
    best: MemoryRef<'k>,
    /// The index of the result, for reductions that return it.
    index: Option<MemoryRef<'k>>,
    lanes: u8,
}

impl<'k> Accumulator<'k> {
    /// Creates an accumulator with the neutral element.
    pub(super) fn new(k: &'k Builder, op: ReduceOp, dtype: DType, lanes: u8) -> Self {
        let best = k.local("reduced", dtype, lanes.into());
        best.set(0, k.bits(dtype, neutral(op, dtype)).splat(lanes));
        let index = combines(op).is_none().then(|| {
            let index = k.local("place", DType::I64, lanes.into());
            index.set(0, k.constant(NO_INDEX).splat(lanes));
            index
        });
        Self {
            k,
            op,
            best,
            index,
            lanes,
        }
    }

    /// Adds element number `nth` of the row.
    pub(super) fn add(&self, value: Val<'k>, nth: Val<'k>) {
        let value = if value.of().lanes == self.lanes {
            value
        } else {
            value.splat(self.lanes)
        };
        let best = self.best.get_wide(0, self.lanes);
        if let Some(by) = combines(self.op) {
            self.best.set(0, best.binary(by, value));
        }
        let Some(index) = self.index else { return };
        let so_far = index.get_wide(0, self.lanes);
        let better = match self.op {
            ReduceOp::ArgMin => value.lt(best),
            _ => value.compare(CompareOp::Gt, best),
        };
        let none = so_far.eq(self.k.constant(NO_INDEX).splat(self.lanes));
        let nan = is_nan(value) & !is_nan(best);
        let taken = better | nan | none;
        self.best.set(0, taken.select(value, best));
        index.set(0, taken.select(nth.splat(self.lanes), so_far));
    }

    /// Returns the result of all threads of the team, known to all of them; without a team, of this thread.
    pub(super) fn result(&self, team: Option<Scope>) -> Val<'k> {
        let together = |value: Val<'k>, op| match team {
            None => value,
            Some(Scope::Cube) => value.reduce(op),
            Some(Scope::Subgroup(width)) => value.reduce_subgroup(width, op),
        };
        let best = self.best.get_wide(0, self.lanes);
        let Some(index) = self.index else {
            return together(best, self.op);
        };
        let index = index.get_wide(0, self.lanes);
        let none = self.k.constant(NO_INDEX).splat(self.lanes);
        let found = match team {
            None => index,
            Some(_) => {
                let op = match self.op {
                    ReduceOp::ArgMin => ReduceOp::Min,
                    _ => ReduceOp::Max,
                };
                let all = together(best, op);
                // The first index with the best value. NaN equals nothing, itself included.
                let has = best.eq(all) | (is_nan(best) & is_nan(all));
                together(has.select(index, none), ReduceOp::Min)
            }
        };
        let zero = self.k.constant(0).splat(self.lanes);
        found.eq(none).select(zero, found)
    }
}

fn is_nan(value: Val<'_>) -> Val<'_> {
    value.compare(CompareOp::Ne, value)
}
