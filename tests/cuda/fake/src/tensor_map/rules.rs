//! The documented rules of tensor maps, with a report for each. Overlapping rows are allowed.

use super::{Part, RANK_MAX, TensorMap};

/// `CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B`, `.._16U4_ALIGN16B`, `.._16U6_ALIGN16B`: packed elements.
const U4_ALIGN_8: u32 = 13;
const U4_ALIGN_16: u32 = 14;
const U6_ALIGN_16: u32 = 15;
/// From `.._FLOAT16` to `.._TFLOAT32_FTZ`
const FLOATS: std::ops::RangeInclusive<u32> = 6..=12;

/// Returns the bits of an element.
fn bits(data_type: u32) -> Option<u64> {
    Some(match data_type {
        0 => 8,
        1 | 6 | 9 => 16,
        2 | 3 | 7 | 10..=12 => 32,
        4 | 5 | 8 => 64,
        U4_ALIGN_8 | U4_ALIGN_16 => 4,
        U6_ALIGN_16 => 6,
        _ => return None,
    })
}

/// Returns the bytes within which a swizzle permutes chunks; 0 for none.
fn swizzle_span(swizzle: u32) -> Option<u64> {
    Some(match swizzle {
        0 => 0,
        1 => 32,
        2 => 64,
        3..=6 => 128,
        _ => return None,
    })
}

impl TensorMap {
    /// Returns the first violated rule, as a part of a report.
    pub(crate) fn violation(&self) -> Option<String> {
        let rules = [
            Self::kinds_violation,
            Self::tensor_violation,
            Self::packed_violation,
            Self::part_violation,
            Self::swizzle_violation,
        ];
        rules.iter().find_map(|rule| rule(self))
    }

    fn is_wide(&self) -> bool {
        matches!(self.data_type, U4_ALIGN_16 | U6_ALIGN_16)
    }

    fn kinds_violation(&self) -> Option<String> {
        let rank = self.dims.len();
        let text = if bits(self.data_type).is_none() {
            format!("unknown data type {}", self.data_type)
        } else if self.interleave > 2 || swizzle_span(self.swizzle).is_none() {
            format!(
                "unknown interleave {} or swizzle {}",
                self.interleave, self.swizzle
            )
        } else if self.l2_promotion > 3 || self.fill > 1 {
            format!(
                "unknown promotion {} or fill {}",
                self.l2_promotion, self.fill
            )
        } else if rank == 0 || rank > RANK_MAX {
            format!("{rank} dimensions, expected 1 to {RANK_MAX}")
        } else if rank < 3 && (self.interleave != 0 || matches!(self.part, Part::Im2col { .. })) {
            format!("{rank} dimensions, expected at least 3")
        } else if self.fill == 1 && !FLOATS.contains(&self.data_type) {
            "a NaN fill for a type that is not a float".to_owned()
        } else {
            return None;
        };
        Some(text)
    }

    fn tensor_violation(&self) -> Option<String> {
        let unit = match self.interleave == 2 || self.is_wide() {
            true => 32,
            false => 16,
        };
        if !self.address.is_multiple_of(unit) {
            return Some(format!(
                "address {:#x}, which is not a multiple of {unit}",
                self.address
            ));
        }
        if let Some(dim) = self.dims.iter().find(|dim| !(1..=1 << 32).contains(*dim)) {
            return Some(format!("a dimension of {dim} elements, expected 1 to 2^32"));
        }
        let is_stride = |stride: &u64| stride.is_multiple_of(unit) && *stride < 1 << 40;
        if let Some(stride) = self.strides.iter().find(|stride| !is_stride(stride)) {
            return Some(format!(
                "a stride of {stride} bytes, which is not a multiple of {unit} below 2^40"
            ));
        }
        // Without interleave, the element stride of the innermost dimension is ignored.
        let steps = self
            .element_strides
            .iter()
            .skip(usize::from(self.interleave == 0));
        let mut steps = steps.filter(|step| !(1..=8).contains(*step));
        steps
            .next()
            .map(|step| format!("an element stride of {step}, expected 1 to 8"))
    }

