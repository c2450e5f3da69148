//! The options of compiling a program.

use millstream_ir::Blocking;

/// How a program is compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The blocking: the usual one, or one that [`Code::blockings`](crate::Code::blockings) returns for the program.
    pub blocking: Blocking,
    /// Whether loops may become machine code, in memory that is executable and never writable. If the feature
    /// `machine-code` is off, or the processor is not x86-64, there is none.
    pub machine_code: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            blocking: Blocking::DEFAULT,
            machine_code: true,
        }
    }
}
