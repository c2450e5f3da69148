//! The contiguous runs of a copy between dense host memory and a binding.
//!
//! Lengths and layouts come from callers. They are checked here against the actual memory, and a copy that does not
//! fit is refused as a whole. The arithmetic of layouts is not trusted: every run is checked.

use crate::layout::Strided;

/// Why a copy does not fit, as a message.
pub type Misfit = String;

/// Calls `run` for each run of a copy, with its strided offset, its dense offset and its length, all in bytes. Every
/// run lies within both sides. Without a layout there is one run.
///
/// # Errors
/// If the lengths of the two sides differ from those of the layout. `run` is not called in that case.
pub fn for_each_run(
    layout: Option<&Strided>,
    strided_bytes: u64,
    dense_bytes: u64,
    mut run: impl FnMut(usize, usize, usize),
) -> Result<(), Misfit> {
    check_layout(layout, dense_bytes, strided_bytes)?;
    let Some(layout) = layout else {
        run(0, 0, dense_bytes as usize);
        return Ok(());
    };
    let fits = |start: u64, bytes: u64, all| start.checked_add(bytes).is_some_and(|end| end <= all);
    let mut outside = false;
    layout.for_each_run(|strided, dense, bytes| {
        if fits(strided, bytes, strided_bytes) && fits(dense, bytes, dense_bytes) {
            run(strided as usize, dense as usize, bytes as usize);
        } else {
            outside = true;
        }
    });
    debug_assert!(!outside, "the runs of a layout lie within its extent");
    if outside {
        return Err(format!(
            "its layout reaches outside of the binding of {strided_bytes} bytes, or the {dense_bytes} bytes on the host"
        ));
    }
    Ok(())
}

/// Checks that the dense bytes and the strided memory have the lengths that the layout needs.
///
/// # Errors
/// The lengths, if they differ.
pub fn check_layout(layout: Option<&Strided>, dense: u64, strided: u64) -> Result<(), Misfit> {
    let (needs_dense, needs_strided) = match layout {
        None => (strided, strided),
        Some(layout) if layout.shape.len() != layout.strides.len() => {
            let (axes, strides) = (layout.shape.len(), layout.strides.len());
            return Err(format!(
                "its shape has {axes} axes and its strides have {strides}; pass one stride for each axis"
            ));
        }
        Some(layout) => (layout.dense_bytes(), layout.extent_bytes()),
    };
    if dense != needs_dense {
        return Err(format!(
            "expected {needs_dense} bytes on the host, got {dense}"
        ));
    }
    if strided < needs_strided {
        return Err(format!(
            "its layout needs a binding of at least {needs_strided} bytes, got {strided}"
        ));
    }
    Ok(())
}
