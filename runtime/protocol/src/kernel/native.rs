//! The view of a native kernel: its cube, and its arguments, which are sound by construction.
//!
//! The cubes of one launch run concurrently on several threads. Safe accesses are sound because:
//! 1. bindings of one launch do not overlap if one of them is written (checked at launch),
//! 2. hazards keep every conflicting task from running during the launch (I2),
//! 3. a `Whole` binding is only read, and an `Atomic` binding is accessed only with atomics,
//! 4. a `Chunks` binding is divided at positions that depend only on the launch, and each cube can take only its own
//!    chunk, and only once.
//!
//! Each access checks points 3 and 4.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64};

use millstream_ir::DType;

use crate::binding::Access;
use crate::element::Element;
use crate::kernel::signature::{BindingSpec, Share, Signature};
use crate::lines::Lines;

/// One cube of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cube {
    /// The linear index, x fastest.
    index: u64,
    counts: [u32; 3],
}

impl Cube {
    /// Creates the cube `index` of a launch of `counts` cubes.
    #[inline]
    pub fn new(index: u64, counts: [u32; 3]) -> Self {
        Self { index, counts }
    }

    /// Returns the linear index of the cube, x fastest.
    #[inline]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Returns the position along x.
    #[inline]
    pub fn x(&self) -> u32 {
        (self.index % u64::from(self.counts[0])) as u32
    }

    /// Returns the position along y.
    #[inline]
    pub fn y(&self) -> u32 {
        (self.index / u64::from(self.counts[0]) % u64::from(self.counts[1])) as u32
    }

    /// Returns the position along z.
    #[inline]
    pub fn z(&self) -> u32 {
        (self.index / u64::from(self.counts[0]) / u64::from(self.counts[1])) as u32
    }

    /// Returns the number of cubes along each axis.
    #[inline]
    pub fn counts(&self) -> [u32; 3] {
        self.counts
    }

    /// Returns the number of cubes of the launch.
    #[inline]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).product()
    }
}

/// The memory of one binding of a running launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NativeView {
    /// The first byte.
    pub pointer: *mut u8,
    /// The length in bytes.
    pub bytes: u64,
}

/// An element type that has an atomic type of the same layout.
pub trait AtomicElement: Element {
    /// The atomic type.
    type Atomic: Sync;
}

macro_rules! atomic_elements {
    ($($rust:ty => $atomic:ty),*) => {$(
        impl AtomicElement for $rust {
            type Atomic = $atomic;
        }
    )*};
}

atomic_elements! { u32 => AtomicU32, i32 => AtomicI32, u64 => AtomicU64, i64 => AtomicI64 }

/// The number of bindings whose chunks are tracked: one bit of a word each.
const MAX_TRACKED_BINDINGS: usize = 64;

/// The arguments of one cube of a native launch.
///
/// Accessing a binding otherwise than the signature declares it is a bug of the kernel: it panics, and the panic
/// poisons the launch's outputs like any other.
pub struct NativeArgs<'a> {
    signature: &'a Signature,
    views: &'a [NativeView],
    scalars: &'a [u64],
    metadata: &'a [u32],
    lines: Option<&'a Lines>,
    cube: Cube,
    /// The bindings whose chunk this cube has taken, one bit each.
    taken: Cell<u64>,
    /// Makes the type `!Sync`: chunks are taken on one thread.
    _thread: PhantomData<*mut ()>,
}

impl<'a> NativeArgs<'a> {
    /// Creates the arguments of `cube`.
    ///
    /// # Safety
    /// `views` and `scalars` are those of one launch that passed the checks of `signature` (number, element type,
    /// alignment, no overlap with a written binding). The memory of `views` is initialized and valid for `'a`; until
    /// then no other task accesses what the launch writes, or writes what it reads. Arguments are created at most
    /// once for each cube of a launch.
    #[inline]
    pub unsafe fn new(
        signature: &'a Signature,
        views: &'a [NativeView],
        scalars: &'a [u64],
        metadata: &'a [u32],
        cube: Cube,
    ) -> Self {
        Self {
            signature,
            views,
            scalars,
            metadata,
            lines: None,
            cube,
            taken: Cell::new(0),
            _thread: PhantomData,
        }
    }

    /// Returns the same arguments, for a launch that prints to `lines`.
    #[inline]
    pub fn with_lines(mut self, lines: Option<&'a Lines>) -> Self {
        self.lines = lines;
        self
    }

