//! What a custom task and a guard are given: the memory of their bindings as slices.
//!
//! Access is sound by construction: a binding can be written only if it was bound so, only once, and
//! only if no other binding overlaps it; what has been read cannot be written through the same borrow.

use std::cell::Cell;

use millstream_protocol::access::Access;
use millstream_protocol::element::Element;
use millstream_protocol::id::QueueId;
use millstream_protocol::kernel::NativeView;

/// The memory of some bindings, while nothing that conflicts with them runs.
pub struct HostResources {
    bindings: Vec<Resource>,
    queue: Option<QueueId>,
}

struct Resource {
    view: NativeView,
    access: Access,
    borrow: Cell<Borrow>,
}

/// What has been lent of a binding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Borrow {
    None,
    Shared,
    Exclusive,
}

/// Why a binding cannot be had in this way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// There is no such binding.
    #[error("binding {binding} of {bindings} was asked for")]
    Missing {
        /// Which was asked for.
        binding: usize,
        /// How many there are.
        bindings: usize,
    },
    /// It is bound for another access.
    #[error("binding {binding} is bound to {bound}, and not otherwise")]
    Access {
        /// Which was asked for.
        binding: usize,
        /// How it is bound.
        bound: Access,
    },
    /// It overlaps another binding, so that it could not be lent alone.
    #[error("binding {binding} overlaps binding {other}, so that neither can be written")]
    Overlap {
        /// Which was asked for.
        binding: usize,
        /// The one that it overlaps.
        other: usize,
    },
    /// It has been lent out already.
    #[error("binding {binding} has been lent already")]
    Lent {
        /// Which was asked for.
        binding: usize,
    },
    /// It does not start at a multiple of the element's alignment.
    #[error("binding {binding} does not start where such an element may")]
    Misaligned {
        /// Which was asked for.
        binding: usize,
    },
}

// SAFETY: the memory is plain, and the thread that has the resources is the one that may touch it.
unsafe impl Send for HostResources {}

impl HostResources {
    /// The memory of these bindings, for a task of `queue` or for a guard.
    ///
    /// # Safety
    /// The memory behind each view is initialized and stays valid as long as these resources; until then nobody
    /// else writes it, nor reads what is bound to be written.
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

    /// How many bindings there are.
    pub fn len(&self) -> usize {
        self.bindings.len()
    }

    /// Is nothing bound?
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    /// The queue that runs the task; `None` for a guard, which runs on none.
    pub fn queue(&self) -> Option<QueueId> {
        self.queue
    }

    /// The elements of binding `index`, which is bound to be read or updated.
    ///
    /// # Panics
    /// Where [`HostResources::try_read`] fails. In a task that is caught and poisons its outputs.
    #[track_caller]
    pub fn read<T: Element>(&self, index: usize) -> &[T] {
        match self.try_read(index) {
            Ok(elements) => elements,
            Err(error) => panic!("{error}"),
        }
    }

    /// The elements of binding `index`, which is bound to be written or updated. Each binding can be
    /// had so once, until [`HostResources::give_back`].
    ///
    /// # Panics
    /// Where [`HostResources::try_write`] fails. In a task that is caught and poisons its outputs.
    #[track_caller]
    pub fn write<T: Element>(&self, index: usize) -> &mut [T] {
        match self.try_write(index) {
            Ok(elements) => elements,
            Err(error) => panic!("{error}"),
        }
    }

    /// The elements of binding `index`, which is bound to be read or updated.
    ///
    /// # Errors
    /// When it is bound otherwise, has been lent to be written, or does not hold such elements.
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
        // SAFETY: initialized, aligned, and that long; nothing of it is lent to be written: not as this
        // binding, see above, and not as another, since what overlaps is never lent so.
        Ok(unsafe { std::slice::from_raw_parts(resource.view.pointer.cast(), elements) })
    }

    /// The elements of binding `index`, which is bound to be written or updated.
    ///
    /// # Errors
    /// When it is bound otherwise, has been lent already, overlaps another, or does not hold such elements.
    #[expect(clippy::mut_from_ref, reason = "each binding is lent once, and alone")]
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
        // SAFETY: initialized, aligned, and that long; nothing of it is lent otherwise, neither as this
        // binding nor as another, since none overlaps it.
        Ok(unsafe { std::slice::from_raw_parts_mut(resource.view.pointer.cast(), elements) })
    }

    /// Gives everything back that was lent, so that it can be had again.
    pub fn give_back(&mut self) {
        // The exclusive borrow proves that no slice is in use any more.
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

    /// No other binding may share a byte with one that can be written.
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
        // SAFETY: the memory is the test's, which outlives the resources.
        unsafe { HostResources::new(bindings.into_iter(), None) }
    }

    #[test]
    fn disjoint_bindings_can_be_had_at_once() {
        let mut memory = [1_u32, 2, 3, 4];
        let resources = resources(&mut memory, &[(0..2, Access::Read), (2..4, Access::Write)]);
        resources
            .write::<u32>(1)
            .copy_from_slice(resources.read::<u32>(0));
        assert_eq!(memory, [1, 2, 1, 2]);
    }

    #[test]
    fn what_is_lent_to_be_written_is_lent_alone() {
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