    fn packed_violation(&self) -> Option<String> {
        let inner = self.dims[0];
        if self.is_wide() && !inner.is_multiple_of(128) {
            Some(format!(
                "{inner} packed elements in a row, which is not a multiple of 128"
            ))
        } else if self.data_type == U4_ALIGN_8 && !inner.is_multiple_of(2) {
            Some(format!("{inner} packed elements in a row, which is odd"))
        } else if self.data_type == U6_ALIGN_16 && self.interleave != 0 {
            Some("packed elements with interleave".to_owned())
        } else {
            None
        }
    }

    /// Returns the elements of the part along the innermost dimension.
    fn inner(&self) -> u64 {
        match &self.part {
            Part::Tiled { box_dims } => box_dims[0].into(),
            Part::Im2col {
                channels_per_pixel, ..
            } => (*channels_per_pixel).into(),
        }
    }

    fn inner_bits(&self) -> u64 {
        self.inner() * bits(self.data_type).unwrap_or(0)
    }

    fn part_violation(&self) -> Option<String> {
        if self.is_wide() && self.inner() != 128 {
            return Some(format!(
                "{} packed elements at once, expected 128",
                self.inner()
            ));
        }
        match &self.part {
            Part::Tiled { box_dims } => {
                if let Some(dim) = box_dims.iter().find(|dim| !(1..=256).contains(*dim)) {
                    return Some(format!("a box of {dim} elements, expected 1 to 256"));
                }
                let aligned = self.inner_bits().is_multiple_of(16 * 8);
                (self.interleave == 0 && !aligned).then(|| {
                    let bytes = self.inner_bits() / 8;
                    format!("rows of a box of {bytes} bytes, which is not a multiple of 16")
                })
            }
            Part::Im2col {
                lower_corner,
                upper_corner,
                channels_per_pixel,
                pixels_per_column,
            } => {
                let bits = match self.dims.len() {
                    3 => 16,
                    4 => 8,
                    _ => 5,
                };
                let range = -(1 << (bits - 1))..=(1 << (bits - 1)) - 1;
                let mut corners = lower_corner.iter().chain(upper_corner);
                if let Some(corner) = corners.find(|corner| !range.contains(*corner)) {
                    return Some(format!("a corner offset of {corner}, expected {range:?}"));
                }
                let sides = lower_corner.iter().zip(upper_corner).zip(&self.dims[1..]);
                let is_empty = |((lower, upper), dim): ((&i32, &i32), &u64)| {
                    dim.cast_signed() + i64::from(*upper) <= i64::from(*lower)
                };
                if sides.into_iter().any(is_empty) {
                    Some("corners with an empty box between them".to_owned())
                } else if !(1..=256).contains(channels_per_pixel) {
                    Some(format!(
                        "{channels_per_pixel} channels per pixel, expected 1 to 256"
                    ))
                } else if !(1..=1024).contains(pixels_per_column) {
                    Some(format!(
                        "{pixels_per_column} pixels per column, expected 1 to 1024"
                    ))
                } else {
                    None
                }
            }
        }
    }

    fn swizzle_violation(&self) -> Option<String> {
        let span = swizzle_span(self.swizzle).unwrap_or(0);
        let bytes = self.inner_bits().div_ceil(8);
        if self.interleave == 2 && self.swizzle != 1 {
            return Some("an interleave of 32 bytes without a swizzle of 32".to_owned());
        }
        if self.interleave == 0 && span > 0 && bytes > span {
            return Some(format!(
                "rows of a box of {bytes} bytes, which exceed the swizzle of {span}"
            ));
        }
        // None, 128 bytes, 128 bytes with atoms of 32 bytes, and with atoms of 64 bytes.
        let allowed: &[u32] = match self.data_type {
            U4_ALIGN_16 => &[0, 3, 4],
            U6_ALIGN_16 => &[0, 3, 4, 6],
            _ => return None,
        };
        let is_allowed = allowed.contains(&self.swizzle);
        (!is_allowed).then(|| format!("swizzle {} for packed elements", self.swizzle))
    }

    /// Returns the bytes from the first element to the last.
    pub(crate) fn extent_bytes(&self) -> u64 {
        let row = (self.dims[0] * bits(self.data_type).unwrap_or(0)).div_ceil(8);
        let steps = self.dims[1..].iter().zip(&self.strides);
        steps.fold(row, |bytes, (dim, stride)| {
            bytes.saturating_add((dim - 1).saturating_mul(*stride))
        })
    }
}
