//! Loads.

use std::ptr;

use super::Machine;
use super::active::Active;
use super::elements::{self, Memory};
use super::ramps::Run;
use crate::code::{Access, Affine, At, Operand, Target};

impl Machine<'_> {
    pub(super) fn load(
        &self,
        access: &Access,
        to: &[Operand],
        direct: Option<Operand>,
        active: Active,
    ) {
        let memory = self.memory(access);
        if let Some(direct) = direct {
            self.load_direct(access, memory, [to[0], direct], active);
        } else {
            self.load_lanes(access, memory, to, active);
        }
        if access.is_bool {
            to.iter().for_each(|to| self.normalize(*to, active));
        }
    }

    /// Makes bools 0 or 1: any byte but 0 is true.
    fn normalize(&self, bools: Operand, active: Active) {
        let threads = if bools.is_scalar() {
            0..1
        } else {
            active.first..active.end
        };
        for thread in threads {
            let place = self.pointer(bools, thread);
            // SAFETY: the element exists.
            unsafe { *place = u8::from(*place != 0) };
        }
    }

    /// Lets a place be the memory itself, if its elements are those of the threads in order; otherwise a column.
    fn load_direct(
        &self,
        access: &Access,
        memory: Memory,
        [to, column]: [Operand; 2],
        active: Active,
    ) {
        let At::Affine(value) = access.at else {
            unreachable!("indices of direct loads are affine")
        };
        let mut found = ptr::null_mut();
        if !memory.shared {
            self.runs(value, active, |run| {
                let is_all = run.stride == 1 && run.len == active.end - active.first;
                if is_all && let Some(first) = Self::checked(access, memory, run) {
                    let first = memory.pointer.wrapping_add(first * memory.size);
                    found = first.wrapping_sub(active.first * memory.size);
                }
                false
            });
        }
        let is_column = found.is_null();
        if is_column {
            found = self.pointer(column, 0);
        }
        // SAFETY: the table has the place.
        unsafe { *self.table.add(to.place as usize) = found };
        if is_column {
            self.load_lanes(access, memory, &[to], active);
        }
    }

    fn load_lanes(&self, access: &Access, memory: Memory, to: &[Operand], active: Active) {
        if let Target::Local { .. } = access.target {
            return self.load_locals(access, memory, to, active);
        }
        let Active { first, end, .. } = active;
        match access.at {
            At::Scalar(_) => {
                let index = self.index(access, memory, first);
                for (lane, to) in to.iter().enumerate() {
                    // SAFETY: the index is within the memory.
                    self.set(to.place, unsafe { memory.get(index + lane) });
                }
                return;
            }
            At::Affine(value) => {
                if value.linear.is_none() && self.load_rows(access, memory, value, to, active) {
                    return;
                }
                if to.len() > 1 && self.load_neighbours(access, memory, value, to, active) {
                    return;
                }
                let load = |run: Run| {
                    let Some(index) = Self::checked(access, memory, run) else {
                        return false;
                    };
                    for (lane, to) in to.iter().enumerate() {
                        let (d, stride) = (self.pointer(*to, run.thread), run.stride as isize);
                        // SAFETY: all elements of the run are within the memory, and the column has one for each thread.
                        unsafe { memory.load_run(index + lane, stride, d, run.len) };
                    }
                    true
                };
                // Of all threads there are fewer runs, but others than the active ones may be out of bounds.
                if self.runs(value, active, load)
                    || active.mask.is_some() && self.active_runs(value, active, load)
                {
                    return;
                }
            }
            At::Column(indices) => {
                if let Some(indices) = self.indices(access, memory, indices, active) {
                    for (lane, to) in to.iter().enumerate() {
                        // SAFETY: all indices are within the memory, and the column has an element for each thread.
                        unsafe { memory.gather(indices, lane, self.pointer(*to, first)) };
                    }
                    return;
                }
            }
        }
        for thread in (first..end).filter(|thread| active.has(*thread)) {
            let index = self.index(access, memory, thread);
            for (lane, to) in to.iter().enumerate() {
                // SAFETY: the index is within the memory, and the column has an element for each thread.
                unsafe {
                    let bits = memory.get(index + lane);
                    elements::write(self.pointer(*to, thread), access.size, bits);
                }
            }
        }
    }

    /// Loads rows, if all threads access memory in bounds.
    fn load_rows(
        &self,
        access: &Access,
        memory: Memory,
        value: Affine,
        to: &[Operand],
        active: Active,
    ) -> bool {
        let Some(rows) = self.rows(value, active) else {
            return false;
        };
        let [x, y] = rows.strides;
        let len = rows.count;
        let in_bounds = |column: i64| {
            let first = rows.first.checked_add(column)?;
            let run = Run {
                thread: rows.thread,
                len,
                first,
                stride: y,
            };
            Self::checked(access, memory, run)
        };
        let last = x.checked_mul(rows.width as i64 - 1);
        let is_aligned = x & (access.lanes as i64 - 1) == 0;
        let (Some(first), Some(_), true) = (in_bounds(0), last.and_then(in_bounds), is_aligned)
        else {
            return false;
        };
        for (lane, to) in to.iter().enumerate() {
            let d = self.pointer(*to, rows.thread);
            let strides = [x as isize, y as isize];
            if let Some(run) = self.code.loops.rows
                && memory.size == 4
                && !memory.shared
                && matches!(x, 0 | 1)
            {
                let apart = (&raw const strides[1]).cast();
                // SAFETY: as below.
                unsafe {
                    let from = memory.pointer.add((first + lane) * memory.size);
                    run[x as usize](d, from, apart, apart, len);
                }
                continue;
            }
            // SAFETY: the corners of the rows are within the memory, so all elements are; the column has one for each thread.
            unsafe { memory.load_rows(first + lane, strides, d, [rows.width, len]) };
        }
        true
    }

    /// Loads the lanes of threads that are neighbours, if they are, by way of a copy of all of them.
    fn load_neighbours(
        &self,
        access: &Access,
        memory: Memory,
        value: Affine,
        to: &[Operand],
        active: Active,
    ) -> bool {
        let (lanes, n) = (access.lanes, active.end - active.first);
        let Some(index) = self.neighbours(access, memory, value, active) else {
            return false;
        };
        let staging = self.staging(memory);
        // SAFETY: all elements of the run are within the memory, there is room for a wide access of each thread, and the
        // columns have an element for each.
        unsafe {
            let from = match memory.shared {
                true => {
                    memory.load_run(index, 1, self.staging, n * lanes);
                    staging
                }
                false => Memory {
                    pointer: memory.pointer.add(index * memory.size),
                    ..memory
                },
            };
            for (lane, to) in to.iter().enumerate() {
                from.load_run(lane, lanes as isize, self.pointer(*to, active.first), n);
            }
        }
        true
    }

    fn load_locals(&self, access: &Access, memory: Memory, to: &[Operand], active: Active) {
        let Active { first, end, .. } = active;
        if let At::Scalar(_) = access.at {
            let index = self.index(access, memory, first);
            for (lane, to) in to.iter().enumerate() {
                let from = self
                    .local(memory, index + lane)
                    .wrapping_add(first * memory.size);
                if to.is_scalar() {
                    // SAFETY: the array has an element for each thread.
                    self.set(to.place, unsafe { elements::read(from, memory.size) });
                    continue;
                }
                let d = self.pointer(*to, first);
                // SAFETY: the array has an element for each thread, as the column has.
                unsafe { d.copy_from_nonoverlapping(from, (end - first) * memory.size) };
            }
            return;
        }
        for thread in active.threads() {
            let index = self.index(access, memory, thread);
            for (lane, to) in to.iter().enumerate() {
                let from = self
                    .local(memory, index + lane)
                    .wrapping_add(thread * memory.size);
                // SAFETY: as above.
                unsafe {
                    let bits = elements::read(from, memory.size);
                    elements::write(self.pointer(*to, thread), memory.size, bits);
                }
            }
        }
    }
}
