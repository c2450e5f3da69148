//! A user's hold on device memory.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use millstream_protocol::access::Access;
use millstream_protocol::binding::Binding;
use millstream_protocol::element::Element;
use millstream_protocol::error::LaunchError;
use millstream_protocol::id::SliceId;
use millstream_protocol::table::Hold;

/// A counted hold on a range of device memory, seen as elements of `T`.
///
/// Cloning it copies no memory. The memory returns to its pool once the last handle is gone and
/// every task that uses it has completed; dropping never waits.
///
/// A handle is a view, and every view is whole elements: it starts at a multiple of the element's size within its slice, and
/// its size is such a multiple. What would leave a part of an element is refused, so every task sees the same bytes of a
/// view. To cut memory at any byte, cut it as `u8`:
///
/// ```
/// # use millstream_client::Stream;
/// # use millstream_protocol::error::{Error, LaunchError};
/// # fn f(stream: &Stream) -> Result<(), Error> {
/// let words = stream.create(&[1_u32, 2, 3])?;
/// assert!(matches!(words.clone().offset_end(3), Err(LaunchError::Indivisible { .. })));
/// let bytes = words.cast::<u8>()?.offset_end(3)?;
/// assert_eq!(bytes.len(), 9);
/// assert!(bytes.cast::<u32>().is_err());
/// # Ok(()) }
/// ```
// The fields lie alike for every `T`: see `as_bytes`.
#[repr(C)]
pub struct Handle<T: Element = u8> {
    hold: Hold,
    /// Bytes of the whole slice.
    slice_bytes: u64,
    /// Bytes cut off in front: a multiple of the element's size.
    offset_start: u64,
    /// Bytes cut off at the end. What is left is a multiple of the element's size.
    offset_end: u64,
    element: PhantomData<fn() -> T>,
}

impl<T: Element> Handle<T> {
    pub(crate) fn whole(hold: Hold, slice_bytes: u64) -> Self {
        Self {
            hold,
            slice_bytes,
            offset_start: 0,
            offset_end: 0,
            element: PhantomData,
        }
    }

    /// Bytes of the view: those of the slice without the offsets.
    #[inline]
    pub fn size(&self) -> u64 {
        self.slice_bytes - self.offset_start - self.offset_end
    }

    /// Elements of the view.
    #[inline]
    pub fn len(&self) -> usize {
        (self.size() / size_of::<T>() as u64) as usize
    }

    /// Is the view empty? Empty views are valid arguments.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes cut off in front of the view.
    #[inline]
    pub fn start(&self) -> u64 {
        self.offset_start
    }

    /// The slice behind the view.
    #[inline]
    pub fn id(&self) -> SliceId {
        SliceId(self.hold.id())
    }

    /// Cuts another `bytes` off in front. Offsets add up.
    ///
    /// # Errors
    /// [`LaunchError::OutOfBounds`] when less than that is left, [`LaunchError::Indivisible`] when that is no whole number of
    /// elements.
    pub fn offset_start(mut self, bytes: u64) -> Result<Self, LaunchError> {
        self.check_cut(bytes)?;
        self.offset_start += bytes;
        Ok(self)
    }

    /// Cuts another `bytes` off at the end. Offsets add up.
    ///
    /// # Errors
    /// As [`Handle::offset_start`].
    pub fn offset_end(mut self, bytes: u64) -> Result<Self, LaunchError> {
        self.check_cut(bytes)?;
        self.offset_end += bytes;
        Ok(self)
    }

    fn check_cut(&self, bytes: u64) -> Result<(), LaunchError> {
        if bytes > self.size() {
            return Err(LaunchError::OutOfBounds {
                start: self.offset_start,
                end: self.offset_start.saturating_add(bytes),
                size: self.slice_bytes,
            });
        }
        whole_elements::<T>(bytes)
    }

