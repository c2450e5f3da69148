//! The properties of this device.

use millstream_host::{ALIGNMENT, BINDINGS_MAX, PITCH_ALIGNMENT, QUEUE_DEPTH_MAX, features};
use millstream_protocol::DeviceProperties;

use crate::options::Cpu;
use crate::pages::PAGE_BYTES_MAX;

/// Returns the properties of a device with these options whose launches run on `threads` threads.
pub(crate) fn properties(options: &Cpu, threads: usize) -> DeviceProperties {
    DeviceProperties {
        backend: "cpu",
        name: processor_name(),
        queues: options.queues,
        queue_priorities: Vec::new(),
        compute_units: threads,
        alignment: ALIGNMENT as u64,
        pitch_alignment: PITCH_ALIGNMENT,
        memory_bytes: options.memory_limit,
        max_allocation_bytes: options.memory_limit.unwrap_or(u64::MAX).min(PAGE_BYTES_MAX),
        max_cube_count: [u32::MAX; 3],
        max_bindings: BINDINGS_MAX,
        max_queue_depth: QUEUE_DEPTH_MAX,
        features: features(),
    }
}

/// Returns the name of the processor, if the system has one.
fn processor_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    model.unwrap_or_else(|| "CPU".to_owned())
}
