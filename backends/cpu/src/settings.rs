//! The checked options of a device.

/// Checked options, with all defaults filled in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) queues: usize,
    pub(crate) threads: usize,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) machine_code: bool,
}
