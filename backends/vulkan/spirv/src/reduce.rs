//! Reductions of the threads of a cube or row: a tree in shared memory, whose order is always the same.
//!
//! ```text
//!  threads   0   1   2   3   4   5        each thread stores its value; barrier
//!  step 4    0+4 1+5 2   3                the lower half adds the upper one; barrier
//!  step 2    0+2 1+3
//!  step 1    0+1                          all threads load the first value; barrier
//! ```
//! It needs no subgroups, so it is correct for every width of them.

use millstream_ir::ssa::Scope;
use millstream_ir::{DType, ReduceOp, scalar};
use rspirv::spirv::{Op, StorageClass, Word};

use crate::LowerError;
use crate::body::{Body, Lane};

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
        let whole = self.unit.emit.of(DType::U32);
        let rank = match scope {
            Scope::Cube => thread,
            Scope::Row => self.unit.emit.op(Op::UMod, whole, &[thread, width_id]),
        };
        let mine = self.reduced_place(array, dtype, thread);
        self.store_reduced(mine, dtype, value);
        self.unit.emit.barrier();
        let mut step = width.next_power_of_two() / 2;
        while step > 0 {
            // Without a partner beyond the width, which need not be a power of two.
            let partners = self.unit.emit.u32(step.min(width - step));
            let bool = self.unit.emit.bool();
            let emit = &mut self.unit.emit;
            let has_partner = emit.op(Op::ULessThan, bool, &[rank, partners]);
            let [inside, merge] = [0; 2].map(|_| emit.id());
            emit.selection(merge);
            emit.branch_if(has_partner, inside, merge);
            emit.open(inside);
            let distance = emit.u32(step);
            let partner = emit.op(Op::IAdd, whole, &[thread, distance]);
            let theirs = self.reduced_place(array, dtype, partner);
            let [a, b] = [mine, theirs].map(|place| self.load_reduced(place, dtype));
            let both = self.binary(by, dtype, a, b)?;
            self.store_reduced(mine, dtype, both);
            let emit = &mut self.unit.emit;
            emit.branch(merge);
            emit.open(merge);
            emit.barrier();
            step /= 2;
        }
        let first = self.unit.emit.op(Op::ISub, whole, &[thread, rank]);
        let first = self.reduced_place(array, dtype, first);
        let result = self.load_reduced(first, dtype);
        // All threads have loaded the result before a later reduction overwrites it.
        self.unit.emit.barrier();
        Ok(result.id)
    }

    fn reduced_place(&mut self, array: Word, dtype: DType, index: Word) -> Word {
        let emit = &mut self.unit.emit;
        let element = emit.of(stored(dtype));
        let pointer = emit.pointer(StorageClass::Workgroup, element);
        emit.op(Op::AccessChain, pointer, &[array, index])
    }

    fn load_reduced(&mut self, place: Word, dtype: DType) -> Lane {
        let element = self.unit.emit.of(stored(dtype));
        let loaded = self.unit.emit.load(element, place, None);
        let id = self.cast(stored(dtype), dtype, loaded);
        Lane { id, bits: None }
    }

    fn store_reduced(&mut self, place: Word, dtype: DType, value: Word) {
        let value = self.cast(dtype, stored(dtype), value);
        self.unit.emit.store(place, value, None);
    }
}

/// Returns the type in shared memory: a bool has 32 bits, which every device supports there.
pub(crate) fn stored(dtype: DType) -> DType {
    match dtype {
        DType::Bool => DType::U32,
        dtype => dtype,
    }
}
