//! The resources of a custom task or a guard: the memory of its bindings as slices.
//!
//! Access is sound by construction, with borrows checked at run time, as those of a `RefCell`. A binding can be borrowed
//! mutably only if it was bound for writing, only once at a time, and only if no other binding overlaps it. Bindings are
//! borrowed from a shared reference to the resources, which their task or guard owns: nothing that is borrowed outlives
//! the task, and no code can exchange the resources of two tasks.
//!
//! A `&mut` to an owned value would not do: `mem::swap` of the resources of two guards is safe code, after which one
//! of them has views of a task that has ended. A lifetime of its own for each task needs a generic associated type in
//! `Backend` and a closure for each access; `Pin` needs a projection for each wrapper. A borrow costs one
//! compare-exchange, and one that is forgotten keeps its binding borrowed.

use std::ptr::NonNull;

use atomic_refcell::{AtomicRef, AtomicRefCell, AtomicRefMut};
use millstream_protocol::{Access, Element, NativeView, QueueId};

/// The elements of a binding, borrowed for reading: a `&[T]`.
pub type Elements<'a, T> = AtomicRef<'a, [T]>;

/// The elements of a binding, borrowed for writing: a `&mut [T]`.
pub type ElementsMut<'a, T> = AtomicRefMut<'a, [T]>;

/// The memory of some bindings, while no conflicting task runs.
pub struct HostResources {
    bindings: Vec<Resource>,
    queue: Option<QueueId>,
}

struct Resource {
    view: NativeView,
    access: Access,
    /// Who has borrowed the binding. A borrow that is forgotten is never given back.
    borrow: AtomicRefCell<()>,
}

/// The reason a binding cannot be borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// There is no such binding.
    #[error("binding {binding} does not exist, the call bound {bindings}, counted from 0")]
    Missing {
        /// The requested binding.
        binding: usize,
        /// The number of bindings.
        bindings: usize,
    },
    /// The binding was bound for another access.
    #[error("binding {binding} is bound with `{bound}`; bind it with the access that you need")]
    Access {
        /// The requested binding.
        binding: usize,
        /// The access it was bound for.
        bound: Access,
    },
    /// The binding overlaps another, so it cannot be borrowed exclusively.
    #[error(
        "binding {binding} overlaps binding {other} and cannot be written; bind separate memory, or copy one of them first"
    )]
    Overlap {
        /// The requested binding.
        binding: usize,
        /// The binding that it overlaps.
        other: usize,
    },
    /// The binding is already borrowed.
    #[error("binding {binding} is already borrowed; drop what was borrowed first")]
    Lent {
        /// The requested binding.
        binding: usize,
    },
    /// The binding is not aligned for the element type.
    #[error(
        "binding {binding} does not consist of whole, aligned elements of the requested type; borrow it as the type that it was created with"
    )]
    Misaligned {
        /// The requested binding.
        binding: usize,
    },
}

// SAFETY: the memory is plain, and the task or guard that owns the resources may access it on any thread.
unsafe impl Send for HostResources {}
// SAFETY: shared access borrows bindings, and each borrow is one atomic operation.
unsafe impl Sync for HostResources {}

impl HostResources {
    /// Creates the resources of a task of `queue`, or of a guard.
    ///
    /// # Safety
    /// The memory behind each view is initialized and stays valid as long as these resources. Until then nothing else
    /// writes it, and nothing else reads memory that is bound for writing. Users' code receives a shared reference, so that
    /// it cannot keep the resources beyond their task.
    pub unsafe fn new(
        bindings: impl Iterator<Item = (NativeView, Access)>,
        queue: Option<QueueId>,
    ) -> Self {
        let resource = |(view, access)| Resource {
            view,
            access,
            borrow: AtomicRefCell::default(),
        };
        Self {
            bindings: bindings.map(resource).collect(),
            queue,
        }
    }

    /// Returns the number of bindings.
    pub fn len(&self) -> usize {
        self.bindings.len()
    }

    /// Returns `true` if there are no bindings.
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    /// Returns the queue that runs the task; `None` for a guard, which runs on no queue.
    pub fn queue(&self) -> Option<QueueId> {
        self.queue
    }

