//! Layouts of tensors: shapes, strides, pitched rows.

use smallvec::SmallVec;

use crate::error::{ArgumentError, ArgumentErrorKind};

/// The number of axes that a layout stores without the heap.
const INLINE_AXES: usize = 6;

/// A list with one entry per axis, the outermost first.
pub type Axes = SmallVec<[u64; INLINE_AXES]>;

/// A strided tensor within a binding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Strided {
    /// The length of each axis in elements, the outermost first.
    pub shape: Axes,
    /// The distance between neighbours along each axis, in elements.
    pub strides: Axes,
    /// The size of one element in bytes.
    pub element_bytes: u64,
}

impl Strided {
    /// Creates a layout with these strides, in elements.
    ///
    /// # Errors
    /// If the ranks differ, or the extent overflows.
    pub fn new(shape: &[u64], strides: &[u64], element_bytes: u64) -> Result<Self, ArgumentError> {
        if shape.len() != strides.len() {
            return Err(ArgumentError::ranks(shape.len(), strides.len()));
        }
        let layout = Self {
            shape: shape.into(),
            strides: strides.into(),
            element_bytes,
        };
        match (layout.checked_bytes(), layout.checked_dense()) {
            (Some(_), Some(_)) => Ok(layout),
            _ => Err(overflow(shape, element_bytes)),
        }
    }

    /// Creates a dense layout; the last axis varies fastest.
    ///
    /// # Errors
    /// If the extent overflows.
    pub fn dense(shape: &[u64], element_bytes: u64) -> Result<Self, ArgumentError> {
        Self::pitched(shape, element_bytes, 1)
    }

    /// Creates a layout whose rows (along the last axis) start at multiples of `pitch_alignment` bytes; the outer
    /// axes are dense over rows. A single row, or a single axis, is not padded.
    ///
    /// # Errors
    /// If the extent overflows.
    pub fn pitched(
        shape: &[u64],
        element_bytes: u64,
        pitch_alignment: u64,
    ) -> Result<Self, ArgumentError> {
        let overflow = || overflow(shape, element_bytes);
        let mut strides = Axes::from_elem(1, shape.len());
        let mut next = 1_u64;
        for axis in (0..shape.len()).rev() {
            strides[axis] = next;
            next = next.checked_mul(shape[axis].max(1)).ok_or_else(overflow)?;
            if axis + 1 == shape.len() && axis > 0 {
                let row = next.checked_mul(element_bytes).ok_or_else(overflow)?;
                let row = row
                    .checked_next_multiple_of(pitch_alignment.max(1))
                    .ok_or_else(overflow)?;
                next = if row.is_multiple_of(element_bytes) {
                    row / element_bytes
                } else {
                    next
                };
            }
        }
        Self::new(shape, &strides, element_bytes)
    }

    fn checked_dense(&self) -> Option<u64> {
        self.shape
            .iter()
            .try_fold(self.element_bytes, |bytes, axis| bytes.checked_mul(*axis))
    }

    fn checked_bytes(&self) -> Option<u64> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        let mut last = 0_u64;
        for (axis, stride) in self.shape.iter().zip(&self.strides) {
            last = last.checked_add((axis - 1).checked_mul(*stride)?)?;
        }
        last.checked_add(1)?.checked_mul(self.element_bytes)
    }

    /// Returns `true` if the elements are contiguous and in dense order. A tensor without gaps may still be in
    /// another order: see [`Strided::fills_its_extent`].
    pub fn is_dense(&self) -> bool {
        let mut next = 1_u64;
        let axes = self.shape.iter().zip(&self.strides).rev();
        let in_order = axes.into_iter().all(|(axis, stride)| {
            let fits = *axis == 1 || *stride == next;
            next = next.saturating_mul(*axis);
            fits
        });
        in_order || self.shape.contains(&0)
    }

    /// Returns `true` if every byte between the first and the last element belongs to exactly one element: the tensor
    /// is dense in some order of its axes.
    pub fn fills_its_extent(&self) -> bool {
        let axes = self.shape.iter().zip(&self.strides);
        let mut axes: SmallVec<[(u64, u64); INLINE_AXES]> = axes
            .filter(|(axis, _)| **axis != 1)
            .map(|(axis, stride)| (*stride, *axis))
            .collect();
        axes.sort_unstable();
        let mut next = 1_u64;
        let in_order = axes.iter().all(|(stride, axis)| {
            let fits = *stride == next;
            next = next.saturating_mul(*axis);
            fits
        });
        in_order || self.shape.contains(&0)
    }

    /// Returns the number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Returns the bytes of the elements without gaps.
    pub fn dense_bytes(&self) -> u64 {
        self.checked_dense().unwrap_or(u64::MAX)
    }

    /// Returns the bytes from the first element to the last: the minimum length of a binding with this layout.
    pub fn extent_bytes(&self) -> u64 {
        self.checked_bytes().unwrap_or(u64::MAX)
    }

    /// Calls `run` for each run of contiguous bytes, in dense order, with its strided offset, its dense offset and
    /// its length, all in bytes.
    pub fn for_each_run(&self, mut run: impl FnMut(u64, u64, u64)) {
        if self.shape.contains(&0) {
            return;
        }
        // The innermost axes that are dense form one run.
        let mut inner = self.shape.len();
        let mut run_elements = 1;
        while inner > 0 && (self.strides[inner - 1] == run_elements || self.shape[inner - 1] == 1) {
            run_elements *= self.shape[inner - 1];
            inner -= 1;
        }
        let bytes = run_elements * self.element_bytes;
        let mut index = Axes::from_elem(0, inner);
        let (mut strided, mut dense) = (0, 0);
        loop {
            run(strided * self.element_bytes, dense, bytes);
            dense += bytes;
            let mut axis = inner;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                // The stride of an axis with one element is never followed, and may be any number.
                strided = strided.wrapping_add(self.strides[axis]);
                if index[axis] < self.shape[axis] {
                    break;
                }
                let whole = self.strides[axis].wrapping_mul(self.shape[axis]);
                strided = strided.wrapping_sub(whole);
                index[axis] = 0;
            }
        }
    }
}

