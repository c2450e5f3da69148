//! Where the bytes of a copy between dense host memory and a binding go.
//!
//! Lengths and layouts come from callers and are checked here against the memory that is really there;
//! what does not fit is refused whole. The layouts' own arithmetic is not trusted: every run is checked.

use crate::layout::Strided;

/// Why a copy does not fit, as a sentence.
pub type Misfit = String;

/// Calls `run` with the byte offsets, strided and dense, and the length of each run of a copy. All lie
/// within both sides. Without a layout there is one run.
///
/// # Errors
/// When the sides do not have the lengths that the layout needs; then nothing was called.
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
    debug_assert!(!outside, "a layout's runs lie within its extent");
    if outside {
        return Err("its layout leaves the binding".to_owned());
    }
    Ok(())
}

/// Do the dense bytes and the memory have the lengths that the layout needs?
///
/// # Errors
/// When they do not, with the lengths.
pub fn check_layout(layout: Option<&Strided>, dense: u64, strided: u64) -> Result<(), Misfit> {
    let (needs_dense, needs_strided) = match layout {
        None => (strided, strided),
        Some(layout) if layout.shape.len() != layout.strides.len() => {
            let (axes, strides) = (layout.shape.len(), layout.strides.len());
            return Err(format!(
                "its shape has {axes} axes and its strides have {strides}"
            ));
        }
        Some(layout) => (layout.dense_bytes(), layout.extent_bytes()),
    };
    if dense != needs_dense {
        return Err(format!(
            "{dense} bytes on the host, {needs_dense} on the device"
        ));
    }
    if strided < needs_strided {
        return Err(format!(
            "its layout covers {needs_strided} bytes, the binding has {strided}"
        ));
    }
    Ok(())
}