    /// Returns where the threads of the launch print, if it does.
    #[inline]
    pub fn lines(&self) -> Option<&'a Lines> {
        self.lines
    }

    /// Returns all of binding `index`, which the signature declares as read.
    #[inline]
    pub fn read<T: Element>(&self, index: usize) -> &'a [T] {
        let view = self.view::<T>(index, Share::Whole);
        // SAFETY: the view is aligned for `T` (checked at launch) and initialized, and nothing writes it while the
        // launch runs (points 1 to 3 of the module); every bit pattern is a `T`.
        unsafe { std::slice::from_raw_parts(view.pointer.cast::<T>(), Self::elements::<T>(view)) }
    }

    /// Returns this cube's chunk of binding `index`, which the signature declares as written or updated. The last
    /// chunks may be shorter, or empty.
    ///
    /// # Panics
    /// If the cube takes the same chunk twice.
    #[inline]
    pub fn chunk<T: Element>(&self, index: usize) -> &'a mut [T] {
        let view = self.view::<T>(index, Share::Chunks);
        self.take(index);
        let (start, end) = self.bounds(Self::elements::<T>(view));
        // SAFETY: `start..end` lies in the view. Chunks of different cubes are disjoint because their bounds depend
        // only on the cube's index. This chunk was not taken before (point 4).
        unsafe { std::slice::from_raw_parts_mut(view.pointer.cast::<T>().add(start), end - start) }
    }

    /// Returns the index, within binding `index`, of the first element of this cube's chunk.
    #[inline]
    pub fn chunk_start(&self, index: usize) -> usize {
        let size = self.spec(index).dtype.size();
        self.bounds(self.views[index].bytes as usize / size).0
    }

    /// Returns all of binding `index` as atomics, shared with every other cube.
    #[inline]
    pub fn atomics<T: AtomicElement>(&self, index: usize) -> &'a [T::Atomic] {
        let view = self.view::<T>(index, Share::Atomic);
        // SAFETY: the atomic type has the layout of `T`, the slice is aligned for it, and all cubes access this
        // binding only with atomics (point 3).
        unsafe {
            std::slice::from_raw_parts(view.pointer.cast::<T::Atomic>(), Self::elements::<T>(view))
        }
    }

    /// Returns all of binding `index` as a pointer and a length in elements, however it is shared.
    ///
    /// # Safety
    /// The caller keeps the accesses of all cubes free of data races, writes only what the signature declares as
    /// written, and holds no safe view of the same elements.
    #[inline]
    pub unsafe fn raw<T: Element>(&self, index: usize) -> (*mut T, usize) {
        self.spec(index);
        let view = self.views[index];
        (view.pointer.cast::<T>(), Self::elements::<T>(view))
    }

    /// Returns all of binding `index` as bytes, however it is shared.
    #[inline]
    pub fn raw_bytes(&self, index: usize) -> NativeView {
        self.spec(index);
        self.views[index]
    }

    /// Returns the length of binding `index` in elements of its declared type.
    #[inline]
    pub fn len(&self, index: usize) -> usize {
        let size = self.spec(index).dtype.size();
        self.views[index].bytes as usize / size
    }

    /// Returns scalar `index`, in declared order.
    #[inline]
    pub fn scalar<T: Element>(&self, index: usize) -> T {
        let Some(spec) = self.signature.scalars().get(index) else {
            panic!(
                "scalar {index} is not declared, the kernel declares {}, counted from 0",
                self.signature.scalars().len()
            );
        };
        if spec.dtype != T::DTYPE {
            panic!(
                "scalar `{}` is declared as {declared}, not {}: take `args.scalar::<{declared}>({index})`",
                spec.name,
                T::DTYPE,
                declared = spec.dtype
            );
        }
        let bytes: &[u8] = bytemuck::cast_slice(self.scalars);
        bytemuck::pod_read_unaligned(&bytes[spec.offset..spec.offset + size_of::<T>()])
    }

    /// Returns the bits of scalar `index`, of whatever type: its bytes are the first of the word.
    ///
    /// # Panics
    /// If the signature declares no such scalar.
    #[inline]
    pub fn scalar_bits(&self, index: usize) -> u64 {
        let (spec, mut word) = (&self.signature.scalars()[index], 0_u64);
        let bytes: &[u8] = bytemuck::cast_slice(self.scalars);
        let scalar = &bytes[spec.offset..][..spec.dtype.size()];
        bytemuck::bytes_of_mut(&mut word)[..scalar.len()].copy_from_slice(scalar);
        word
    }

    /// Returns the launch's metadata words (shapes, strides, lengths).
    #[inline]
    pub fn metadata(&self) -> &'a [u32] {
        self.metadata
    }

    #[inline]
    fn elements<T>(view: NativeView) -> usize {
        view.bytes as usize / size_of::<T>()
    }

    /// Returns the bounds of this cube's chunk of a binding of `elements` elements.
    #[inline]
    fn bounds(&self, elements: usize) -> (usize, usize) {
        let cubes = self.cube.count() as usize;
        let chunk = elements.div_ceil(cubes.max(1));
        let start = (self.cube.index() as usize)
            .saturating_mul(chunk)
            .min(elements);
        (start, start.saturating_add(chunk).min(elements))
    }

    #[inline]
    fn spec(&self, index: usize) -> &'a BindingSpec {
        match self.signature.bindings().get(index) {
            Some(spec) => spec,
            None => undeclared(index, self.signature.bindings().len()),
        }
    }

    /// Returns the memory of a binding, after checking that it is declared with this sharing.
    #[inline]
    fn view<T: Element>(&self, index: usize, share: Share) -> NativeView {
        let spec = self.spec(index);
        if spec.dtype != T::DTYPE || spec.share != share {
            misused(spec, index, T::DTYPE);
        }
        self.views[index]
    }

    /// Marks this cube's chunk of binding `index` as taken.
    #[inline]
    fn take(&self, index: usize) {
        assert!(
            index < MAX_TRACKED_BINDINGS,
            "binding {index} has no chunk: only the chunks of the first {MAX_TRACKED_BINDINGS} bindings are tracked"
        );
        let bit = 1_u64 << index;
        if self.taken.get() & bit != 0 {
            taken_twice(self.spec(index), index);
        }
        self.taken.set(self.taken.get() | bit);
    }
}

