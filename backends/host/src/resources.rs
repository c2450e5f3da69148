//! The resources of a custom task or a guard: the memory of its bindings as slices.
//!
//! Access is sound by construction, with borrows checked at run time. A binding can be borrowed mutably only if it
//! was bound for writing, only once, and only if no other binding overlaps it. A binding that was read cannot be
//! written through the same borrow of the resources.

use std::cell::Cell;

use millstream_protocol::access::Access;
use millstream_protocol::element::Element;
use millstream_protocol::id::QueueId;
use millstream_protocol::kernel::NativeView;

/// The memory of some bindings, while no conflicting task runs.
pub struct HostResources {
    bindings: Vec<Resource>,
    queue: Option<QueueId>,
}

struct Resource {
    view: NativeView,
    access: Access,
    borrow: Cell<Borrow>,
}

/// The state of a binding's borrow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Borrow {
    None,
    Shared,
    Exclusive,
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
    #[error("binding {binding} is already borrowed; call `give_back` first")]
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

// SAFETY: the memory is plain, and only the thread that owns the resources may touch it.
unsafe impl Send for HostResources {}

impl HostResources {
    /// Creates the resources of a task of `queue`, or of a guard.
    ///
    /// # Safety
    /// The memory behind each view is initialized and stays valid as long as these resources. Until then nothing else
    /// writes it, and nothing else reads memory that is bound for writing.
    pub unsafe fn new(
        bindings: impl Iterator<Item = (NativeView, Access)>,
        queue: Option<QueueId>,
    ) -> Self {
        let resource = |(view, access)| Resource {
            view,
            access,
            borrow: Cell::new(Borrow::None),
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

    /// Returns the elements of binding `index`, which must be bound for reading or updating.
    ///
    /// # Panics
    /// If [`HostResources::try_read`] fails. In a task, the panic is caught and poisons the outputs.
    #[track_caller]
    pub fn read<T: Element>(&self, index: usize) -> &[T] {
        match self.try_read(index) {
            Ok(elements) => elements,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the elements of binding `index`, which must be bound for writing or updating. Each binding can be
    /// borrowed so once, until [`HostResources::give_back`].
    ///
    /// # Panics
    /// If [`HostResources::try_write`] fails. In a task, the panic is caught and poisons the outputs.
    #[track_caller]
    pub fn write<T: Element>(&self, index: usize) -> &mut [T] {
        match self.try_write(index) {
            Ok(elements) => elements,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the elements of binding `index`, which must be bound for reading or updating.
    ///
    /// # Errors
    /// If the binding does not exist, is bound for another access, is borrowed mutably, or is not aligned for `T`.
    pub fn try_read<T: Element>(&self, index: usize) -> Result<&[T], ResourceError> {
        let resource = self.resource(index)?;
        if !resource.access.reads() {
            return Err(ResourceError::Access {
                binding: index,
                bound: resource.access,
            });
        }
        let elements = Self::elements::<T>(resource, index)?;
        if resource.borrow.get() == Borrow::Exclusive {
            return Err(ResourceError::Lent { binding: index });
        }
        resource.borrow.set(Borrow::Shared);
        // SAFETY: initialized, aligned, and of that length. No part of it is borrowed mutably: not through this
        // binding, see above, and not through another, because overlapping bindings are never borrowed mutably.
        Ok(unsafe { std::slice::from_raw_parts(resource.view.pointer.cast(), elements) })
    }

    /// Returns the elements of binding `index`, which must be bound for writing or updating.
    ///
    /// # Errors
    /// If the binding does not exist, is bound for another access, is already borrowed, overlaps another, or is not
    /// aligned for `T`.
    #[expect(
        clippy::mut_from_ref,
        reason = "a binding is borrowed mutably once, and only if no other overlaps it"
    )]
    pub fn try_write<T: Element>(&self, index: usize) -> Result<&mut [T], ResourceError> {
        let resource = self.resource(index)?;
        if !resource.access.writes() {
            return Err(ResourceError::Access {
                binding: index,
                bound: resource.access,
            });
        }
        let elements = Self::elements::<T>(resource, index)?;
        if resource.borrow.get() != Borrow::None {
            return Err(ResourceError::Lent { binding: index });
        }
        self.check_disjoint(index)?;
        resource.borrow.set(Borrow::Exclusive);
        // SAFETY: initialized, aligned, and of that length. No part of it is borrowed otherwise, through this binding
        // or another, because no binding overlaps it.
        Ok(unsafe { std::slice::from_raw_parts_mut(resource.view.pointer.cast(), elements) })
    }

    /// Ends all borrows, so that bindings can be borrowed again.
    pub fn give_back(&mut self) {
        // The exclusive borrow of `self` proves that no slice is in use any more.
        for resource in &mut self.bindings {
            resource.borrow.set(Borrow::None);
        }
    }

    fn resource(&self, index: usize) -> Result<&Resource, ResourceError> {
        self.bindings.get(index).ok_or(ResourceError::Missing {
            binding: index,
            bindings: self.bindings.len(),
        })
    }

    fn elements<T: Element>(resource: &Resource, index: usize) -> Result<usize, ResourceError> {
        if !resource.view.pointer.cast::<T>().is_aligned() {
            return Err(ResourceError::Misaligned { binding: index });
        }
        Ok(resource.view.bytes as usize / size_of::<T>())
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
        let view = |(range, access): &(std::ops::Range<usize>, Access)| {
            let part = &mut memory[range.clone()];
            let bytes = size_of_val(part) as u64;
            (
                NativeView {
                    pointer: part.as_mut_ptr().cast(),
                    bytes,
                },
                *access,
            )
        };
        let bindings = bindings.iter().map(view).collect::<Vec<_>>();
        // SAFETY: the memory belongs to the test, and outlives the resources.
        unsafe { HostResources::new(bindings.into_iter(), None) }
    }

    #[test]
    fn disjoint_bindings_can_be_borrowed_together() {
        let mut memory = [1_u32, 2, 3, 4];
        let resources = resources(&mut memory, &[(0..2, Access::Read), (2..4, Access::Write)]);
        resources
            .write::<u32>(1)
            .copy_from_slice(resources.read::<u32>(0));
        assert_eq!(memory, [1, 2, 1, 2]);
    }

    #[test]
    fn mutable_borrow_is_exclusive() {
        let mut memory = [0_u32; 4];
        let mut resources = resources(
            &mut memory,
            &[(0..2, Access::ReadWrite), (3..4, Access::Read)],
        );
        resources.write::<u32>(0)[0] = 1;
        assert_eq!(
            resources.try_write::<u32>(0),
            Err(ResourceError::Lent { binding: 0 })
        );
        assert_eq!(
            resources.try_read::<u32>(0),
            Err(ResourceError::Lent { binding: 0 })
        );
        resources.give_back();
        assert_eq!(resources.read::<u32>(0), [1, 0]);
        assert_eq!(
            resources.try_write::<u32>(0),
            Err(ResourceError::Lent { binding: 0 })
        );
        let access = ResourceError::Access {
            binding: 1,
            bound: Access::Read,
        };
        assert_eq!(resources.try_write::<u32>(1), Err(access));
        assert!(resources.try_read::<u32>(2).is_err());
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
        assert_eq!(resources.try_write::<u32>(0), Err(overlap));
        assert_eq!(
            (resources.read::<u32>(0), resources.read::<u32>(1)),
            (&[7; 3][..], &[7; 2][..])
        );
    }
}
