//! A reference-counted view of device memory.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use millstream_protocol::{
    Access, ArgumentError, ArgumentErrorKind, Binding, SliceId, SlotRef, Stored,
};

/// A reference-counted view of a range of device memory, as elements of `T`.
///
/// Cloning a handle copies no memory. The memory returns to its pool once the last handle is dropped and
/// every task that uses it has completed; dropping never blocks.
///
/// A view always consists of whole elements: it starts at a multiple of the element's size within its slice, and its
/// size is a multiple of the element's size. A cut that would split an element is an error, so every task sees the same
/// bytes of a view. To cut memory at any byte, cast it to `u8` first:
///
/// ```
/// # use millstream_client::Stream;
/// # use millstream_protocol::{ArgumentErrorKind, Error};
/// # fn f(stream: &Stream) -> Result<(), Error> {
/// let words = stream.create(&[1_u32, 2, 3])?;
/// let refused = words.clone().offset_end(3);
/// assert!(matches!(refused, Err(why) if why.kind == ArgumentErrorKind::Alignment));
/// let bytes = words.cast::<u8>()?.offset_end(3)?;
/// assert_eq!(bytes.len(), 9);
/// assert!(bytes.cast::<u32>().is_err());
/// # Ok(()) }
/// ```
///
/// A type without bytes has no elements:
///
/// ```compile_fail,E0080
/// # use millstream_client::Stream;
/// # use millstream_client::handle::Handle;
/// # fn f(handle: &Handle<u8>) {
/// let nothing = handle.cast::<[u8; 0]>();
/// # }
/// # fn main() { std::hint::black_box(f as fn(&Handle<u8>)); }
/// ```
// `repr(C)`: the layout is the same for every `T`, which `as_bytes` relies on.
#[repr(C)]
pub struct Handle<T: Stored = u8> {
    hold: SlotRef,
    /// The first byte in the slice: a multiple of the element's size.
    start: u64,
    /// The number of bytes: a multiple of the element's size.
    size: u64,
    element: PhantomData<fn() -> T>,
}

impl<T: Stored> Handle<T> {
    /// Lengths are divided by the size of an element.
    const HAS_BYTES: () = assert!(
        size_of::<T>() > 0,
        "an element of device memory has at least one byte"
    );

    pub(crate) fn new(hold: SlotRef, slice_bytes: u64) -> Self {
        let () = Self::HAS_BYTES;
        Self {
            hold,
            start: 0,
            size: slice_bytes,
            element: PhantomData,
        }
    }

    /// Returns the size of the view, in bytes.
    #[inline]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of elements in the view.
    #[inline]
    pub fn len(&self) -> usize {
        (self.size() / size_of::<T>() as u64) as usize
    }

    /// Returns `true` if the view is empty. Empty views are valid arguments.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the offset of the view within its slice, in bytes.
    #[inline]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the id of the slice that the view belongs to.
    #[inline]
    pub fn id(&self) -> SliceId {
        SliceId(self.hold.id())
    }

    /// Cuts `bytes` more off the front of the view. Repeated cuts add up.
    ///
    /// # Errors
    /// [`ArgumentErrorKind::Length`] if the view is shorter than `bytes`, [`ArgumentErrorKind::Alignment`] if `bytes` is not
    /// a whole number of elements.
    pub fn offset_start(mut self, bytes: u64) -> Result<Self, ArgumentError> {
        self.check_cut(bytes)?;
        self.start += bytes;
        self.size -= bytes;
        Ok(self)
    }

    /// Cuts `bytes` more off the end of the view. Repeated cuts add up.
    ///
    /// # Errors
    /// Same as [`Handle::offset_start`].
    pub fn offset_end(mut self, bytes: u64) -> Result<Self, ArgumentError> {
        self.check_cut(bytes)?;
        self.size -= bytes;
        Ok(self)
    }

    fn check_cut(&self, bytes: u64) -> Result<(), ArgumentError> {
        if bytes > self.size() {
            return Err(ArgumentError::out_of_bounds(0, bytes, self.size()));
        }
        check_whole_elements::<T>(bytes)
    }

