//! Switches callgrind's collection on and off for the calling thread, from inside the measured
//! program.
//!
//! A client request is a sequence of instructions that has no effect on a processor and that
//! valgrind recognizes. With `--collect-atstart=no` callgrind collects exactly the instructions
//! between two requests, per thread. So start-up, spinning and waiting are excluded, and no symbol
//! of either side needs to be known.

use std::sync::atomic::{AtomicBool, Ordering};

/// `VG_USERREQ__TOGGLE_COLLECT`: tool base "CT", request 2.
#[cfg(target_arch = "x86_64")]
const TOGGLE_COLLECT: usize = (b'C' as usize) << 24 | (b'T' as usize) << 16 | 2;

/// Whether valgrind requests are implemented for this architecture.
pub(crate) const AVAILABLE: bool = cfg!(target_arch = "x86_64");

/// Switches collection for the calling thread. Does nothing outside valgrind.
#[inline(never)]
pub(crate) fn toggle() {
    #[cfg(target_arch = "x86_64")]
    {
        let request: [usize; 6] = [TOGGLE_COLLECT, 0, 0, 0, 0, 0];
        // SAFETY: outside valgrind the rotations of `rdi` add up to 128 bits, and `rbx` is exchanged
        // with itself, so no register changes. Inside, valgrind reads `request` through `rax` and
        // writes its answer to `rdx`; both are declared.
        unsafe {
            std::arch::asm!(
                "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
                inout("rax") request.as_ptr() => _,
                inout("rdx") 0_usize => _,
                options(nostack)
            );
        }
    }
}

static RELEASED: AtomicBool = AtomicBool::new(false);
static ARRIVED: AtomicBool = AtomicBool::new(false);

/// Waits, on the device's side, until [`release`] is called, and then switches collection on. So the
/// complete batch behind the marker has been submitted, and the device does not wait within it.
pub(crate) fn begin_when_released() {
    // Release pairs with the Acquire in `wait_for_arrival`.
    ARRIVED.store(true, Ordering::Release);
    // Acquire pairs with the Release in `release`; swap resets for the next batch.
    while !RELEASED.swap(false, Ordering::Acquire) {
        std::thread::yield_now();
    }
    toggle();
}

/// Lets the device's side start a batch, which has been submitted completely.
pub(crate) fn release() {
    RELEASED.store(true, Ordering::Release);
}

/// Waits until the device's side is in [`begin_when_released`]. Only for a device that starts tasks
/// without a flush.
pub(crate) fn wait_for_arrival() {
    // Acquire pairs with the Release in `begin_when_released`; swap resets for the next batch.
    while !ARRIVED.swap(false, Ordering::Acquire) {
        std::thread::yield_now();
    }
}
