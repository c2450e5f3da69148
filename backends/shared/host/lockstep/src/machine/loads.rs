//! Loads.

use std::ptr;

use super::Machine;
use super::active::Active;
use super::elements::{self, Memory};
use super::ramps::{Rows, Run};
use crate::code::{Access, Affine, At, Operand, Target, slot};

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
            for to in to {
                self.each_if(to.is_scalar() && to.varies(), active, |one, active| {
                    one.normalize(*to, active);
                });
            }
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
        if !memory.shared
            && let Some(run) = self.whole_run(value, active)
            && run.stride == 1
            && let Some(first) = Self::checked(access, memory, run)
        {
            let first = memory.pointer.wrapping_add(first * memory.size);
            found = first.wrapping_sub(active.first * memory.size);
        }
        let is_column = found.is_null();
        if is_column {
            found = self.pointer(column, 0);
        }
        // SAFETY: the table has the place.
        unsafe { *self.table.add(slot(to.place)) = found };
        if is_column {
            self.load_lanes(access, memory, &[to], active);
        }
    }

    fn load_lanes(&self, access: &Access, memory: Memory, to: &[Operand], active: Active) {
        if let Target::Local { .. } = access.target {
            return match to[0].is_scalar() {
                true => self.each_if(to[0].varies(), active, |one, active| {
                    one.load_same(access, memory, to, active);
                }),
                false => self.load_locals(access, memory, to, self.with_mask(active)),
            };
        }
        if self.cubes > 1 && !self.is_one_loop(access, active) {
            if self.load_copies(access, to, active) {
                return;
            }
            return match to[0].is_scalar() && !to[0].varies() {
                true => {
                    let one = self.of_cube(self.cubes_of(active).start);
                    one.load_lanes(access, memory, to, Active::all(1));
                }
                false => self.each_cube(active, |one, active| {
                    one.load_lanes(access, one.memory(access), to, active);
                }),
            };
        }
        let active = match access.at {
            At::Column(_) => self.with_mask(active),
            _ => active,
        };
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
                // Of several cubes the threads are one run: rows begin where those of the first cube do.
                if value.linear.is_none()
                    && self.cubes == 1
                    && let Some(rows) =
                        self.rows_within(access, memory, value, self.whole_rows(active))
                {
                    return self.load_rows(memory, rows, to);
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
                if let Some(index) = self.consecutive(access, memory, indices, active) {
                    for (lane, to) in to.iter().enumerate() {
                        // SAFETY: all elements are within the memory, and the column has one for each thread.
                        unsafe {
                            memory.load_run(index + lane, 1, self.pointer(*to, first), end - first);
                        };
                    }
                    return;
                }
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

    /// Returns whether a loop over all lanes does an access, rather than one for each cube.
    pub(super) fn is_one_loop(&self, access: &Access, active: Active) -> bool {
        match (access.target, access.at) {
            (Target::Param(_), At::Affine(value)) => {
                let run = self.whole_run(value, active);
                let memory = self.memory(access);
                run.is_some_and(|run| Self::checked(access, memory, run).is_some())
            }
            (Target::Param(_), At::Column(_)) => true,
            _ => false,
        }
    }

    /// Loads elements of a shared array that are the same ones in each cube's copy of it, if they are in bounds.
    fn load_copies(&self, access: &Access, to: &[Operand], active: Active) -> bool {
        let (Target::Shared { .. }, At::Affine(value)) = (access.target, access.at) else {
            return false;
        };
        let cubes = self.cubes_of(active);
        if value.varies() || cubes.len() == 1 {
            return false;
        }
        let one = self.of_cube(cubes.start);
        let (memory, part) = (one.memory(access), self.part_of(active));
        let apart = (self.code.shared_bytes / memory.size) as isize;
        if let Some(run) = one.whole_run(value, part) {
            let Some(index) = Self::checked(access, memory, run) else {
                return false;
            };
            for (lane, to) in to.iter().enumerate() {
                let d = one.pointer(*to, run.thread);
                let (strides, size) = ([run.stride as isize, apart], [run.len, cubes.len()]);
                // SAFETY: all elements of the run are within the array, as those of its copies are; the column has an element
                // for each thread.
                unsafe { memory.load_rows(index + lane, strides, d, size, self.span) };
            }
            return true;
        }
        let Some(rows) = one.rows_within(access, memory, value, one.whole_rows(part)) else {
            return false;
        };
        for at in cubes {
            let thread = at * self.span + rows.thread;
            let (memory, rows) = (self.memory_of(access, at), Rows { thread, ..rows });
            self.load_rows(memory, rows, to);
        }
        true
    }

    /// Returns the threads of each cube between which its active ones are, as those of one cube.
    pub(super) fn part_of(&self, active: Active) -> Active {
        let threads = self.threads_of(active);
        Active {
            first: threads.start,
            end: threads.end,
            mask: None,
        }
    }

    /// Returns the threads of all rows that have active ones. Loads may write what others have.
    fn whole_rows(&self, active: Active) -> Active {
        let width = self.code.shape[0] as usize;
        if self.first != 0 {
            return active;
        }
        Active {
            first: active.first / width * width,
            end: active.end.next_multiple_of(width).min(self.threads),
            mask: None,
        }
    }

    /// Returns the rows of threads and of elements, if all of them access memory in bounds.
    pub(super) fn rows_within(
        &self,
        access: &Access,
        memory: Memory,
        value: Affine,
        active: Active,
    ) -> Option<Rows> {
        let rows = self.rows(value, active)?;
        let [x, y] = rows.strides;
        let in_bounds = |column: i64| {
            let first = rows.first.checked_add(column)?;
            let run = Run {
                thread: rows.thread,
                len: rows.count,
                first,
                stride: y,
            };
            Self::checked(access, memory, run)
        };
        let last = x.checked_mul(rows.width as i64 - 1);
        let is_aligned = x & (access.lanes as i64 - 1) == 0;
        (in_bounds(0).is_some() && last.and_then(in_bounds).is_some() && is_aligned).then_some(rows)
    }

    /// Loads rows that are within the memory.
    fn load_rows(&self, memory: Memory, rows: Rows, to: &[Operand]) {
        let [x, y] = rows.strides;
        let (first, len) = (rows.first as usize, rows.count);
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
            unsafe { memory.load_rows(first + lane, strides, d, [rows.width, len], rows.width) };
        }
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

    /// Loads elements of local arrays that are the same for all threads.
    fn load_same(&self, access: &Access, memory: Memory, to: &[Operand], active: Active) {
        let index = self.index(access, memory, active.first);
        for (lane, to) in to.iter().enumerate() {
            let from = self.local(memory, index + lane);
            let from = from.wrapping_add((self.lane + active.first) * memory.size);
            // SAFETY: the array has an element for each thread.
            self.set(to.place, unsafe { elements::read(from, memory.size) });
        }
    }

    fn load_locals(&self, access: &Access, memory: Memory, to: &[Operand], active: Active) {
        let Active { first, end, .. } = active;
        if let At::Scalar(_) = access.at {
            let index = self.index(access, memory, first);
            for (lane, to) in to.iter().enumerate() {
                let from = self.local(memory, index + lane);
                let (from, d) = (
                    from.wrapping_add(first * memory.size),
                    self.pointer(*to, first),
                );
                // SAFETY: the array has an element for each thread, as the column has.
                unsafe { d.copy_from_nonoverlapping(from, (end - first) * memory.size) };
            }
            return;
        }
        for thread in active.threads() {
            let index = self.index(access, memory, thread);
            for (lane, to) in to.iter().enumerate() {
                let from = self.local(memory, index + lane);
                let from = from.wrapping_add(thread * memory.size);
                // SAFETY: as above.
                unsafe {
                    let bits = elements::read(from, memory.size);
                    elements::write(self.pointer(*to, thread), memory.size, bits);
                }
            }
        }
    }
}