    /// Borrows the elements of binding `index`, which must be bound for reading or updating.
    ///
    /// # Panics
    /// If [`HostResources::try_read`] fails. In a task, the panic is caught and poisons the outputs.
    #[track_caller]
    pub fn read<T: Element>(&self, index: usize) -> Elements<'_, T> {
        match self.try_read(index) {
            Ok(elements) => elements,
            Err(error) => panic!("{error}"),
        }
    }

    /// Borrows the elements of binding `index`, which must be bound for writing or updating. Until what this returns is
    /// dropped, the binding cannot be borrowed again.
    ///
    /// # Panics
    /// If [`HostResources::try_write`] fails. In a task, the panic is caught and poisons the outputs.
    #[track_caller]
    pub fn write<T: Element>(&self, index: usize) -> ElementsMut<'_, T> {
        match self.try_write(index) {
            Ok(elements) => elements,
            Err(error) => panic!("{error}"),
        }
    }

    /// Borrows the elements of binding `index`, which must be bound for reading or updating.
    ///
    /// # Errors
    /// If the binding does not exist, is bound for another access, is borrowed mutably, or is not aligned for `T`.
    pub fn try_read<T: Element>(&self, index: usize) -> Result<Elements<'_, T>, ResourceError> {
        let resource = self.resource(index)?;
        if !resource.access.reads() {
            return Err(ResourceError::Access {
                binding: index,
                bound: resource.access,
            });
        }
        let elements = Self::elements(resource, index)?;
        let borrow = resource.borrow.try_borrow();
        let borrow = borrow.map_err(|_| ResourceError::Lent { binding: index })?;
        // SAFETY: initialized, by the contract of `new`. No part of it is borrowed mutably: not through this binding,
        // whose borrow is shared, and not through another, because overlapping bindings are never borrowed mutably.
        Ok(AtomicRef::map(borrow, |()| unsafe { elements.as_ref() }))
    }

    /// Borrows the elements of binding `index`, which must be bound for writing or updating.
    ///
    /// # Errors
    /// If the binding does not exist, is bound for another access, is already borrowed, overlaps another, or is not
    /// aligned for `T`.
    pub fn try_write<T: Element>(&self, index: usize) -> Result<ElementsMut<'_, T>, ResourceError> {
        let resource = self.resource(index)?;
        if !resource.access.writes() {
            return Err(ResourceError::Access {
                binding: index,
                bound: resource.access,
            });
        }
        let mut elements = Self::elements(resource, index)?;
        self.check_disjoint(index)?;
        let borrow = resource.borrow.try_borrow_mut();
        let borrow = borrow.map_err(|_| ResourceError::Lent { binding: index })?;
        // SAFETY: initialized, by the contract of `new`. No part of it is borrowed otherwise: not through this binding,
        // whose borrow is exclusive, and not through another, because no binding overlaps it.
        Ok(AtomicRefMut::map(borrow, |()| unsafe { elements.as_mut() }))
    }

    fn resource(&self, index: usize) -> Result<&Resource, ResourceError> {
        self.bindings.get(index).ok_or(ResourceError::Missing {
            binding: index,
            bindings: self.bindings.len(),
        })
    }

    /// Returns where the elements are, which are aligned for `T`.
    fn elements<T: Element>(
        resource: &Resource,
        index: usize,
    ) -> Result<NonNull<[T]>, ResourceError> {
        let start = resource.view.pointer.cast::<T>();
        if !start.is_aligned() {
            return Err(ResourceError::Misaligned { binding: index });
        }
        let len = resource.view.bytes as usize / size_of::<T>();
        // The pointer of an empty binding may be null.
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        Ok(NonNull::slice_from_raw_parts(start, len))
    }

    /// Checks that no other binding shares a byte with this one.
    fn check_disjoint(&self, index: usize) -> Result<(), ResourceError> {
        let range = |view: &NativeView| {
            let start = view.pointer.addr() as u64;
            start..start + view.bytes
        };
        let own = range(&self.bindings[index].view);
        let overlaps = |(other, resource): (usize, &Resource)| {
            let theirs = range(&resource.view);
            other != index && own.start.max(theirs.start) < own.end.min(theirs.end)
        };
        match self.bindings.iter().enumerate().position(overlaps) {
            None => Ok(()),
            Some(other) => Err(ResourceError::Overlap {
                binding: index,
                other,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(
        memory: &mut [u32],
        bindings: &[(std::ops::Range<usize>, Access)],
    ) -> HostResources {
        let (start, len) = (memory.as_mut_ptr(), memory.len());
        let view = |(range, access): &(std::ops::Range<usize>, Access)| {
            assert!(range.end <= len);
            // Of one pointer, as the views of a page are: a borrow for each would end those before it.
            let pointer = start.wrapping_add(range.start).cast();
            let bytes = size_of::<u32>() as u64 * range.len() as u64;
            (NativeView { pointer, bytes }, *access)
        };
        let bindings = bindings.iter().map(view).collect::<Vec<_>>();
        // SAFETY: the memory belongs to the test, and outlives the resources.
        unsafe { HostResources::new(bindings.into_iter(), None) }
    }

    #[test]
    fn disjoint_bindings_can_be_borrowed_together() {
        let mut memory = [1_u32, 2, 3, 4];
        let resources = resources(&mut memory, &[(0..2, Access::Read), (2..4, Access::Write)]);
        let (source, mut target) = (resources.read::<u32>(0), resources.write::<u32>(1));
        target.copy_from_slice(&source);
        drop((source, target));
        assert_eq!(memory, [1, 2, 1, 2]);
    }

    #[test]
    fn mutable_borrow_is_exclusive_until_it_is_dropped() {
        let mut memory = [0_u32; 4];
        let resources = resources(
            &mut memory,
            &[(0..2, Access::ReadWrite), (3..4, Access::Read)],
        );
        let lent = ResourceError::Lent { binding: 0 };
        let mut written = resources.write::<u32>(0);
        written[0] = 1;
        assert_eq!(resources.try_write::<u32>(0).err(), Some(lent));
        assert_eq!(resources.try_read::<u32>(0).err(), Some(lent));
        drop(written);
        let (read, again) = (resources.read::<u32>(0), resources.read::<u32>(0));
        assert_eq!((&*read, &*again), (&[1, 0][..], &[1, 0][..]));
        drop(again);
        assert_eq!(resources.try_write::<u32>(0).err(), Some(lent));
        drop(read);
        resources.write::<u32>(0)[1] = 2;
        assert_eq!(*resources.read::<u32>(0), [1, 2]);
        let access = ResourceError::Access {
            binding: 1,
            bound: Access::Read,
        };
        assert_eq!(resources.try_write::<u32>(1).err(), Some(access));
        assert!(resources.try_read::<u32>(2).is_err());
    }

    /// What is forgotten stays borrowed: there is never a second mutable borrow.
    #[test]
    fn forgotten_borrow_is_never_given_back() {
        let mut memory = [0_u32; 2];
        let resources = resources(&mut memory, &[(0..2, Access::ReadWrite)]);
        std::mem::forget(resources.write::<u32>(0));
        let lent = ResourceError::Lent { binding: 0 };
        assert_eq!(resources.try_read::<u32>(0).err(), Some(lent));
        assert_eq!(resources.try_write::<u32>(0).err(), Some(lent));
    }

    #[test]
    fn bindings_can_be_written_by_several_threads() {
        let mut memory = [0_u32; 64];
        let halves = [(0..32, Access::Write), (32..64, Access::Write)];
        let resources = resources(&mut memory, &halves);
        std::thread::scope(|scope| {
            for index in 0..2 {
                let resources = &resources;
                scope.spawn(move || resources.write::<u32>(index).fill(index as u32 + 1));
            }
        });
        assert_eq!(
            (memory[0], memory[31], memory[32], memory[63]),
            (1, 1, 2, 2)
        );
    }

    #[test]
    fn overlapping_bindings_can_only_be_read() {
        let mut memory = [7_u32; 4];
        let bindings = [
            (0..3, Access::ReadWrite),
            (2..4, Access::Read),
            (3..4, Access::Read),
        ];
        let resources = resources(&mut memory, &bindings);
        let overlap = ResourceError::Overlap {
            binding: 0,
            other: 1,
        };
        assert_eq!(resources.try_write::<u32>(0).err(), Some(overlap));
        let (first, second) = (resources.read::<u32>(0), resources.read::<u32>(1));
        assert_eq!((&*first, &*second), (&[7; 3][..], &[7; 2][..]));
    }
}
