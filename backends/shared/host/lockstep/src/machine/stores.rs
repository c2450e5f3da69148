//! Stores and atomic operations.

use millstream_ir::ssa::AtomicOp;
use millstream_ir::{BinaryOp, DType};

use super::Machine;
use super::active::Active;
use super::elements::{self, Memory};
use super::ramps::Rows;
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
            return self.store_locals(access, memory, value, self.with_mask(active));
        }
        if self.cubes > 1 {
            let is_solid = active.mask.is_none() && self.is_solid(active.first, active.end);
            let is_column = matches!(access.at, At::Column(_));
            let differs = value
                .iter()
                .any(|value| value.is_scalar() && value.varies());
            let is_one_loop = !differs && (is_solid || is_column);
            if !is_one_loop || !self.is_one_loop(access, active) {
                if !differs && self.store_copies(access, value, active) {
                    return;
                }
                return self.each_cube(active, |one, active| one.store(access, value, active));
            }
        }
        let active = match access.at {
            At::Column(_) => self.with_mask(active),
            _ => active,
        };
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
                if at.linear.is_none()
                    && mask.is_none()
                    && self.cubes == 1
                    && let Some(rows) = self.rows_within(access, memory, at, active)
                {
                    return self.store_rows(memory, rows, value);
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

    /// Stores to elements of a shared array that are the same ones in each cube's copy of it, if they are in bounds.
    fn store_copies(&self, access: &Access, value: &[Operand], active: Active) -> bool {
        let (Target::Shared { .. }, At::Affine(at)) = (access.target, access.at) else {
            return false;
        };
        let cubes = self.cubes_of(active);
        if at.varies() || cubes.len() == 1 || active.mask.is_some() {
            return false;
        }
        let one = self.of_cube(cubes.start);
        let (memory, part) = (one.memory(access), self.part_of(active));
        let apart = (self.code.shared_bytes / memory.size) as isize;
        one.runs(at, part, |run| {
            let Some(index) = Self::checked(access, memory, run) else {
                return false;
            };
            for (lane, value) in value.iter().enumerate() {
                let a = one.pointer(*value, run.thread);
                let (strides, size) = ([run.stride as isize, apart], [run.len, cubes.len()]);
                // SAFETY: all elements of the run are within the array, as those of its copies are, which the function may
                // write.
                unsafe {
                    match value.is_scalar() {
                        true => memory.store_rows::<0>(index + lane, strides, a, size, self.span),
                        false => memory.store_rows::<1>(index + lane, strides, a, size, self.span),
                    }
                }
            }
            true
        })
    }

    /// Stores rows that are within the memory.
    fn store_rows(&self, memory: Memory, rows: Rows, value: &[Operand]) {
        let [x, y] = rows.strides.map(|stride| stride as isize);
        let (first, size) = (rows.first as usize, [rows.width, rows.count]);
        for (lane, value) in value.iter().enumerate() {
            let a = self.pointer(*value, rows.thread);
            // SAFETY: the corners of the rows are within the memory, so all elements are; the function may write it.
            unsafe {
                match value.is_scalar() {
                    true => memory.store_rows::<0>(first + lane, [x, y], a, size, rows.width),
                    false => memory.store_rows::<1>(first + lane, [x, y], a, size, rows.width),
                }
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

    /// Performs an atomic operation of each thread, one after the other, and writes what the elements were before.
    pub(super) fn atomic(
        &self,
        access: &Access,
        (op, dtype): (AtomicOp, DType),
        operands: [Operand; 2],
        to: Option<Operand>,
        active: Active,
    ) {
        let memory = self.memory(access);
        if let (AtomicOp::Update(BinaryOp::Add, _), None, At::Column(indices)) = (op, to, access.at)
            && let Some(indices) = self.indices(access, memory, indices, active)
        {
            let a = self.pointer(operands[0], active.first);
            // SAFETY: all indices are within the memory, which the function may write.
            return unsafe { memory.add(indices, dtype, a, usize::from(!operands[0].is_scalar())) };
        }
        let stored = op.function(dtype);
        for thread in active.threads() {
            let index = self.index(access, memory, thread);
            let operands = operands.map(|operand| self.bits(operand, thread));
            // SAFETY: the index is within the memory, which the function may write; the verifier allows elements of 4 and 8
            // bytes only.
            let before = unsafe {
                match op {
                    AtomicOp::Load => memory.get(index),
                    _ => memory.update(index, |bits| stored(bits, operands)),
                }
            };
            if let Some(to) = to {
                // SAFETY: the column has an element for each thread.
                unsafe { elements::write(self.pointer(to, thread), to.size as usize, before) };
            }
        }
    }
}
