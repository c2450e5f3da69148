//! The bounds of accesses. Accesses of threads at equal distances, of which the bounds are checked once, and
//! accesses by a column of indices have loops; others run thread by thread, which also finds the thread that fails.

use millstream_ir::ssa::PARTS_BEYOND;

use super::Machine;
use super::active::Active;
use super::elements::{Indices, Memory};
use super::ramps::Run;
use crate::code::{Access, Affine, At, Operand, Target};
use crate::kernels::Bounded;

impl Machine<'_> {
    /// Returns the memory of an access that is no local.
    pub(super) fn memory(&self, access: &Access) -> Memory {
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
            Target::Table(table) => {
                let table = &self.code.tables[table];
                Memory {
                    // Only loads: the verifier refuses stores to tables.
                    pointer: table.words.as_ptr().cast_mut().cast(),
                    len: table.len,
                    size,
                    shared: false,
                }
            }
            Target::Local { start, len } => Memory {
                // SAFETY: the array lies in the region of locals.
                pointer: unsafe { self.locals.add(start * self.code.chunk) },
                len,
                size,
                shared: false,
            },
        }
    }

    /// Returns the memory of an access in a cube of the chunk.
    #[inline]
    pub(super) fn memory_of(&self, access: &Access, at: usize) -> Memory {
        let memory = self.memory(access);
        let offset = match access.target {
            Target::Shared { .. } => at * self.code.shared_bytes,
            _ => 0,
        };
        Memory {
            pointer: memory.pointer.wrapping_add(offset),
            ..memory
        }
    }

    /// Returns the index of a thread's access. Panics if it is out of bounds or misaligned.
    pub(super) fn index(&self, access: &Access, memory: Memory, thread: usize) -> usize {
        let index = match access.at {
            At::Scalar(place) => self.bits(Operand::scalar(place), thread) as i64,
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
        if PARTS_BEYOND.contains(&index) {
            panic!(
                "an index of an array in an element of `{name}` is out of bounds, in {site}; compare it with the array's length first"
            );
        }
        let each = self.code.function.each(access.memory);
        let (index, len) = (index.div_euclid(each.into()), memory.len / each as usize);
        let last = index.saturating_add(access.lanes as i64);
        let access = match access.lanes {
            1 => index.to_string(),
            _ => format!("{index}..{last}"),
        };
        panic!(
            "`{name}[{access}]` is out of bounds, `{name}` has {len} elements, in {site}; compare the index with the length first"
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
    pub(super) fn checked(access: &Access, memory: Memory, run: Run) -> Option<usize> {
        let lanes = access.lanes as i64;
        let span = run.stride.checked_mul(run.len as i64 - 1)?;
        let last = run.first.checked_add(span)?;
        let len = i64::try_from(memory.len).ok()?;
        let is_within = run.first.min(last) >= 0 && run.first.max(last).checked_add(lanes)? <= len;
        let is_aligned = (run.first | span) & (lanes - 1) == 0
            && (run.len <= 2 || run.stride & (lanes - 1) == 0);
        (is_within && is_aligned).then_some(run.first as usize)
    }

    /// Returns the index of the first thread, if the indices of all threads from the first active one to the end follow each
    /// other, and are in bounds.
    pub(super) fn consecutive(
        &self,
        access: &Access,
        memory: Memory,
        indices: Operand,
        active: Active,
    ) -> Option<usize> {
        let Active { first, end, .. } = active;
        let from = self.pointer(indices, first).cast::<i64>();
        // SAFETY: the column has an element for each thread, and is not written meanwhile.
        let indices = unsafe { std::slice::from_raw_parts(from, end - first) };
        let run = Run {
            thread: first,
            len: indices.len(),
            first: indices[0],
            stride: 1,
        };
        let last = run.first.wrapping_add(run.len as i64 - 1);
        if access.lanes > 1 || indices[run.len - 1] != last {
            return None;
        }
        let index = Self::checked(access, memory, run)?;
        let differs = (run.first..)
            .zip(indices)
            .fold(0, |differs, (index, found)| differs | (index ^ found));
        (differs == 0).then_some(index)
    }

    /// Returns the indices of the threads from the first active one to the end, if those of all active threads are in bounds
    /// and aligned.
    pub(super) fn indices(
        &self,
        access: &Access,
        memory: Memory,
        indices: Operand,
        active: Active,
    ) -> Option<Indices<'_>> {
        if memory.len < access.lanes {
            return None;
        }
        let Active { first, end, mask } = active;
        let from = self.pointer(indices, first).cast::<i64>();
        // SAFETY: the column has an element for each thread and the mask a byte, and they are not written meanwhile.
        let (indices, mask) = unsafe {
            let mask =
                mask.map(|mask| std::slice::from_raw_parts(mask.as_ptr().add(first), end - first));
            (std::slice::from_raw_parts(from, end - first), mask)
        };
        let (end, low) = ((memory.len - access.lanes) as u64, access.lanes as u64 - 1);
        let mut bounded = Bounded::default();
        let find = self.code.loops.bounds[usize::from(mask.is_some())];
        let a = indices.as_ptr().cast();
        // SAFETY: the indices, and the mask if there is one, have an element for each of these threads.
        unsafe {
            let to = (&raw mut bounded).cast();
            find(to, a, mask.map_or(a, <[u8]>::as_ptr), a, indices.len());
        }
        let is_within = bounded.most <= end && bounded.bits & low == 0;
        is_within.then_some(Indices { indices, mask })
    }

    /// Returns the index of the first element of threads that access neighbours, one after the other, if all accesses are in
    /// bounds.
    pub(super) fn neighbours(
        &self,
        access: &Access,
        memory: Memory,
        value: Affine,
        active: Active,
    ) -> Option<usize> {
        let mut index = None;
        self.runs(value, active, |run| {
            if run.stride == access.lanes as i64 && run.len == active.end - active.first {
                index = Self::checked(access, memory, run);
            }
            false
        });
        index
    }

    /// Returns the room for a wide access of each thread.
    pub(super) fn staging(&self, memory: Memory) -> Memory {
        Memory {
            pointer: self.staging,
            shared: false,
            ..memory
        }
    }

    /// Returns the column of an element of a local array.
    pub(super) fn local(&self, memory: Memory, index: usize) -> *mut u8 {
        memory
            .pointer
            .wrapping_add(index * memory.size * self.code.chunk)
    }
}
