//! The parts of a copy: what the driver's calls for it are.
//!
//! A copy is between dense bytes, which lie in blocks of staging, and memory of the GPU, dense or strided. Each part
//! is a number of rows of one width, at one pitch, within one block: one call of the driver.

use millstream_protocol::error::Refused;
use millstream_protocol::layout::Strided;
use millstream_protocol::layout::check_layout;

/// Rows of bytes: one after the other in dense memory, `pitch` bytes apart in the GPU's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// First byte in the GPU's memory, within the binding.
    pub(crate) strided: u64,
    /// First byte in dense memory.
    pub(crate) dense: u64,
    /// Bytes of a row.
    pub(crate) width: u64,
    pub(crate) pitch: u64,
    pub(crate) rows: u64,
}

impl Part {
    /// Bytes of it.
    pub(crate) fn bytes(&self) -> u64 {
        self.width * self.rows
    }

    /// Is it within `dense` bytes of the host's memory, and `bytes` of the GPU's?
    fn is_within(&self, dense: u64, bytes: u64) -> bool {
        let rows = self.width.checked_mul(self.rows);
        if rows
            .and_then(|rows| rows.checked_add(self.dense))
            .is_none_or(|end| end > dense)
        {
            return false;
        }
        let last = self.pitch.checked_mul(self.rows.saturating_sub(1));
        let end = last.and_then(|last| self.strided.checked_add(last)?.checked_add(self.width));
        end.is_some_and(|end| end <= bytes)
    }
}

/// Cuts a copy into parts: of `dense` bytes in blocks of `block`, to or from a binding of `bytes`, of which the layout says
/// where they lie. The driver's pitches end at `pitch_max`.
///
/// # Errors
/// When the lengths do not fit.
pub(crate) fn parts(
    layout: Option<&Strided>,
    dense: u64,
    bytes: u64,
    block: u64,
    pitch_max: u64,
) -> Result<Vec<Part>, Refused> {
    check_layout(layout, dense, bytes).map_err(Refused::Task)?;
    let mut parts = Vec::new();
    match layout {
        None => {
            let whole = Part {
                strided: 0,
                dense: 0,
                width: dense,
                pitch: dense,
                rows: 1,
            };
            cut(whole, block, &mut parts);
        }
        Some(layout) => join_rows(layout, pitch_max, |rows| cut(rows, block, &mut parts)),
    }
    match parts.iter().all(|part| part.is_within(dense, bytes)) {
        true => Ok(parts),
        // The layout's own arithmetic is not trusted.
        false => Err(Refused::Task("its layout leaves the binding".to_owned())),
    }
}

/// Joins the runs of a layout that are as long as each other, and as far from each other, into rows.
fn join_rows(layout: &Strided, pitch_max: u64, mut each: impl FnMut(Part)) {
    let mut open: Option<Part> = None;
    layout.for_each_run(|strided, dense, bytes| {
        if let Some(rows) = &mut open {
            let step = strided.checked_sub(rows.strided + (rows.rows - 1) * rows.pitch);
            let joins = bytes == rows.width
                && step.is_some_and(|step| {
                    let regular = rows.rows == 1 || step == rows.pitch;
                    // Rows that overlap are written one after the other.
                    regular && (rows.width..=pitch_max).contains(&step)
                });
            if let (true, Some(step)) = (joins, step) {
                rows.pitch = step;
                rows.rows += 1;
                return;
            }
            each(*rows);
        }
        open = Some(Part {
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

/// Cuts rows where blocks of dense memory end.
fn cut(rows: Part, block: u64, parts: &mut Vec<Part>) {
    let (end, mut dense) = (rows.dense + rows.bytes(), rows.dense);
    while dense < end {
        let done = dense - rows.dense;
        let (row, column) = (done / rows.width, done % rows.width);
        let room = block - dense % block;
        let part = Part {
            strided: rows.strided + row * rows.pitch + column,
            dense,
            ..rows
        };
        let part = match column == 0 && room >= rows.width {
            true => Part {
                rows: (room / rows.width).min(rows.rows - row),
                ..part
            },
            false => {
                let width = room.min(rows.width - column);
                Part {
                    width,
                    pitch: width,
                    rows: 1,
                    ..part
                }
            }
        };
        dense += part.bytes();
        parts.push(part);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Where each dense byte lies, as the parts say.
    fn places(parts: &[Part], block: u64) -> Vec<u64> {
        let mut places = Vec::new();
        for part in parts {
            assert_eq!(part.dense, places.len() as u64, "in order");
            assert!(part.bytes() > 0 && (part.rows == 1 || part.pitch >= part.width));
            let last = part.dense + part.bytes() - 1;
            assert_eq!(part.dense / block, last / block, "within a block: {part:?}");
            for row in 0..part.rows {
                let start = part.strided + row * part.pitch;
                places.extend(start..start + part.width);
            }
        }
        places
    }

    #[test]
    fn a_pitched_tensor_is_one_part_while_its_rows_fit_a_block() {
        let layout = Strided::pitched(&[3, 5, 7], 4, 64).unwrap();
        let bytes = layout.extent_bytes();
        let parts = parts(Some(&layout), 3 * 5 * 7 * 4, bytes, 1 << 20, 1 << 30).unwrap();
        let rows = Part {
            strided: 0,
            dense: 0,
            width: 28,
            pitch: 64,
            rows: 15,
        };
        assert_eq!(parts, [rows]);
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let layout = Strided::new(&[2, 2], &[u64::MAX / 8, 1], 1).unwrap();
        assert!(parts(Some(&layout), 4, 64, 16, 1 << 20).is_err());
        assert!(parts(None, 4, 5, 16, 1 << 20).is_err());
        assert_eq!(parts(None, 0, 0, 16, 1 << 20).unwrap(), []);
    }

    proptest! {
        #[test]
        fn parts_visit_every_byte_in_dense_order(
            shape in prop::collection::vec(0_u64..5, 0..5),
            strides in prop::collection::vec(0_u64..40, 5),
            element in 1_u64..5,
            block in 1_u64..50,
            pitch_max in 1_u64..200,
        ) {
            let layout = Strided::new(&shape, &strides[..shape.len()], element).unwrap();
            let mut expected = Vec::new();
            layout.for_each_run(|strided, _, bytes| expected.extend(strided..strided + bytes));
            let parts = parts(Some(&layout), layout.dense_bytes(), layout.extent_bytes(), block, pitch_max).unwrap();
            prop_assert!(parts.iter().all(|part| part.rows == 1 || part.pitch <= pitch_max));
            prop_assert_eq!(places(&parts, block), expected);
        }
    }
}
