//! Why a launch is refused.

use millstream_protocol::NativeView;

/// The reason why a launch is refused, as text.
pub(crate) type PrepareError = String;

/// Checks that there are enough bindings or words.
#[inline]
pub(crate) fn check_count(what: &str, needed: usize, given: usize) -> Result<(), PrepareError> {
    match given < needed {
        true => Err(format!("expected at least {needed} {what}, got {given}")),
        false => Ok(()),
    }
}

/// A length is negative, or the index space is too large.
#[cold]
pub(crate) fn lengths(words: &[u64]) -> PrepareError {
    let lengths: Vec<i64> = words.iter().map(|word| *word as i64).collect();
    format!(
        "the lengths {lengths:?} are negative, or their product is too large; check the launch's words"
    )
}

/// A binding's memory is not aligned for its elements.
#[cold]
pub(crate) fn unaligned(binding: usize, view: NativeView, align: usize) -> PrepareError {
    let excess = view.pointer.addr() % align;
    format!(
        "binding {binding} starts {excess} bytes after a multiple of its element size of {align} bytes; slice at a multiple of {align}"
    )
}

/// An access leaves its binding, which has this many elements. `reach`: the first and the last element that it touches.
#[cold]
pub(crate) fn out_of_bounds(
    access: usize,
    binding: usize,
    reach: Option<(i64, i64)>,
    elements: i64,
) -> PrepareError {
    let reach = reach.map_or("overflows the elements".to_owned(), |(first, last)| {
        format!("reaches elements {first} to {last}")
    });
    format!(
        "access {access} {reach} of binding {binding}, which has {elements}; check the launch's lengths, strides and offsets"
    )
}
