//! Atomic operations on elements of buffers.
//!
//! All are relaxed: a kernel orders no two accesses of different threads to different elements, on no device. The end of
//! the launch orders all of them with what comes behind it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64};

use millstream_ir::DType;

use super::buffer::Atomics;
use super::memory::At;
use crate::number::{Int, Number};

/// Fails to compile for a type without atomic operations.
pub(crate) const fn check_size<T>() {
    assert!(size_of::<T>() >= 4, "atomics have 4 or 8 bytes");
}

/// Calls a method of the atomic type with the size and, of integers, the sign of `T`. Gives the bits of the result.
macro_rules! by_type {
    ($t:ident, $place:expr, |$it:ident, $of:ident| $call:expr) => {{
        const { check_size::<$t>() };
        let place: *mut $t = $place;
        // SAFETY: all accesses to the element are atomic (`Atomics::place`). It has the size of the atomic type.
        unsafe {
            match ($t::DTYPE, size_of::<$t>()) {
                (DType::I64, _) => {
                    #[allow(dead_code, reason = "a load has no operand")]
                    type $of = i64;
                    let $it = AtomicI64::from_ptr(place.cast());
                    let bits: i64 = $call;
                    bits as u64
                }
                (DType::I32, _) => {
                    #[allow(dead_code, reason = "a load has no operand")]
                    type $of = i32;
                    let $it = AtomicI32::from_ptr(place.cast());
                    let bits: i32 = $call;
                    u64::from(bits as u32)
                }
                (_, 8) => {
                    #[allow(dead_code, reason = "a load has no operand")]
                    type $of = u64;
                    let $it = AtomicU64::from_ptr(place.cast());
                    $call
                }
                _ => {
                    #[allow(dead_code, reason = "a load has no operand")]
                    type $of = u32;
                    let $it = AtomicU32::from_ptr(place.cast());
                    u64::from($call)
                }
            }
        }
    }};
}

macro_rules! integers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Panics
        /// There is no such element.
        #[inline(always)]
        pub fn $name<I: Int>(&self, index: I, value: T, at: &'static At) -> T
        where
            T: Int,
        {
            let (place, bits) = (self.place(index.index(), at), value.bits());
            T::of_bits(by_type!(T, place, |it, Of| it.$name(bits as Of, Relaxed)))
        }
    )*};
}

/// Atomic operations. Each returns what the element was before.
impl<T: Number> Atomics<'_, T> {
    /// Adds to an element.
    ///
    /// # Panics
    /// There is no such element.
    #[inline(always)]
    #[allow(clippy::unnecessary_cast, reason = "one text for all types")]
    pub fn fetch_add<I: Int>(&self, index: I, value: T, at: &'static At) -> T {
        let (place, bits) = (self.place(index.index(), at), value.bits());
        if !T::DTYPE.is_float() {
            return T::of_bits(by_type!(T, place, |it, Of| it.fetch_add(bits as Of, Relaxed)));
        }
        let sum = |before: u64| T::of_bits(before).add(value).bits();
        // The update always succeeds at last: `Ok` and `Err` both hold the bits before.
        T::of_bits(by_type!(T, place, |it, Of| {
            it.fetch_update(Relaxed, Relaxed, |before| Some(sum(before as u64) as Of))
                .unwrap_or_else(|before| before)
        }))
    }

    /// Replaces an element.
    ///
    /// # Panics
    /// There is no such element.
    #[inline(always)]
    pub fn swap<I: Int>(&self, index: I, value: T, at: &'static At) -> T {
        let (place, bits) = (self.place(index.index(), at), value.bits());
        T::of_bits(by_type!(T, place, |it, Of| it.swap(bits as Of, Relaxed)))
    }

    /// Replaces an element.
    ///
    /// # Panics
    /// There is no such element.
    #[inline(always)]
    pub fn store<I: Int>(&self, index: I, value: T, at: &'static At) {
        let (place, bits) = (self.place(index.index(), at), value.bits());
        by_type!(T, place, |it, Of| {
            it.store(bits as Of, Relaxed);
            0 as Of
        });
    }

    /// Returns an element.
    ///
    /// # Panics
    /// There is no such element.
    #[inline(always)]
    pub fn load<I: Int>(&self, index: I, at: &'static At) -> T {
        let place = self.place(index.index(), at);
        T::of_bits(by_type!(T, place, |it, Of| it.load(Relaxed)))
    }

    integers! {
        /// Subtracts from an element.
        fetch_sub;
        /// Replaces an element by the smaller one of it and a value.
        fetch_min;
        /// Replaces an element by the greater one of it and a value.
        fetch_max;
        /// Keeps the bits of an element that a value has, too.
        fetch_and;
        /// Adds the bits of a value to an element.
        fetch_or;
        /// Flips the bits of an element that a value has.
        fetch_xor;
    }

    /// Replaces an element by `new` if it is `expected`.
    ///
    /// # Panics
    /// There is no such element.
    #[inline(always)]
    pub fn compare_exchange<I: Int>(&self, index: I, expected: T, new: T, at: &'static At) -> T
    where
        T: Int,
    {
        let place = self.place(index.index(), at);
        let (expected, new) = (expected.bits(), new.bits());
        // `Ok` and `Err` both hold the bits before.
        T::of_bits(by_type!(T, place, |it, Of| {
            it.compare_exchange(expected as Of, new as Of, Relaxed, Relaxed)
                .unwrap_or_else(|before| before)
        }))
    }
}
