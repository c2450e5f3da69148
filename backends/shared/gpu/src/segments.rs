//! The segments of a copy: each is one copy call of the driver.
//!
//! A copy moves bytes between dense host memory, which is divided into staging blocks, and GPU memory, which is dense
//! or strided. A segment is a set of rows of one width at one pitch, within one block.

use millstream_protocol::{Refused, Strided, check_layout};

use crate::staging::BLOCK_BYTES;

/// A readback that takes more copies than this copies the whole range if it can. Not measured yet.
const READBACK_COPIES_MAX: u64 = 64;

/// Rows of bytes: contiguous in host memory, `pitch` bytes apart in GPU memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Offset of the first byte in GPU memory, from the start of the binding.
    pub strided: u64,
    /// Offset of the first byte in dense host memory.
    pub dense: u64,
    /// Bytes of one row.
    pub width: u64,
    /// Bytes from the start of one row to the next in GPU memory.
    pub pitch: u64,
    /// The number of rows.
    pub rows: u64,
}

impl Segment {
    /// Returns the number of bytes to copy.
    pub fn bytes(&self) -> u64 {
        self.width * self.rows
    }

    /// Returns the offset in GPU memory of the end of the last row.
    pub fn end(&self) -> u64 {
        self.strided + self.pitch * self.rows.saturating_sub(1) + self.width
    }

    /// Returns `true` if the segment lies within `dense` bytes of host memory and `bytes` bytes of GPU memory.
    fn is_within(&self, dense: u64, bytes: u64) -> bool {
        // The sums of products of 64-bit numbers fit into 128 bits.
        let [start, strided] = [self.dense, self.strided].map(u128::from);
        let [width, pitch, rows] = [self.width, self.pitch, self.rows].map(u128::from);
        let end = strided + pitch * rows.saturating_sub(1) + width;
        start + width * rows <= u128::from(dense) && end <= u128::from(bytes)
    }
}

/// Cuts a copy into segments.
///
/// `dense` is the number of bytes on the host, `block` the size of a staging block, and `bytes` the size of the
/// binding. `layout` says where the bytes lie in the binding; without one they are dense. `pitch_max` is the driver's
/// largest pitch.
///
/// # Errors
/// The lengths do not match, or the layout exceeds the binding.
pub fn segments(
    layout: Option<&Strided>,
    dense: u64,
    bytes: u64,
    block: u64,
    pitch_max: u64,
) -> Result<Vec<Segment>, Refused> {
    check_layout(layout, dense, bytes).map_err(Refused::Task)?;
    let mut segments = Vec::new();
    match layout {
        None => {
            let whole = Segment {
                strided: 0,
                dense: 0,
                width: dense,
                pitch: dense,
                rows: 1,
            };
            cut_at_blocks(whole, block, &mut segments);
        }
        Some(layout) => join_rows(layout, pitch_max, |rows| {
            cut_at_blocks(rows, block, &mut segments);
        }),
    }
    // The bounds are checked here as well, because the copies are unsafe and the layout's arithmetic is not trusted.
    match segments
        .iter()
        .all(|segment| segment.is_within(dense, bytes))
    {
        true => Ok(segments),
        false => Err(Refused::Task(format!(
            "the layout exceeds its binding of {bytes} bytes, or the {dense} bytes on the host"
        ))),
    }
}

/// Cuts a readback of a binding of `bytes` bytes into segments. `copies` is the number of copies that the driver performs
/// for a segment. Also returns the layout by which [`Readback::land`](crate::Readback::land) selects the requested bytes,
/// if the whole range is copied.
///
/// # Errors
/// The layout exceeds the binding.
pub fn readback_segments(
    layout: Option<&Strided>,
    bytes: u64,
    pitch_max: u64,
    copies: impl Fn(&Segment) -> u64,
) -> Result<(Vec<Segment>, Option<&Strided>), Refused> {
    let (dense, block) = (
        layout.map_or(bytes, Strided::dense_bytes),
        BLOCK_BYTES as u64,
    );
    let cut = segments(layout, dense, bytes, block, pitch_max)?;
    let copies: u64 = cut.iter().map(copies).sum();
    match layout.filter(|_| copies > READBACK_COPIES_MAX && bytes / 2 <= dense) {
        // Many short runs with few gaps.
        Some(selected) => {
            let whole = segments(None, bytes, bytes, block, pitch_max)?;
            Ok((whole, Some(selected)))
        }
        None => Ok((cut, None)),
    }
}

