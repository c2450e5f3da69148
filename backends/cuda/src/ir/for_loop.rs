//! The head of a loop in CUDA C. The sum of the last index and the step may exceed `i64`, which must not be computed: it
//! would be undefined behaviour, and the loop would not end.

use std::fmt::Display;

/// Returns the line of a loop before its body, and the first line of the body. The bounds are the variables of start, end
/// and step; `values` are theirs if they are constants.
pub(super) fn head<N: Display>(
    index: &N,
    [start, end, step]: &[N; 3],
    values: [Option<i64>; 3],
) -> (String, Option<String>) {
    match values {
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
    }
}
