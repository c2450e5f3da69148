//! Results of driver calls.

use std::fmt;

use ash::vk;
use millstream_protocol::{OpenError, Refused};

/// The error of a driver call, with the name of the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) struct Code {
    pub(crate) call: &'static str,
    pub(crate) result: vk::Result,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the driver call `{}` failed: {}", self.call, self.result)
    }
}

impl Code {
    /// Returns a function that adds the name of a call to its error.
    pub(crate) fn of(call: &'static str) -> impl Fn(vk::Result) -> Self {
        move |result| Self { call, result }
    }

    /// Whether the error means that the device is lost. Other errors concern one call.
    pub(crate) fn is_loss(self) -> bool {
        self.result == vk::Result::ERROR_DEVICE_LOST
    }
}

impl From<Code> for Refused {
    #[cold]
    fn from(code: Code) -> Self {
        match code.is_loss() {
            true => Refused::Lost(code.to_string()),
            false => Refused::Task(code.to_string()),
        }
    }
}

impl From<Code> for OpenError {
    #[cold]
    fn from(code: Code) -> Self {
        unavailable(code.to_string())
    }
}

/// Returns the error for a machine without a usable driver.
pub(crate) fn unavailable(why: impl Into<String>) -> OpenError {
    millstream_gpu::unavailable("vulkan", why)
}