/// Joins consecutive runs of a layout that have the same length and distance into one segment.
fn join_rows(layout: &Strided, pitch_max: u64, mut each: impl FnMut(Segment)) {
    let mut open: Option<Segment> = None;
    layout.for_each_run(|strided, dense, bytes| {
        if let Some(rows) = &mut open {
            let step = strided.checked_sub(rows.strided + (rows.rows - 1) * rows.pitch);
            let joins = bytes == rows.width
                && step.is_some_and(|step| {
                    let regular = rows.rows == 1 || step == rows.pitch;
                    // Overlapping rows stay separate segments, so that they are written in order.
                    regular && (rows.width..=pitch_max).contains(&step)
                });
            if let (true, Some(step)) = (joins, step) {
                rows.pitch = step;
                rows.rows += 1;
                return;
            }
            each(*rows);
        }
        open = Some(Segment {
            strided,
            dense,
            width: bytes,
            pitch: bytes,
            rows: 1,
        });
    });
    if let Some(rows) = open {
        each(rows);
    }
}

/// Cuts rows at the boundaries of host blocks.
fn cut_at_blocks(rows: Segment, block: u64, segments: &mut Vec<Segment>) {
    let (end, mut dense) = (rows.dense + rows.bytes(), rows.dense);
    while dense < end {
        let done = dense - rows.dense;
        let (row, column) = (done / rows.width, done % rows.width);
        let room = block - dense % block;
        let segment = Segment {
            strided: rows.strided + row * rows.pitch + column,
            dense,
            ..rows
        };
        let segment = match column == 0 && room >= rows.width {
            true => Segment {
                rows: (room / rows.width).min(rows.rows - row),
                ..segment
            },
            false => {
                let width = room.min(rows.width - column);
                Segment {
                    width,
                    pitch: width,
                    rows: 1,
                    ..segment
                }
            }
        };
        dense += segment.bytes();
        segments.push(segment);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the offset in GPU memory of each dense byte.
    fn gpu_offsets(segments: &[Segment], block: u64) -> Vec<u64> {
        let mut offsets = Vec::new();
        for segment in segments {
            assert_eq!(segment.dense, offsets.len() as u64, "segments are in order");
            assert!(segment.bytes() > 0 && (segment.rows == 1 || segment.pitch >= segment.width));
            let last = segment.dense + segment.bytes() - 1;
            assert_eq!(
                segment.dense / block,
                last / block,
                "{segment:?} crosses a block boundary"
            );
            for row in 0..segment.rows {
                let start = segment.strided + row * segment.pitch;
                offsets.extend(start..start + segment.width);
            }
        }
        offsets
    }

    #[test]
    fn a_pitched_tensor_that_fits_a_block_is_one_segment() {
        let layout = Strided::pitched(&[3, 5, 7], 4, 64).unwrap();
        let bytes = layout.extent_bytes();
        let segments = segments(Some(&layout), 3 * 5 * 7 * 4, bytes, 1 << 20, 1 << 30).unwrap();
        let rows = Segment {
            strided: 0,
            dense: 0,
            width: 28,
            pitch: 64,
            rows: 15,
        };
        assert_eq!(segments, [rows]);
    }

    #[test]
    fn lengths_that_do_not_match_are_refused() {
        let layout = Strided::new(&[2, 2], &[u64::MAX / 8, 1], 1).unwrap();
        assert!(segments(Some(&layout), 4, 64, 16, 1 << 20).is_err());
        assert!(segments(None, 4, 5, 16, 1 << 20).is_err());
        assert_eq!(segments(None, 0, 0, 16, 1 << 20).unwrap(), []);
    }

    proptest! {
        #[test]
        fn segments_visit_every_byte_in_dense_order(
            shape in prop::collection::vec(0_u64..5, 0..5),
            strides in prop::collection::vec(0_u64..40, 5),
            element in 1_u64..5,
            block in 1_u64..50,
            pitch_max in 1_u64..200,
        ) {
            let layout = Strided::new(&shape, &strides[..shape.len()], element).unwrap();
            let mut expected = Vec::new();
            layout.for_each_run(|strided, _, bytes| expected.extend(strided..strided + bytes));
            let (dense, bytes) = (layout.dense_bytes(), layout.extent_bytes());
            let segments = segments(Some(&layout), dense, bytes, block, pitch_max).unwrap();
            prop_assert!(segments.iter().all(|segment| segment.rows == 1 || segment.pitch <= pitch_max));
            prop_assert_eq!(gpu_offsets(&segments, block), expected);
        }
    }
}
