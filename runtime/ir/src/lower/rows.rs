//! The loops of a nest: who walks which row.

use super::emit::{Emit, Known};
use super::passes::{Pass, Plan};
use super::reduce::Accumulator;
use super::{CUBE_THREADS, Kind, ROW_THREADS, ROWS_A_CUBE, THREADS};
use crate::nest::{AccessId, Nest, Op, Word};
use crate::ssa::{Axis, Builder, Function, Position, Scope, SsaError, Val};
use crate::{BinaryOp, DType};

/// The function of a nest that was checked.
pub(super) fn function(nest: &Nest, kind: Kind) -> Result<Function, SsaError> {
    let (name, threads, lanes) = match kind {
        Kind::Thread { lanes } => ("threads", [THREADS, 1, 1], lanes),
        Kind::Row => ("rows", [ROW_THREADS, ROWS_A_CUBE, 1], 1),
        Kind::Cube => ("cubes", [CUBE_THREADS, 1, 1], 1),
    };
    let k = Builder::new(name, threads);
    let buffers = nest.buffers.iter().enumerate();
    let buffers = buffers.map(|(index, buffer)| {
        // A store may leave bytes as they are, and a row be walked twice: what the caller says of them is not for this level.
        k.param(format!("b{index}"), buffer.dtype, buffer.mode)
    });
    let buffers = buffers.collect();
    let words: Vec<Val<'_>> = (0..nest.words)
        .map(|word| k.scalar(format!("w{word}"), DType::U64))
        .collect();
    let rows = Rows {
        emit: Emit {
            k: &k,
            nest,
            words: &words,
            buffers,
            lanes,
            product: None,
        },
        plan: Plan::of(nest),
    };
    match kind {
        Kind::Thread { .. } => rows.threads(),
        Kind::Row => rows.teams(Scope::Row),
        Kind::Cube => rows.teams(Scope::Cube),
    }
    drop(rows);
    k.build()
}

struct Rows<'k, 'n> {
    emit: Emit<'k, 'n>,
    plan: Plan,
}

impl<'k> Rows<'k, '_> {
    /// Each thread walks rows of its own; `lanes` neighbouring ones at once.
    fn threads(&self) {
        let Emit { k, nest, lanes, .. } = self.emit;
        let rows = self.emit.volume(0..nest.outer) / i64::from(lanes);
        k.range(k.index(), rows, k.count(), |nth| {
            let outer = self.emit.unravel(0..nest.outer, nth * i64::from(lanes));
            let mut known = self.first(&outer);
            for pass in &self.plan.passes {
                let found = self.accumulators(pass);
                self.in_order(&outer, &mut |at, nth| {
                    self.element(pass, at, nth, &known, &found);
                });
                self.after(pass, &outer, &mut known, &found, None);
            }
            self.stores(&outer, &known);
        });
    }

    /// Each row is walked by a team, which is a cube or one row of its threads.
    fn teams(&self, team: Scope) {
        let Emit { k, nest, .. } = self.emit;
        let rows = self.emit.volume(0..nest.outer);
        let len = self.emit.volume(nest.outer..nest.rank());
        let (cube, cubes) = (k.cube(), k.cubes());
        let body = |row: Val<'k>, valid: Option<Val<'k>>| {
            let outer = self.emit.unravel(0..nest.outer, row);
            // A team without a row comes along to where all meet, and walks nothing.
            let end = valid.map_or(len, |valid| valid.select(len, 0));
            let mut known = self.first(&outer);
            for pass in &self.plan.passes {
                let found = self.accumulators(pass);
                k.range(k.thread(), end, k.threads(), |nth| {
                    let inner = self.emit.unravel(nest.outer..nest.rank(), nth);
                    let at: Vec<Val<'k>> = outer.iter().copied().chain(inner).collect();
                    self.element(pass, &at, nth, &known, &found);
                });
                self.after(pass, &outer, &mut known, &found, Some(team));
            }
            if !self.plan.stores.is_empty() {
                // Threads of a row meet in what they reduce, which orders no memory: what is stored may still be read by another of them.
                if team == Scope::Row && self.stores_what_rows_read() {
                    k.barrier();
                }
                let first = k.thread().eq(0);
                let stores = valid.map_or(first, |valid| first & valid);
                k.when(stores, || self.stores(&outer, &known));
            }
        };
        match team {
            Scope::Cube => k.range(cube, rows, cubes, |row| body(row, None)),
            Scope::Row => {
                let many = i64::from(ROWS_A_CUBE);
                k.range(cube * many, rows, cubes * many, |base| {
                    let row = base + k.position(Position::Thread, Axis::Y);
                    body(row.binary(BinaryOp::Min, rows - 1), Some(row.lt(rows)));
                });
            }
        }
    }

    /// Is anything that is stored once a row in a buffer that is read as well?
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

    /// What is made once a row before it is walked.
    fn first(&self, outer: &[Val<'k>]) -> Known<'k> {
        let mut known: Known<'k> = vec![None; self.emit.nest.values.len()];
        for id in &self.plan.first {
            known[usize::from(*id)] = Some(self.emit.value(*id, outer, &known));
        }
        known
    }

    fn accumulators(&self, pass: &Pass) -> Vec<Accumulator<'k>> {
        let Emit { k, nest, lanes, .. } = self.emit;
        let reduces = pass.reduces.iter();
        reduces
            .map(|(_, op, of)| Accumulator::new(k, *op, nest.values[usize::from(*of)].dtype, lanes))
            .collect()
    }

    /// One element of a walk.
    fn element(
        &self,
        pass: &Pass,
        at: &[Val<'k>],
        nth: Val<'k>,
        known: &Known<'k>,
        found: &[Accumulator<'k>],
    ) {
        let mut known = known.clone();
        for id in &pass.inner {
            known[usize::from(*id)] = Some(self.emit.value(*id, at, &known));
        }
        for ((_, _, of), found) in pass.reduces.iter().zip(found) {
            if let Some(value) = known[usize::from(*of)] {
                found.add(value, nth);
            }
        }
        for store in &pass.stores {
            self.emit.store(*store, at, &known);
        }
    }

    /// What is made once a row behind a walk.
    fn after(
        &self,
        pass: &Pass,
        outer: &[Val<'k>],
        known: &mut Known<'k>,
        found: &[Accumulator<'k>],
        team: Option<Scope>,
    ) {
        for ((id, _, _), found) in pass.reduces.iter().zip(found) {
            known[usize::from(*id)] = Some(found.result(team));
        }
        for id in &pass.after {
            known[usize::from(*id)] = Some(self.emit.value(*id, outer, known));
        }
    }

    /// The stores that are made once a row.
    fn stores(&self, outer: &[Val<'k>], known: &Known<'k>) {
        for store in &self.plan.stores {
            self.emit.store(*store, outer, known);
        }
    }

    /// Does something for each element of a row, in order: with its index along all axes, and its number in the row.
    fn in_order(&self, outer: &[Val<'k>], body: &mut dyn FnMut(&[Val<'k>], Val<'k>)) {
        let first = self.emit.k.constant(0);
        let mut at = outer.to_vec();
        self.loop_over(&mut at, first, body);
    }

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
