//! The landing of a readback: an array of NumPy, which is the caller's or was made for the answer. The queue writes its
//! memory until the answer has arrived.

use std::sync::OnceLock;

use millstream::FailureRef;
use millstream::backend::{Landed, Landing as LandingTrait};

use crate::held::HeldBuffer;

/// Writable memory of an array, which the runtime keeps until it has finished.
pub(crate) struct Landing {
    memory: HeldBuffer,
    failure: OnceLock<FailureRef>,
}

impl Landing {
    pub(crate) fn new(memory: HeldBuffer) -> Self {
        Self {
            memory,
            failure: OnceLock::new(),
        }
    }
}

impl LandingTrait for Landing {
    fn target(&self) -> (*mut u8, usize) {
        self.memory.target()
    }

    fn fail(&self, failure: FailureRef) {
        // Only the first failure is kept.
        let _ = self.failure.set(failure);
    }
}

impl Landed<()> for Landing {
    unsafe fn take(&self) -> Result<(), FailureRef> {
        match self.failure.get() {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }
}