    /// Returns a view of a range of this view's elements.
    ///
    /// # Errors
    /// [`ArgumentErrorKind::Length`] if the range ends past the view or is reversed.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self, ArgumentError> {
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
            return Err(ArgumentError::out_of_bounds(start, end, self.size()));
        }
        Ok(self.part(start, end - start))
    }

    /// Returns a view of these bytes of the view, which lie in it.
    fn part<U: Stored>(&self, start: u64, size: u64) -> Handle<U> {
        let () = Handle::<U>::HAS_BYTES;
        Handle {
            hold: self.hold.clone(),
            start: self.start + start,
            size,
            element: PhantomData,
        }
    }

    /// Casts the view to elements of another type.
    ///
    /// # Errors
    /// [`ArgumentErrorKind::Alignment`] if the size is not a whole number of `U`, or the view does not start at a multiple of
    /// the size of `U`.
    pub fn cast<U: Stored>(&self) -> Result<Handle<U>, ArgumentError> {
        check_whole_elements::<U>(self.size())?;
        let (start, align) = (self.start(), size_of::<U>() as u64);
        if !start.is_multiple_of(align) {
            let message = format!(
                "the view starts at byte {start} of its slice, which is not a multiple of the element size of {align} bytes: slice at a multiple of {align}, or copy the data to a new slice"
            );
            return Err(ArgumentError::new(ArgumentErrorKind::Alignment, message));
        }
        Ok(self.part(0, self.size))
    }

    /// Casts the view to bytes, for calls that take handles of any element type. Increments no reference count.
    #[inline]
    pub fn as_bytes(&self) -> &Handle<u8> {
        // SAFETY: the struct is `repr(C)` and `T` occurs only in the zero-sized marker, so both types have the same
        // layout. Any view is a valid view of bytes.
        unsafe { &*std::ptr::from_ref(self).cast::<Handle<u8>>() }
    }

    /// Returns `true` if this is the only reference to the slice, so that it may be written in place: no other handle,
    /// view, recording or guard of the slice exists. Queued tasks do not count, since hazards order them.
    ///
    /// No other thread can create a second reference meanwhile: it would have to clone this one.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.hold.is_unique()
    }

    /// Returns the handle if it is the only reference to its slice, for reuse in place.
    ///
    /// # Errors
    /// Returns the handle unchanged if other references exist.
    pub fn try_unique(self) -> Result<Self, Self> {
        if self.is_unique() {
            Ok(self)
        } else {
            Err(self)
        }
    }

    /// Returns `true` if the two views share at least one byte.
    pub fn overlaps<U: Stored>(&self, other: &Handle<U>) -> bool {
        self.binding(Access::Read)
            .overlaps(&other.binding(Access::Read))
            && self.is_same_device(other)
    }

    /// Returns `true` if both views are of memory of the same device, in the same epoch.
    pub fn is_same_device<U: Stored>(&self, other: &Handle<U>) -> bool {
        std::sync::Arc::ptr_eq(self.hold.table(), other.hold.table())
    }

    pub(crate) fn hold(&self) -> &SlotRef {
        &self.hold
    }

    /// Returns the view as the argument of a task, with the given access.
    #[inline]
    pub fn binding(&self, access: Access) -> Binding {
        Binding::new(self.id(), self.start, self.size, access)
    }
}

/// Returns an error unless `bytes` is a whole number of elements.
fn check_whole_elements<T: Stored>(bytes: u64) -> Result<(), ArgumentError> {
    let element_bytes = size_of::<T>() as u64;
    if bytes.is_multiple_of(element_bytes) {
        return Ok(());
    }
    let message = format!(
        "{bytes} bytes are not a multiple of the element size of {element_bytes} bytes: slice at a multiple of {element_bytes}, or cast the handle to `u8` to slice at any byte"
    );
    Err(ArgumentError::new(ArgumentErrorKind::Alignment, message))
}

impl<T: Stored> Clone for Handle<T> {
    fn clone(&self) -> Self {
        self.part(0, self.size)
    }
}

impl<T: Stored> Drop for Handle<T> {
    /// Ends the handles' charge on the client's hard limit if this is the last reference. If the last two handles are
    /// dropped concurrently, neither sees itself as the last; the device thread ends the charge then.
    #[inline]
    fn drop(&mut self) {
        let charge = &self.hold.payload().charge;
        if !charge.is_none() && self.hold.is_unique() {
            charge.end_for_handles();
        }
    }
}

impl<T: Stored> std::fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (id, start, end) = (self.id(), self.start, self.start + self.size);
        let of = match size_of::<T>() / T::WORD.size() {
            1 => T::WORD.to_string(),
            words => format!("{words} {}", T::WORD),
        };
        write!(f, "Handle<{of}>({id}, bytes {start}..{end})")
    }
}
