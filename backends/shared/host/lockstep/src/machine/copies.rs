//! Copies from and to buffers that other threads of the host may access.

use super::element::Element;

/// Copies bytes, a multiple of 64, with these instructions.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! vectors {
    ($load:literal, $store:literal, $from:expr, $to:expr, $bytes:expr) => {
        std::arch::asm!(
            "2:",
            concat!($load, " {a}, [{from} + {at}]"),
            concat!($load, " {b}, [{from} + {at} + 16]"),
            concat!($load, " {c}, [{from} + {at} + 32]"),
            concat!($load, " {d}, [{from} + {at} + 48]"),
            concat!($store, " [{to} + {at}], {a}"),
            concat!($store, " [{to} + {at} + 16], {b}"),
            concat!($store, " [{to} + {at} + 32], {c}"),
            concat!($store, " [{to} + {at} + 48], {d}"),
            "add {at}, 64",
            "cmp {at}, {bytes}",
            "jb 2b",
            from = in(reg) $from,
            to = in(reg) $to,
            bytes = in(reg) $bytes,
            at = inout(reg) 0_usize => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        )
    };
}

/// Copies elements, each by a relaxed atomic load and a relaxed atomic store. `shared` is the address of those of the two that
/// other threads may access.
///
/// rustc does not combine atomic accesses, so that a loop of them moves one element at a time; a saxpy spent more than half of
/// its time there.
///
/// # Safety
/// The elements exist, and do not overlap.
#[inline]
pub(super) unsafe fn copy_shared<T: Element>(from: *const T, to: *mut T, n: usize, shared: usize) {
    let one = |nth: usize| {
        // SAFETY: the caller's promise.
        unsafe { T::load::<true>(from.add(nth)).store::<true>(to.add(nth)) };
    };
    let mut done = 0;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if std::arch::is_x86_feature_detected!("avx") {
        /// The bytes that one instruction moves, and those of a turn of the loop.
        const VECTOR: usize = 16;
        const TURN: usize = 4 * VECTOR;
        let lead = (shared.wrapping_neg() % VECTOR) / size_of::<T>();
        (0..lead.min(n)).for_each(one);
        done = lead.min(n);
        let bytes = (n - done) * size_of::<T>() / TURN * TURN;
        if bytes > 0 {
            // The instructions do what a loop of relaxed atomic accesses to the elements may do: a processor with AVX performs a
            // VEX-encoded aligned access to 16 bytes atomically (Intel's manual, volume 3, "Guaranteed atomic operations";
            // AMD's, volume 2, "Access atomicity"), and elements are aligned, so that each lies in one of them.
            //
            // SAFETY: the caller's promise; the side that other threads may access is aligned to 16 bytes.
            unsafe {
                let (from, to) = (from.add(done).cast::<u8>(), to.add(done).cast::<u8>());
                match from.addr() == shared + done * size_of::<T>() {
                    true => vectors!("vmovdqa", "vmovdqu", from, to, bytes),
                    false => vectors!("vmovdqu", "vmovdqa", from, to, bytes),
                }
            }
            done += bytes / size_of::<T>();
        }
    }
    (done..n).for_each(one);
}
