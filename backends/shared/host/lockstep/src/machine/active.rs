//! Which threads of a chunk are active.

use std::ptr::NonNull;

use super::Machine;
use crate::code::{Operand, Path};
use crate::kernels::Counted;

/// The active threads: all from the first one to the end, or those of a mask among them. At least one, except while
/// they are counted.
#[derive(Clone, Copy)]
pub(super) struct Active {
    pub(super) first: usize,
    pub(super) end: usize,
    /// A byte for each thread of the chunk, 0 or 1.
    pub(super) mask: Option<NonNull<u8>>,
}

impl Active {
    pub(super) fn all(threads: usize) -> Self {
        Self {
            first: 0,
            end: threads,
            mask: None,
        }
    }

    /// Returns whether a thread between the first and the end is active.
    #[inline]
    pub(super) fn has(self, thread: usize) -> bool {
        // SAFETY: the mask has a byte for each thread.
        self.mask
            .is_none_or(|mask| unsafe { *mask.as_ptr().add(thread) } != 0)
    }

    /// Returns the active threads, in order.
    #[inline]
    pub(super) fn threads(self) -> impl Iterator<Item = usize> {
        (self.first..self.end).filter(move |thread| self.has(*thread))
    }

    /// Returns those of them in a range, if there is one.
    pub(super) fn within(self, first: usize, end: usize) -> Option<Self> {
        let (first, end) = (first.max(self.first), end.min(self.end));
        if first >= end {
            return None;
        }
        let part = Self { first, end, ..self };
        match self.mask {
            None => Some(part),
            Some(_) => part.tightened(),
        }
    }

    /// Moves the first thread and the end to active threads, and drops the mask if all between them are active.
    fn tightened(self) -> Option<Self> {
        let first = (self.first..self.end).find(|thread| self.has(*thread))?;
        let last = (first..self.end).rev().find(|thread| self.has(*thread))?;
        let end = last + 1;
        let mask = self.mask.filter(|mask| {
            // SAFETY: the mask has a byte for each thread, and is not written meanwhile.
            let bytes =
                unsafe { std::slice::from_raw_parts(mask.as_ptr().add(first), end - first) };
            bytes.iter().fold(1, |all, byte| all & byte) == 0
        });
        Some(Self { first, end, mask })
    }
}

impl Machine<'_> {
    /// Returns the active threads whose bool is `want`. Writes their mask to a column, except if they are all of a range.
    pub(super) fn masked(
        &self,
        active: Active,
        bools: *const u8,
        want: bool,
        to: *mut u8,
    ) -> Option<Active> {
        let Active { first, end, mask } = active;
        let run = self.code.loops.masks[usize::from(want)][usize::from(mask.is_some())];
        let mut counted = Counted::default();
        // SAFETY: all have a byte for each thread, and `to` is another column than the others.
        unsafe {
            let mask = mask.map_or(bools, |mask| mask.as_ptr().cast_const());
            let counted = (&raw mut counted).cast_const().cast();
            let (to, bools) = (to.add(first), bools.wrapping_add(first));
            run(to, bools, mask.wrapping_add(first), counted, end - first);
        }
        match counted {
            Counted { any: 0, .. } => None,
            Counted { all: 1, .. } => Some(Active {
                mask: None,
                ..active
            }),
            _ => Active {
                mask: NonNull::new(to),
                ..active
            }
            .tightened(),
        }
    }

    /// Returns the active threads that have not left their block. `to` is a column for their mask, perhaps the one that it
    /// has.
    pub(super) fn remaining(&self, active: Active, to: Operand) -> Option<Active> {
        let to = self.pointer(to, 0);
        let remaining = self.masked(active, self.paths, false, self.spare)?;
        self.moved(remaining, to)
    }

    /// Copies a mask in the spare column to its own one.
    pub(super) fn moved(&self, active: Active, to: *mut u8) -> Option<Active> {
        if active.mask.is_none() {
            return Some(active);
        }
        let (first, n) = (active.first, active.end - active.first);
        // SAFETY: both have a byte for each thread, and are different columns.
        unsafe {
            to.add(first)
                .copy_from_nonoverlapping(self.spare.add(first), n);
        };
        Some(Active {
            mask: NonNull::new(to),
            ..active
        })
    }

    /// Makes threads leave their block.
    pub(super) fn leave(&self, path: Path, active: Active) {
        let Active { first, end, mask } = active;
        let value = path as u8;
        // SAFETY: paths have a byte for each thread, as masks have.
        unsafe {
            let paths = self.paths.add(first);
            match mask {
                None => paths.write_bytes(value, end - first),
                Some(mask) => {
                    let (mask, value) = (mask.as_ptr().add(first), (&raw const value));
                    self.code.loops.blend[1][0](paths, value, mask, value, end - first);
                }
            }
        }
    }

    /// Lets active threads whose path is `from` go on.
    pub(super) fn resume(&self, from: Path, active: Active) {
        for thread in active.threads() {
            // SAFETY: paths have a byte for each thread.
            unsafe {
                let path = self.paths.add(thread);
                if *path == from as u8 {
                    *path = Path::Next as u8;
                }
            }
        }
    }
}
