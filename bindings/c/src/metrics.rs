//! What a device counts: memory usage as a struct, and everything as a text.

use std::ffi::c_char;

use crate::device::ms_device;
use crate::handles::get;
use crate::sized::{give_text, sized, write_struct};
use crate::status::exports;

/// Memory of a device, in bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_memory_usage {
    /// `sizeof(ms_memory_usage)`. Set it before the call.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// In live buffers, including padding.
    pub in_use: u64,
    /// In pages that were allocated from the device.
    pub pages: u64,
    /// Lost to rounding within live buffers.
    pub padding: u64,
    /// In destroyed buffers that tasks still use.
    pub waiting: u64,
    /// The maximum of `in_use` so far.
    pub high_water: u64,
    /// Live buffers, those that share memory counted once.
    pub buffers: u64,
    /// Host memory that is kept for uploads.
    pub staging: u64,
}

sized!(ms_memory_usage: 64);

exports! {
    /// Reports the memory usage of a device. Blocks for one round trip to it.
    fn ms_device_get_memory(device: *const ms_device, out: *mut ms_memory_usage) {
        let report = get(device)?.0.clone().memory_usage()?;
        let (known, staging) = (report.device, report.staging);
        write_struct(out, &ms_memory_usage {
            size: 0, reserved: 0, in_use: known.in_use, pages: known.reserved,
            padding: known.padding, waiting: known.waiting, high_water: known.high_water,
            buffers: known.live_slices, staging,
        })
    }

    /// Copies everything that the device counts, and a NUL, to `buffer`: lines of Prometheus' text format, with the
    /// names of `docs/guide/metrics.md`. `needed`, if it is not NULL, receives the bytes that both take; the next call
    /// may need more. Blocks for one round trip to the device.
    ///
    /// Errors: `MS_STATUS_TOO_SMALL`: `capacity` is less than that; `buffer` may be NULL if `capacity` is 0.
    fn ms_device_get_metrics(
        device: *const ms_device, buffer: *mut c_char, capacity: usize, needed: *mut usize,
    ) {
        let text = millstream::metrics::text(&get(device)?.0.clone().metrics()?);
        give_text(&text, buffer, capacity, needed)
    }
}
