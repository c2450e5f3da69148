//! What a device counts: memory usage as a struct, and everything as a text.

use std::ffi::c_char;
use std::fmt::Write;

use millstream::metrics::Metrics;

use crate::device::ms_device;
use crate::handles::get;
use crate::sized::{give_text, sized, write_struct};
use crate::status::{entry, ms_status};

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

/// Reports the memory usage of a device. Blocks for one round trip to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_device_get_memory(
    device: *const ms_device,
    out: *mut ms_memory_usage,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let device = get(device)?.0.clone();
        let report = device.memory_usage()?;
        let usage = ms_memory_usage {
            size: 0,
            reserved: 0,
            in_use: report.device.in_use,
            pages: report.device.reserved,
            padding: report.device.padding,
            waiting: report.device.waiting,
            high_water: report.device.high_water,
            buffers: report.device.live_slices,
            staging: report.staging,
        };
        write_struct(out, &usage)
    })
}

/// Copies everything that the device counts, and a NUL, to `buffer`: lines of Prometheus' text format, with the names of
/// `docs/guide/metrics.md`. `needed`, if it is not NULL, receives the bytes that both take; the next call may need more.
/// Blocks for one round trip to the device.
///
/// Errors: `MS_STATUS_TOO_SMALL`: `capacity` is less than that; `buffer` may be NULL if `capacity` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_device_get_metrics(
    device: *const ms_device,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let device = get(device)?.0.clone();
        let text = text_of(&device.metrics()?);
        give_text(&text, buffer, capacity, needed)
    })
}

/// Returns the counters and gauges as lines. Histograms have no lines yet.
fn text_of(metrics: &Metrics) -> String {
    let (stats, memory) = (&metrics.stats, &metrics.stats.memory);
    let mut lines = Lines(String::new());
    for (name, value) in [
        ("tasks_total", stats.tasks),
        ("launches_total", stats.launches),
        ("batches_total", stats.batches),
        ("waits_issued_total", stats.waits_issued),
        ("waits_implied_total", stats.waits_implied),
        ("tasks_parked_total", stats.tasks_parked),
        ("tasks_withdrawn_total", stats.withdrawn),
        ("soft_limit_crossings_total", stats.soft_limit_crossings),
        ("epoch", metrics.epoch),
        ("mailbox_depth", metrics.mailbox_depth),
        ("mailbox_capacity", metrics.mailbox_capacity),
        ("streams", stats.streams),
        ("tasks_held", stats.tasks_held),
        ("memory_high_water_bytes", memory.high_water),
        ("slices", memory.live_slices),
        ("slices_poisoned", metrics.slices_poisoned),
        ("slices_waiting", metrics.collection.slices_waiting),
        ("values_waiting", metrics.collection.values_waiting),
        ("values_parked", stats.values_parked),
    ] {
        lines.add(name, None, value);
    }
    for (state, value) in [
        ("in_use", memory.in_use),
        ("reserved", memory.reserved),
        ("padding", memory.padding),
        ("waiting", memory.waiting),
    ] {
        lines.add("memory_bytes", Some(("state", state)), value);
    }
    for (reason, count) in metrics.faults.by_reason() {
        lines.add("faults_total", Some(("reason", reason)), count);
    }
    for (number, queue) in stats.queues.iter().enumerate() {
        let number = number.to_string();
        let label = Some(("queue", number.as_str()));
        lines.add("queue_tasks_total", label, queue.tasks);
        lines.add("queue_busy_nanoseconds_total", label, queue.busy_ns);
        lines.add("queue_depth", label, queue.in_flight());
    }
    for client in &metrics.clients {
        let label = Some(("client", &*client.name));
        lines.add("client_tasks_total", label, client.tasks);
    }
    lines.0
}

struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, label: Option<(&str, &str)>, value: u64) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "millstream_{name}");
        if let Some((label, text)) = label {
            let text = text.replace('\\', "\\\\");
            let text = text.replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{{{label}=\"{text}\"}}");
        }
        let _ = writeln!(self.0, " {value}");
    }
}
