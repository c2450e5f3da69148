//! Prints and assertions.

use millstream_ir::ssa::Val;

use super::{Tracer, V};
use crate::number::Scalar;

/// Returns a value of a text.
pub fn said<T: Scalar>(value: V<'_, T>) -> Val<'_> {
    value.val()
}

impl<'k> Tracer<'k> {
    /// Prints a text with values.
    pub fn print(self, format: &str, values: &[Val<'k>]) {
        self.builder.print(format, values);
    }

    /// Fails the launch, because an assertion does not hold.
    pub fn fail(self, assertion: &str, format: &str, values: &[Val<'k>]) {
        let assertion = assertion.replace('{', "{{").replace('}', "}}");
        let format = format!("assertion `{assertion}` fails{format}");
        self.builder.fail(format, values);
    }
}
