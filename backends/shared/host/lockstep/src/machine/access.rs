//! Loads, stores and atomic additions. Accesses of threads at equal distances, of which the bounds are checked once, and
//! accesses by a column of indices have loops; others run thread by thread, which also finds the thread that fails.

use std::ptr;

use millstream_ir::{BinaryOp, DType, scalar};

use super::Machine;
use super::active::Active;
use super::elements::{self, Memory};
use super::ramps::Run;
use crate::code::{Access, Affine, At, Operand, Target};

impl Machine<'_> {
    /// Returns the memory of an access that is no local.
    fn memory(&self, access: &Access) -> Memory {
        let size = access.size;
        match access.target {
            Target::Param(param) => {
                let param = self.params[param];
                Memory {
                    pointer: param.pointer,
                    len: param.len,
                    size,
                    shared: !param.is_constant,
                }
            }
            Target::Shared { start, len } => Memory {
                // SAFETY: the array lies in the region of shared arrays.
                pointer: unsafe { self.shared.add(start) },
                len,
                size,
                shared: false,
            },
            Target::Local { start, len } => Memory {
                // SAFETY: the array lies in the region of locals.
                pointer: unsafe { self.locals.add(start * self.code.chunk) },
                len,
                size,
                shared: false,
            },
        }
    }

    /// Returns the index of a thread's access. Panics if it is out of bounds or misaligned.
    fn index(&self, access: &Access, memory: Memory, thread: usize) -> usize {
        let index = match access.at {
            At::Scalar(place) => self.get(place) as i64,
            At::Affine(value) => self.affine(value, thread),
            At::Column(indices) => self.bits(indices, thread) as i64,
        };
        let lanes = access.lanes;
        let found = usize::try_from(index).ok();
        let end = found.and_then(|index| index.checked_add(lanes));
        match (found, end) {
            (Some(index), Some(end)) if end <= memory.len => {
                let is_local = matches!(access.target, Target::Local { .. });
                if !is_local && !index.is_multiple_of(lanes) {
                    self.misaligned(access, index);
                }
                index
            }
            _ => self.out_of_bounds(access, memory, index),
        }
    }

    #[cold]
    fn out_of_bounds(&self, access: &Access, memory: Memory, index: i64) -> ! {
        let (name, site) = self.site(access);
        let (lanes, len) = (access.lanes, memory.len);
        panic!(
            "access `{name}[{index}]` of width {lanes} is out of bounds, `{name}` has {len} elements, in {site}; compare the index with the length first"
        )
    }

    #[cold]
    fn misaligned(&self, access: &Access, index: usize) -> ! {
        let (name, site) = self.site(access);
        let lanes = access.lanes;
        panic!(
            "access `{name}[{index}]` of width {lanes} is misaligned, the index must be a multiple of {lanes}, in {site}"
        )
    }

    /// Returns the name of the memory of an access, and where the access is.
    fn site(&self, access: &Access) -> (&str, String) {
        let function = &self.code.function;
        let name = function.memory(access.memory).map_or("", |(name, _)| name);
        let place = function.place(access.line);
        (name, format!("kernel `{}`{place}", function.name))
    }

    /// Returns the index of a run's first element, if all of its accesses are in bounds and aligned.
    fn checked(access: &Access, memory: Memory, run: Run) -> Option<usize> {
        let lanes = access.lanes as i64;
        let span = run.stride.checked_mul(run.len as i64 - 1)?;
        let last = run.first.checked_add(span)?;
        let len = i64::try_from(memory.len).ok()?;
        let is_within = run.first.min(last) >= 0 && run.first.max(last).checked_add(lanes)? <= len;
        let is_aligned = (run.first | span) & (lanes - 1) == 0
            && (run.len <= 2 || run.stride & (lanes - 1) == 0);
        (is_within && is_aligned).then_some(run.first as usize)
    }

    /// Returns the indices of the threads from the first active one to the end, if those of all threads are in bounds and
    /// aligned.
    fn indices(
        &self,
        access: &Access,
        memory: Memory,
        indices: Operand,
        active: Active,
    ) -> Option<&[i64]> {
        if active.mask.is_some() || memory.len < access.lanes {
            return None;
        }
        let from = self.pointer(indices, active.first).cast::<i64>();
        // SAFETY: the column has an element for each thread, and is not written meanwhile.
        let indices = unsafe { std::slice::from_raw_parts(from, active.end - active.first) };
        let (end, low) = ((memory.len - access.lanes) as u64, access.lanes as u64 - 1);
        let (mut is_beyond, mut bits) = (false, 0);
        for index in indices {
            is_beyond |= *index as u64 > end;
            bits |= *index as u64;
        }
        (!is_beyond && bits & low == 0).then_some(indices)
    }

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
                let is_done = self.runs(value, active, |run| {
                    let Some(index) = Self::checked(access, memory, run) else {
                        return false;
                    };
                    for (lane, to) in to.iter().enumerate() {
                        let (d, stride) = (self.pointer(*to, run.thread), run.stride as isize);
                        // SAFETY: all elements of the run are within the memory, and the column has one for each thread.
                        unsafe { memory.load_run(index + lane, stride, d, run.len) };
                    }
                    true
                });
                if is_done {
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
        let lanes = access.lanes;
        let n = active.end - active.first;
        let mut index = None;
        self.runs(value, active, |run| {
            if run.stride == lanes as i64 && run.len == n {
                index = Self::checked(access, memory, run);
            }
            false
        });
        let Some(index) = index else {
            return false;
        };
        let staging = Memory {
            pointer: self.staging,
            len: n * lanes,
            shared: false,
            ..memory
        };
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

    /// Stores the lanes of threads that are neighbours, if they are, by way of a copy of all of them.
    fn store_neighbours(
        &self,
        access: &Access,
        memory: Memory,
        value: Affine,
        of: &[Operand],
        active: Active,
    ) -> bool {
        let lanes = access.lanes;
        let n = active.end - active.first;
        let mut index = None;
        self.runs(value, active, |run| {
            if run.stride == lanes as i64 && run.len == n {
                index = Self::checked(access, memory, run);
            }
            false
        });
        let Some(index) = index else {
            return false;
        };
        let staging = Memory {
            pointer: self.staging,
            len: n * lanes,
            shared: false,
            ..memory
        };
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

    /// Returns the column of an element of a local array.
    fn local(&self, memory: Memory, index: usize) -> *mut u8 {
        memory
            .pointer
            .wrapping_add(index * memory.size * self.code.chunk)
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
            At::Affine(at) if mask.is_none() => {
                if value.len() > 1 && self.store_neighbours(access, memory, at, value, active) {
                    return;
                }
                let is_done = self.runs(at, active, |run| {
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
            At::Affine(_) => {}
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