#[cold]
fn overflow(shape: &[u64], element_bytes: u64) -> ArgumentError {
    let message = format!(
        "a layout of shape {shape:?} with elements of {element_bytes} bytes reaches beyond 2^64 bytes; use smaller lengths or strides"
    );
    ArgumentError::new(ArgumentErrorKind::TooLarge, message)
}

// The contiguous runs of a copy between dense host memory and a binding.
//
// Lengths and layouts come from callers. They are checked here against the actual memory, and a copy that does not
// fit is refused as a whole. The arithmetic of layouts is not trusted: every run is checked.

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_of_a_pitched_tensor_are_aligned() {
        let layout = Strided::pitched(&[3, 5, 7], 4, 64).unwrap();
        assert_eq!(layout.strides.as_slice(), [80, 16, 1]);
        assert_eq!(layout.extent_bytes(), (2 * 80 + 4 * 16 + 7) * 4);
        assert_eq!(
            Strided::pitched(&[7], 4, 64).unwrap().strides.as_slice(),
            [1]
        );
    }

    #[test]
    fn stride_of_an_axis_with_one_element_may_be_any_number() {
        let layout = Strided::new(&[2, 1, 2], &[10, u64::MAX, 2], 1).unwrap();
        let mut runs = Vec::new();
        layout.for_each_run(|strided, dense, bytes| runs.push((strided, dense, bytes)));
        assert_eq!(runs, [(0, 0, 1), (2, 1, 1), (10, 2, 1), (12, 3, 1)]);
    }

    #[test]
    fn transposed_tensor_without_gaps_is_not_dense() {
        let dense =
            |shape: &[u64], strides: &[u64]| Strided::new(shape, strides, 4).unwrap().is_dense();
        assert!(dense(&[3, 4], &[4, 1]));
        assert!(dense(&[3, 1, 4], &[4, 99, 1]));
        assert!(dense(&[0, 4], &[9, 9]));
        assert!(!dense(&[3, 4], &[1, 3]));
        assert!(!dense(&[3, 4], &[5, 1]));
        let fills = |shape: &[u64], strides: &[u64]| {
            Strided::new(shape, strides, 4).unwrap().fills_its_extent()
        };
        assert!(fills(&[3, 4], &[4, 1]) && fills(&[3, 4], &[1, 3]));
        assert!(fills(&[2, 3, 4], &[4, 8, 1]) && fills(&[3, 1], &[1, 77]) && fills(&[0], &[7]));
        assert!(!fills(&[3, 4], &[5, 1]) && !fills(&[3, 4], &[0, 1]) && !fills(&[2, 2], &[1, 1]));
    }

    #[test]
    fn overflowing_layouts_are_refused() {
        assert!(Strided::dense(&[u64::MAX, 2], 4).is_err());
        assert!(Strided::new(&[2], &[u64::MAX - 1], 1).is_ok());
        assert!(Strided::new(&[2], &[u64::MAX], 1).is_err());
        assert!(Strided::new(&[3], &[u64::MAX], 1).is_err());
        assert!(Strided::new(&[3], &[1, 1], 1).is_err());
    }

    proptest! {
        #[test]
        fn runs_visit_every_element_once_in_dense_order(shape in prop::collection::vec(0_u64..5, 0..5), pitch in 1_u64..33) {
            let layout = Strided::pitched(&shape, 2, pitch).unwrap();
            let mut visited = Vec::new();
            let mut expected_dense = 0;
            layout.for_each_run(|strided, dense, bytes| {
                assert_eq!(dense, expected_dense);
                expected_dense += bytes;
                for byte in (0..bytes).step_by(2) {
                    visited.push((strided + byte) / 2);
                }
            });
            prop_assert_eq!(visited.len() as u64, layout.elements());
            let mut expected = vec![0_u64];
            for (axis, stride) in layout.shape.iter().zip(&layout.strides) {
                expected = expected.iter().flat_map(|base| (0..*axis).map(move |i| base + i * stride)).collect();
            }
            prop_assert_eq!(visited, expected);
        }
    }
}
