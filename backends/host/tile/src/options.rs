//! What can be chosen when a program is compiled.

use millstream_ir::Blocking;

/// How a program is compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How it is cut up: the usual way, or one of those that [`Code::blockings`](crate::Code::blockings) has for it.
    pub blocking: Blocking,
    /// May loops be made in the processor's own code? They lie in memory that is executable and not writable; where the
    /// feature `machine-code` is off, or the processor is no x86-64, there are none anyway. Results are the same to the bit.
    pub machine_code: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            blocking: Blocking::USUAL,
            machine_code: true,
        }
    }
}