    /// A view of some elements of this one.
    ///
    /// # Errors
    /// [`LaunchError::OutOfBounds`] when the range ends past the view or is reversed.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self, LaunchError> {
        let element = size_of::<T>() as u64;
        let start = match range.start_bound() {
            Bound::Included(start) => *start as u64,
            Bound::Excluded(start) => (*start as u64).saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => (*end as u64).saturating_add(1),
            Bound::Excluded(end) => *end as u64,
            Bound::Unbounded => self.len() as u64,
        };
        let (start, end) = (start.saturating_mul(element), end.saturating_mul(element));
        if start > end || end > self.size() {
            return Err(LaunchError::OutOfBounds {
                start,
                end,
                size: self.size(),
            });
        }
        let mut view = self.clone();
        view.offset_start += start;
        view.offset_end = self.slice_bytes - self.offset_start - end;
        Ok(view)
    }

    /// The same bytes as elements of another type.
    ///
    /// # Errors
    /// [`LaunchError::Indivisible`] when they are no whole number of such elements, [`LaunchError::MisalignedView`] when the
    /// view starts within one.
    pub fn cast<U: Element>(&self) -> Result<Handle<U>, LaunchError> {
        whole_elements::<U>(self.size())?;
        let (start, align) = (self.start(), size_of::<U>() as u64);
        if !start.is_multiple_of(align) {
            return Err(LaunchError::MisalignedView { start, align });
        }
        Ok(Handle {
            hold: self.hold.clone(),
            slice_bytes: self.slice_bytes,
            offset_start: self.offset_start,
            offset_end: self.offset_end,
            element: PhantomData,
        })
    }

    /// The same view as bytes, for calls that take handles of any elements. Counts no reference.
    #[inline]
    pub fn as_bytes(&self) -> &Handle<u8> {
        // SAFETY: the struct is `repr(C)`, and `T` is only in its marker, which has no size: both lie alike. Any
        // view is a view of bytes.
        unsafe { &*std::ptr::from_ref(self).cast::<Handle<u8>>() }
    }

    /// Is this the only hold on the slice? Then writing in place surprises nobody: no other handle,
    /// view, recording or guard exists. Tasks that are queued do not count, they are ordered.
    ///
    /// Another thread cannot make a second hold meanwhile, since it would need this one to clone.
    #[inline]
    pub fn can_mut(&self) -> bool {
        self.hold.is_unique()
    }

    /// The handle again if it is the only hold on its slice, for reuse in place.
    ///
    /// # Errors
    /// The handle itself when others exist.
    pub fn try_unique(self) -> Result<Self, Self> {
        if self.can_mut() { Ok(self) } else { Err(self) }
    }

    /// Do both name a byte that is the same?
    pub fn overlaps<U: Element>(&self, other: &Handle<U>) -> bool {
        let (this, that) = (self.binding(Access::Read), other.binding(Access::Read));
        this.slice == that.slice
            && this.offset < that.offset + that.len
            && that.offset < this.offset + this.len
    }

    /// Do both name memory of one device, in the same epoch of it?
    pub fn is_of_the_same_device<U: Element>(&self, other: &Handle<U>) -> bool {
        std::sync::Arc::ptr_eq(self.hold.table(), other.hold.table())
    }

    pub(crate) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// The view as an argument.
    #[inline]
    pub fn binding(&self, access: Access) -> Binding {
        Binding::new(self.id(), self.offset_start, self.size(), access)
    }
}

/// Checks that `bytes` is a whole number of elements.
fn whole_elements<T: Element>(bytes: u64) -> Result<(), LaunchError> {
    let element_bytes = size_of::<T>() as u64;
    if bytes.is_multiple_of(element_bytes) {
        return Ok(());
    }
    Err(LaunchError::Indivisible {
        bytes,
        element_bytes,
    })
}

impl<T: Element> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self {
            hold: self.hold.clone(),
            slice_bytes: self.slice_bytes,
            offset_start: self.offset_start,
            offset_end: self.offset_end,
            element: PhantomData,
        }
    }
}

impl<T: Element> Drop for Handle<T> {
    /// Ends the charge of the client's hard limit for handles as soon as it is known that this is the last hold. When two last holds
    /// go at once neither sees it; the device thread ends the charge then.
    #[inline]
    fn drop(&mut self) {
        let charge = &self.hold.payload().charge;
        if !charge.is_none() && self.hold.is_unique() {
            charge.end_for_handles();
        }
    }
}

impl<T: Element> std::fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Handle<{}>({}, bytes {}..{} of {})",
            T::DTYPE,
            self.id(),
            self.offset_start,
            self.slice_bytes - self.offset_end,
            self.slice_bytes
        )
    }
}
