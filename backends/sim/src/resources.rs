//! The memory that a custom task or a guard receives. The checker observes it while a guard has it.

use std::ops::Deref;
use std::sync::Arc;

use millstream_host::HostResources;

use crate::shared::Shared;

/// The memory of some bindings; see [`HostResources`].
pub struct SimResources {
    pub(crate) resources: HostResources,
    /// Reports its end, if it is of a guard that the checker observes.
    pub(crate) _guard: Option<Guard>,
}

/// Reports the end of a host guard to the checker.
pub(crate) struct Guard {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let number = self.number;
        self.shared
            .with(|state| state.check(|checker| checker.host_ends(number)));
    }
}

impl Deref for SimResources {
    type Target = HostResources;

    fn deref(&self) -> &HostResources {
        &self.resources
    }
}
