//! Failed assertions.

use std::fmt::Arguments;

use millstream_ir::ssa::ThreadPosition;

/// Panics: the failure of a kernel whose assertion does not hold. The position is empty in a helper function, which does not
/// know its thread. A call that does not return ends the loop over the threads, so rustc does not vectorize it; a flag that
/// the loop sets instead would have lost the values of the text, which the thread may have overwritten by then.
///
/// # Panics
/// Always.
#[cold]
#[inline(never)]
pub fn fail<const AXES: usize>(
    assertion: &str,
    text: Arguments<'_>,
    position: [usize; AXES],
    (file, line): (&str, u32),
) -> ! {
    if AXES == 0 {
        panic!("assertion `{assertion}` fails{text} at {file}:{line}");
    }
    let thread = ThreadPosition(position.map(|along| along as u64).to_vec());
    panic!("assertion `{assertion}` fails{text}, in {thread} at {file}:{line}")
}
