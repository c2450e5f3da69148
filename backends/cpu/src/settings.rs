//! What a device is opened with, once its options have been checked.

/// Options that have been checked, with every default filled in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) queues: usize,
    pub(crate) threads: usize,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) machine_code: bool,
}
