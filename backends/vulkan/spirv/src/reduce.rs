//! Reductions of the threads of a cube or row: a tree in shared memory, whose order is always the same.
//!
//! ```text
//!  threads   0   1   2   3   4   5        each thread stores its value; barrier
//!  step 4    0+4 1+5 2   3                the lower half adds the upper one
//!  step 2    0+2 1+3
//!  step 1    0+1                          all threads load the first value; barrier
//! ```
//! A round is [`STEPS_MAX`] steps: fewer threads load more values each, so that only a round ends with a barrier. The
//! tree is the same for any number of steps in a round. It needs no subgroups, so it is correct for every width of
//! them. With subgroups a cube of 256 threads would have three barriers instead of five; a tree of one round, which has
//! as many, took 0 to 12% less processor time on lavapipe.

use millstream_ir::ssa::Scope;
use millstream_ir::{BinaryOp, DType, ReduceOp, scalar};
use spirv::{Op, StorageClass, Word};

use crate::LowerError;
use crate::body::Body;
use crate::interface::stored;

/// Steps of a round. On lavapipe kernels with three or four take 12 to 32% less processor time than with one.
const STEPS_MAX: u32 = 3;

/// A value of a round: of its threads, which all load several.
#[derive(Clone, Copy)]
struct Part {
    id: Word,
    /// Whether the thread has this value; `None` if all threads have it.
    exists: Option<Word>,
}

impl Body<'_> {
    pub(crate) fn reduce(
        &mut self,
        scope: Scope,
        op: ReduceOp,
        dtype: DType,
        value: Word,
    ) -> Result<Word, LowerError> {
        let threads: u32 = self.function.threads.iter().product();
        let width = match scope {
            Scope::Cube => threads,
            Scope::Row => self.function.threads[0],
        };
        if width == 1 {
            return Ok(value);
        }
        let Some(by) = scalar::combines(op) else {
            return Err(self.unsupported(op.to_string()));
        };
        let interface = self.interface().0;
        let (array, thread) = (interface.reduced[&dtype], interface.thread);
        // The threads of a row are neighbours.
        let width_id = self.unit.emit.u32(width);
        let rank = match scope {
            Scope::Cube => thread,
            Scope::Row => self.op(Op::UMod, DType::U32, &[thread, width_id]),
        };
        let mine = self.reduced_place(array, dtype, thread);
        self.store_reduced(mine, dtype, value);
        self.unit.emit.barrier();
        let mut left = width;
        while left > 1 {
            let whole_tree = left.next_power_of_two();
            let fewer = whole_tree >> STEPS_MAX.min(whole_tree.ilog2());
            let emit = &mut self.unit.emit;
            let fewer_id = emit.u32(fewer);
            let takes_part = emit.value(Op::ULessThan, DType::Bool, &[rank, fewer_id]);
            let [inside, merge] = [0; 2].map(|_| emit.id());
            emit.selection(merge);
            emit.branch_if(takes_part, inside, merge);
            emit.open(inside);
            let parts = self.parts((array, dtype), (thread, rank), fewer, left);
            let combined = self.combine_parts(by, dtype, parts)?;
            self.store_reduced(mine, dtype, combined);
            let emit = &mut self.unit.emit;
            emit.branch(merge);
            emit.open(merge);
            emit.barrier();
            left = fewer;
        }
        let first = self.op(Op::ISub, DType::U32, &[thread, rank]);
        let first = self.reduced_place(array, dtype, first);
        let result = self.load_reduced(first, dtype);
        // All threads have loaded the result before a later reduction overwrites it.
        self.unit.emit.barrier();
        Ok(result)
    }

    /// Loads what a thread of a round combines: the values at its own place and at each multiple of `fewer` after it, of
    /// the `left` values of its row.
    fn parts(
        &mut self,
        (array, dtype): (Word, DType),
        (thread, rank): (Word, Word),
        fewer: u32,
        left: u32,
    ) -> Vec<Part> {
        let mut load = |start: u32| {
            let emit = &mut self.unit.emit;
            let distance = emit.u32(start);
            let mut place = emit.value(Op::IAdd, DType::U32, &[thread, distance]);
            let mut exists = None;
            if left - start < fewer {
                let rest = emit.u32(left - start);
                let has = emit.value(Op::ULessThan, DType::Bool, &[rank, rest]);
                // A place within the array for the threads without the value.
                place = emit.value(Op::Select, DType::U32, &[has, place, thread]);
                exists = Some(has);
            }
            let place = self.reduced_place(array, dtype, place);
            let id = self.load_reduced(place, dtype);
            Part { id, exists }
        };
        (0..left).step_by(fewer as usize).map(&mut load).collect()
    }

    /// Combines the values of one thread by a tree: in each step the lower half takes the upper one.
    fn combine_parts(
        &mut self,
        by: BinaryOp,
        dtype: DType,
        mut parts: Vec<Part>,
    ) -> Result<Word, LowerError> {
        while parts.len() > 1 {
            let half = parts.len().next_power_of_two() / 2;
            let upper = parts.split_off(half);
            for (mine, theirs) in parts.iter_mut().zip(upper) {
                let both = self.binary(by, dtype, mine.id.into(), theirs.id.into())?;
                mine.id = match theirs.exists {
                    None => both,
                    Some(exists) => self.op(Op::Select, dtype, &[exists, both, mine.id]),
                };
            }
        }
        // The first value exists for every thread of the round.
        Ok(parts[0].id)
    }

    fn reduced_place(&mut self, array: Word, dtype: DType, index: Word) -> Word {
        let emit = &mut self.unit.emit;
        let element = emit.of(stored(dtype));
        let pointer = emit.pointer(StorageClass::Workgroup, element);
        emit.op(Op::AccessChain, pointer, &[array, index])
    }

    fn load_reduced(&mut self, place: Word, dtype: DType) -> Word {
        let loaded = self.op(Op::Load, stored(dtype), &[place]);
        self.cast(stored(dtype), dtype, loaded)
    }

    fn store_reduced(&mut self, place: Word, dtype: DType, value: Word) {
        let value = self.cast(dtype, stored(dtype), value);
        self.unit.emit.store(place, value, None);
    }
}
