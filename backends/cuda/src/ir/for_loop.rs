//! The head of a loop in CUDA C. The sum of the last index and the step may exceed `i64`, which must not be computed: it
//! would be undefined behaviour, and the loop would not end.

use std::fmt::Display;

/// The bounds of a loop as variables, and their values if they are constants.
pub(super) struct Bounds<N> {
    pub(super) index: N,
    pub(super) start: N,
    pub(super) end: N,
    pub(super) step: N,
    /// The values of start, end and step.
    pub(super) values: [Option<i64>; 3],
}

/// The lines of a loop before its body.
pub(super) struct Head {
    pub(super) head: String,
    /// The first line of the body.
    pub(super) first: Option<String>,
}

impl<N: Display> Bounds<N> {
    pub(super) fn head(&self) -> Head {
        let Self {
            index,
            start,
            end,
            step,
            ..
        } = self;
        let (head, first) = match self.values {
            // A constant step is positive (checked).
            [_, Some(last), Some(by)] if last.checked_add(by).is_some() => (
                format!("for (i64 {index} = {start}; {index} < {end}; {index} += {step}) {{"),
                None,
            ),
            // From 0 on, the sum of two positive `i64` is always a `u64`.
            [Some(0..), _, Some(by)] => (
                format!(
                    "for (u64 t{index} = {start}, n{index} = {end} < 0 ? 0 : {end}; t{index} < n{index}; t{index} += {by}) {{"
                ),
                Some(format!("const i64 {index} = t{index};")),
            ),
            [_, _, by] => {
                // A step that is no constant may be 0, and the loop would not end.
                let guard = match by {
                    Some(_) => String::new(),
                    None => format!("{step} > 0 && "),
                };
                let head = format!(
                    "for (i64 {index} = {start}; {guard}{index} < {end}; {index} = ms::next({index}, {step}, {end})) {{"
                );
                (head, None)
            }
        };
        Head { head, first }
    }
}