#[cold]
fn undeclared(index: usize, declared: usize) -> ! {
    panic!("binding {index} is not declared, the kernel declares {declared}, counted from 0")
}

#[cold]
fn taken_twice(spec: &BindingSpec, index: usize) -> ! {
    panic!(
        "the chunk of binding {index} `{}` was taken twice by one cube: keep the first",
        spec.name
    )
}

/// Panics because the kernel accesses a binding otherwise than it declares it, and names the right access.
#[cold]
fn misused(spec: &BindingSpec, index: usize, requested: DType) -> ! {
    let BindingSpec { name, dtype, .. } = spec;
    let (declared, take) = match (spec.share, spec.access) {
        (Share::Whole, _) => ("read", "read"),
        (Share::Chunks, Access::Write) => ("written", "chunk"),
        (Share::Chunks, _) => ("updated", "chunk"),
        (Share::Atomic, _) => ("updated atomically", "atomics"),
        (Share::Raw, _) => ("raw", "raw"),
    };
    if *dtype != requested {
        panic!(
            "binding {index} `{name}` is declared as {dtype}, not {requested}: take it as {dtype}"
        );
    }
    panic!("binding {index} `{name}` is declared as {declared}: take `args.{take}({index})`");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::Kernel;

    fn args<'a>(signature: &'a Signature, views: &'a [NativeView], cube: Cube) -> NativeArgs<'a> {
        // SAFETY: the tests below use the arguments on one thread, each cube index once.
        unsafe { NativeArgs::new(signature, views, &[], &[], cube) }
    }

    proptest! {
        #[test]
        fn chunks_are_disjoint_and_cover_everything(len in 0_usize..500, cubes in 1_u32..70) {
            let kernel = Kernel::new("k").updates::<u32>("out");
            let mut data = vec![0_u32; len];
            let views = [NativeView { pointer: data.as_mut_ptr().cast(), bytes: len as u64 * 4 }];
            for index in 0..cubes {
                let args = args(kernel.signature(), &views, Cube::new(u64::from(index), [cubes, 1, 1]));
                for value in args.chunk::<u32>(0) {
                    *value += 1;
                }
            }
            prop_assert!(data.iter().all(|value| *value == 1));
        }
    }

    #[test]
    #[should_panic(expected = "taken twice")]
    fn chunk_taken_twice_panics() {
        let kernel = Kernel::new("k").writes::<u32>("out");
        let mut data = [0_u32; 4];
        let views = [NativeView {
            pointer: data.as_mut_ptr().cast(),
            bytes: 16,
        }];
        let args = args(kernel.signature(), &views, Cube::new(0, [1, 1, 1]));
        let (first, second) = (args.chunk::<u32>(0), args.chunk::<u32>(0));
        first[0] = second[0];
    }

    #[test]
    #[should_panic(expected = "binding 0 `in` is declared as read: take `args.read(0)`")]
    fn chunk_of_a_read_binding_panics() {
        let kernel = Kernel::new("k").reads::<u32>("in");
        let mut data = [0_u32; 4];
        let views = [NativeView {
            pointer: data.as_mut_ptr().cast(),
            bytes: 16,
        }];
        args(kernel.signature(), &views, Cube::new(0, [1, 1, 1])).chunk::<u32>(0)[0] = 1;
    }
}
