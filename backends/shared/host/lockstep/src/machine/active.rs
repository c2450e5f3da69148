//! Which threads of a chunk are active.

use std::ptr::NonNull;

use super::Machine;
use crate::code::{Operand, Path};
use crate::kernels::Counted;

/// The active threads: all from the first one to the end, or those of a mask among them; of several cubes without a mask,
/// those from the first one to the end in each of them. At least one, except while they are counted.
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
            Some(_) => part.tightened(usize::MAX),
        }
    }

    /// Moves the first thread and the end to active threads, and drops the mask if all between them are active, unless they
    /// are a part of several cubes of `span` threads.
    pub(super) fn tightened(self, span: usize) -> Option<Self> {
        let first = (self.first..self.end).find(|thread| self.has(*thread))?;
        let last = (first..self.end).rev().find(|thread| self.has(*thread))?;
        let end = last + 1;
        let is_part = first / span != last / span && (first % span != 0 || end % span != 0);
        let mask = self.mask.filter(|mask| {
            if is_part {
                return true;
            }
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
        let with_mask = self.with_mask(active);
        let Active { first, end, mask } = with_mask;
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
            Counted { all: 1, .. } if self.is_solid(first, end) => Some(Active {
                mask: None,
                ..active
            }),
            _ => Active {
                mask: NonNull::new(to),
                ..active
            }
            .tightened(self.span),
        }
    }

    /// Returns the active threads that have not left their block. `to` is a column for their mask, perhaps the one that it
    /// has.
    pub(super) fn remaining(&self, active: Active, to: Operand) -> Option<Active> {
        self.remaining_of(active, self.paths, false, to)
    }

    /// Returns the active threads whose bool is `want`. `to` is a column for their mask, perhaps the one that they have.
    pub(super) fn remaining_of(
        &self,
        active: Active,
        bools: *const u8,
        want: bool,
        to: Operand,
    ) -> Option<Active> {
        let remaining = self.masked(active, bools, want, self.spare)?;
        if remaining.mask.is_none() {
            return Some(remaining);
        }
        let (first, n) = (remaining.first, remaining.end - remaining.first);
        let to = self.pointer(to, 0);
        // SAFETY: both have a byte for each thread, and are different columns.
        unsafe {
            to.add(first)
                .copy_from_nonoverlapping(self.spare.add(first), n);
        };
        Some(Active {
            mask: NonNull::new(to),
            ..remaining
        })
    }

    /// Makes threads leave their block.
    pub(super) fn leave(&self, path: Path, active: Active) {
        let Active { first, end, mask } = self.with_mask(active);
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
        let (paths, mask) = self.paths_of(active);
        let is_from = |path: &u8| *path == from as u8;
        let next = Path::Next as u8;
        match mask {
            None => {
                for path in paths {
                    *path = if is_from(path) { next } else { *path };
                }
            }
            Some(mask) => {
                for (path, active) in paths.iter_mut().zip(mask) {
                    *path = if is_from(path) & (*active != 0) {
                        next
                    } else {
                        *path
                    };
                }
            }
        }
    }

    /// Returns whether some threads have left their block.
    pub(super) fn some_left(&self, active: Active) -> bool {
        let (paths, mask) = self.paths_of(active);
        let has_left = |path: &u8| *path != Path::Next as u8;
        match mask {
            None => paths.iter().fold(false, |any, path| any | has_left(path)),
            Some(mask) => {
                let all = paths.iter().zip(mask);
                all.fold(false, |any, (path, active)| {
                    any | (has_left(path) & (*active != 0))
                })
            }
        }
    }

    /// Returns the paths of the threads from the first active one to the end, and their mask.
    #[allow(clippy::mut_from_ref, reason = "paths are memory of their own")]
    fn paths_of(&self, active: Active) -> (&mut [u8], Option<&[u8]>) {
        let Active { first, end, mask } = self.with_mask(active);
        let n = end - first;
        // SAFETY: both have a byte for each thread, are different columns, and no other slice of them exists meanwhile.
        unsafe {
            let mask = mask.map(|mask| std::slice::from_raw_parts(mask.as_ptr().add(first), n));
            (
                std::slice::from_raw_parts_mut(self.paths.add(first), n),
                mask,
            )
        }
    }
}
