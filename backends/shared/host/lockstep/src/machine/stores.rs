//! Stores and atomic additions.

use millstream_ir::{BinaryOp, DType, scalar};

use super::Machine;
use super::active::Active;
use super::elements::{self, Memory};
use crate::code::{Access, Affine, At, Operand, Target};

impl Machine<'_> {
    /// Stores the lanes of threads that are neighbours, if they are, by way of a copy of all of them.
    fn store_neighbours(
        &self,
        access: &Access,
        memory: Memory,
        value: Affine,
        of: &[Operand],
        active: Active,
    ) -> bool {
        let (lanes, n) = (access.lanes, active.end - active.first);
        let Some(index) = self.neighbours(access, memory, value, active) else {
            return false;
        };
        let staging = self.staging(memory);
        // SAFETY: as in `load_neighbours`; the function may write the memory.
        unsafe {
            for (lane, of) in of.iter().enumerate() {
                let a = self.pointer(*of, active.first);
                match of.is_scalar() {
                    true => staging.store_run::<0>(lane, lanes as isize, a, n),
                    false => staging.store_run::<1>(lane, lanes as isize, a, n),
                }
            }
            memory.store_run::<1>(index, 1, self.staging, n * lanes);
        }
        true
    }

    pub(super) fn store(&self, access: &Access, value: &[Operand], active: Active) {
        let memory = self.memory(access);
        if let Target::Local { .. } = access.target {
            return self.store_locals(access, memory, value, active);
        }
        let Active { first, mask, .. } = active;
        match access.at {
            At::Scalar(_) => {
                let index = self.index(access, memory, first);
                // The last thread's value remains. It is active.
                let last = active.end - 1;
                for (lane, value) in value.iter().enumerate() {
                    // SAFETY: the index is within the memory, which the function may write.
                    unsafe { memory.set(index + lane, self.bits(*value, last)) };
                }
                return;
            }
            At::Affine(at) => {
                let is_wide = value.len() > 1 && mask.is_none();
                if is_wide && self.store_neighbours(access, memory, at, value, active) {
                    return;
                }
                let is_done = self.active_runs(at, active, |run| {
                    let Some(index) = Self::checked(access, memory, run) else {
                        return false;
                    };
                    for (lane, value) in value.iter().enumerate() {
                        let (a, stride) = (self.pointer(*value, run.thread), run.stride as isize);
                        // SAFETY: all elements of the run are within the memory, which the function may write.
                        unsafe {
                            match value.is_scalar() {
                                true => memory.store_run::<0>(index + lane, stride, a, run.len),
                                false => memory.store_run::<1>(index + lane, stride, a, run.len),
                            }
                        }
                    }
                    true
                });
                if is_done {
                    return;
                }
            }
            At::Column(indices) => {
                if let Some(indices) = self.indices(access, memory, indices, active) {
                    for (lane, value) in value.iter().enumerate() {
                        let a = self.pointer(*value, first);
                        // SAFETY: all indices are within the memory, which the function may write.
                        unsafe {
                            match value.is_scalar() {
                                true => memory.scatter::<0>(indices, lane, a),
                                false => memory.scatter::<1>(indices, lane, a),
                            }
                        }
                    }
                    return;
                }
            }
        }
        for thread in active.threads() {
            let index = self.index(access, memory, thread);
            for (lane, value) in value.iter().enumerate() {
                // SAFETY: the index is within the memory, which the function may write.
                unsafe { memory.set(index + lane, self.bits(*value, thread)) };
            }
        }
    }

    fn store_locals(&self, access: &Access, memory: Memory, value: &[Operand], active: Active) {
        for thread in active.threads() {
            let index = self.index(access, memory, thread);
            for (lane, value) in value.iter().enumerate() {
                let to = self
                    .local(memory, index + lane)
                    .wrapping_add(thread * memory.size);
                // SAFETY: the array has an element for each thread.
                unsafe { elements::write(to, memory.size, self.bits(*value, thread)) };
            }
        }
    }

    pub(super) fn add(&self, access: &Access, value: Operand, dtype: DType, active: Active) {
        let memory = self.memory(access);
        if let At::Column(indices) = access.at
            && let Some(indices) = self.indices(access, memory, indices, active)
        {
            let a = self.pointer(value, active.first);
            // SAFETY: all indices are within the memory, which the function may write.
            return unsafe { memory.add(indices, dtype, a, usize::from(!value.is_scalar())) };
        }
        let Some(sum) = scalar::binary(BinaryOp::Add, dtype) else {
            unreachable!("the verifier has checked that the type has sums")
        };
        for thread in active.threads() {
            let index = self.index(access, memory, thread);
            let more = self.bits(value, thread);
            // SAFETY: the index is within the memory, which the function may write; the verifier allows elements of 4 and 8
            // bytes only.
            unsafe { memory.update(index, |bits| sum(bits, more)) };
        }
    }
}
