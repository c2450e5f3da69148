//! Measures the peer's pools with more buffers than its page index can address.

use std::collections::HashSet;

use cubecl_server::memory_management::{
    ErrorGraph, ManagedMemoryHandle, MemoryConfiguration, PageUpdate,
};

use super::server;
use crate::measures::Figures;

/// Bytes of each buffer: small, so that only their number matters.
const BUFFER_BYTES: u64 = 64;

/// Counts how many of `COUNT` live buffers on separate pages do not resolve to separate memory.
pub(crate) fn unresolvable<const COUNT: usize>() -> Figures {
    let mut memory = server::memory(MemoryConfiguration::ExclusivePages);
    let mut failures = ErrorGraph::default();
    let mut live = Vec::with_capacity(COUNT);
    for _ in 0..COUNT {
        let Ok(reserved) = memory.reserve(BUFFER_BYTES, PageUpdate::Allow, &mut failures) else {
            break;
        };
        let handle = ManagedMemoryHandle::new();
        if memory
            .bind(reserved, handle.clone(), 0, &mut failures)
            .is_err()
        {
            break;
        }
        live.push(handle);
    }
    let addresses: HashSet<usize> = live
        .iter()
        .filter_map(|handle| {
            memory
                .get_resource(handle.clone().binding(), None, None)
                .ok()
        })
        .map(|resource| resource.read().as_ptr() as usize)
        .collect();
    vec![("buffers", (COUNT - addresses.len()) as f64)]
}
