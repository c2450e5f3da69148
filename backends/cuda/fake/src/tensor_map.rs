//! Tensor maps: 128 bytes that describe a tensor, and which part of it an instruction copies. NVIDIA's are opaque; these
//! are of our own, and can be read again. What a map may be is what the documentation of `cuTensorMapEncodeTiled` and
//! `..Im2col` says, each rule with its sentence here.

use std::fmt;

/// Bytes of a map, and how it is aligned.
pub(crate) const BYTES: usize = 128;
pub(crate) const ALIGNMENT: u64 = 64;
/// Dimensions, at most.
pub(crate) const RANK_MAX: usize = 5;
/// What a map begins with.
const MARK: [u8; 4] = *b"FTMA";

/// Which part of the tensor is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A box of so many elements in each dimension.
    Tiled {
        /// Elements in each dimension, the innermost first.
        box_dims: Vec<u32>,
    },
    /// Columns of pixels, for convolutions.
    Im2col {
        /// Offsets of the bounding box in each dimension but channels and images: width, height, depth.
        lower_corner: Vec<i32>,
        /// The same of its other corner.
        upper_corner: Vec<i32>,
        /// Elements along the channels.
        channels_per_pixel: u32,
        /// Elements along all other dimensions.
        pixels_per_column: u32,
    },
}

/// A tensor map, read: numbers are those of `cuda.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// `CUtensorMapDataType`
    pub data_type: u32,
    /// Where the tensor begins.
    pub address: u64,
    /// Elements in each dimension, the innermost first.
    pub dims: Vec<u64>,
    /// Bytes from one to the next, of each dimension but the innermost.
    pub strides: Vec<u64>,
    /// Which part is copied.
    pub part: Part,
    /// Of so many elements along each dimension one is copied.
    pub element_strides: Vec<u32>,
    /// `CUtensorMapInterleave`
    pub interleave: u32,
    /// `CUtensorMapSwizzle`
    pub swizzle: u32,
    /// `CUtensorMapL2promotion`
    pub l2_promotion: u32,
    /// `CUtensorMapFloatOOBfill`
    pub fill: u32,
}

/// `CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B`, `.._16U4_ALIGN16B`, `.._16U6_ALIGN16B`: several values in a byte.
const U4_ALIGN_8: u32 = 13;
const U4_ALIGN_16: u32 = 14;
const U6_ALIGN_16: u32 = 15;
/// From `.._FLOAT16` to `.._TFLOAT32_FTZ`
const FLOATS: std::ops::RangeInclusive<u32> = 6..=12;

/// Bits of an element.
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

/// Bytes within which chunks are swizzled; 0 is none.
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
    /// What is wrong with it, as a part of a sentence: the first rule that is broken.
    pub(crate) fn wrong(&self) -> Option<String> {
        let rules = [
            Self::wrong_kinds,
            Self::wrong_tensor,
            Self::wrong_packed,
            Self::wrong_part,
            Self::wrong_swizzle,
        ];
        rules.iter().find_map(|rule| rule(self))
    }

    fn is_wide(&self) -> bool {
        matches!(self.data_type, U4_ALIGN_16 | U6_ALIGN_16)
    }

    fn wrong_kinds(&self) -> Option<String> {
        let rank = self.dims.len();
        let said = if bits(self.data_type).is_none() {
            format!("data type {}, which there is not", self.data_type)
        } else if self.interleave > 2 || swizzle_span(self.swizzle).is_none() {
            format!(
                "interleave {} and swizzle {}, which there are not",
                self.interleave, self.swizzle
            )
        } else if self.l2_promotion > 3 || self.fill > 1 {
            format!(
                "promotion {} and fill {}, which there are not",
                self.l2_promotion, self.fill
            )
        } else if rank == 0 || rank > RANK_MAX {
            format!("{rank} dimensions, of 1 to {RANK_MAX}")
        } else if rank < 3 && (self.interleave != 0 || matches!(self.part, Part::Im2col { .. })) {
            format!("{rank} dimensions, where there must be 3 at least")
        } else if self.fill == 1 && !FLOATS.contains(&self.data_type) {
            "a fill that is not a number, of what is no float".to_owned()
        } else {
            return None;
        };
        Some(said)
    }

    fn wrong_tensor(&self) -> Option<String> {
        let unit = match self.interleave == 2 || self.is_wide() {
            true => 32,
            false => 16,
        };
        if !self.address.is_multiple_of(unit) {
            return Some(format!(
                "address {:#x}, which is no multiple of {unit}",
                self.address
            ));
        }
        if let Some(dim) = self.dims.iter().find(|dim| !(1..=1 << 32).contains(*dim)) {
            return Some(format!("a dimension of {dim} elements, of 1 to 2^32"));
        }
        let is_stride = |stride: &u64| stride.is_multiple_of(unit) && *stride < 1 << 40;
        if let Some(stride) = self.strides.iter().find(|stride| !is_stride(stride)) {
            return Some(format!(
                "a stride of {stride} bytes, which is no multiple of {unit} below 2^40"
            ));
        }
        // Without interleaving, the innermost dimension has no step.
        let steps = self
            .element_strides
            .iter()
            .skip(usize::from(self.interleave == 0));
        let mut steps = steps.filter(|step| !(1..=8).contains(*step));
        steps
            .next()
            .map(|step| format!("an element stride of {step}, of 1 to 8"))
    }

    fn wrong_packed(&self) -> Option<String> {
        let inner = self.dims[0];
        if self.is_wide() && !inner.is_multiple_of(128) {
            Some(format!(
                "{inner} packed elements in a row, which is no multiple of 128"
            ))
        } else if self.data_type == U4_ALIGN_8 && !inner.is_multiple_of(2) {
            Some(format!("{inner} packed elements in a row, which is odd"))
        } else if self.data_type == U6_ALIGN_16 && self.interleave != 0 {
            Some("packed elements that are interleaved".to_owned())
        } else {
            None
        }
    }

    /// Elements of the part along the innermost dimension.
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

    fn wrong_part(&self) -> Option<String> {
        if self.is_wide() && self.inner() != 128 {
            return Some(format!(
                "{} packed elements at once, which must be 128",
                self.inner()
            ));
        }
        match &self.part {
            Part::Tiled { box_dims } => {
                if let Some(dim) = box_dims.iter().find(|dim| !(1..=256).contains(*dim)) {
                    return Some(format!("a box of {dim} elements, of 1 to 256"));
                }
                let aligned = self.inner_bits().is_multiple_of(16 * 8);
                (self.interleave == 0 && !aligned).then(|| {
                    let bytes = self.inner_bits() / 8;
                    format!("rows of a box of {bytes} bytes, which is no multiple of 16")
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
                    return Some(format!("an offset of {corner} for a corner, of {range:?}"));
                }
                let sides = lower_corner.iter().zip(upper_corner).zip(&self.dims[1..]);
                let is_empty = |((lower, upper), dim): ((&i32, &i32), &u64)| {
                    dim.cast_signed() + i64::from(*upper) <= i64::from(*lower)
                };
                if sides.into_iter().any(is_empty) {
                    Some("corners that leave nothing between them".to_owned())
                } else if !(1..=256).contains(channels_per_pixel) {
                    Some(format!(
                        "{channels_per_pixel} channels of a pixel, of 1 to 256"
                    ))
                } else if !(1..=1024).contains(pixels_per_column) {
                    Some(format!(
                        "{pixels_per_column} pixels of a column, of 1 to 1024"
                    ))
                } else {
                    None
                }
            }
        }
    }

    fn wrong_swizzle(&self) -> Option<String> {
        let span = swizzle_span(self.swizzle).unwrap_or(0);
        let bytes = self.inner_bits().div_ceil(8);
        if self.interleave == 2 && self.swizzle != 1 {
            return Some("an interleave of 32 bytes without a swizzle of 32".to_owned());
        }
        if self.interleave == 0 && span > 0 && bytes > span {
            return Some(format!(
                "rows of a box of {bytes} bytes, which a swizzle of {span} has no room for"
            ));
        }
        // Nothing, 128 bytes, by atoms of 32 bytes; and by atoms of 64.
        let allowed: &[u32] = match self.data_type {
            U4_ALIGN_16 => &[0, 3, 4],
            U6_ALIGN_16 => &[0, 3, 4, 6],
            _ => return None,
        };
        let is_allowed = allowed.contains(&self.swizzle);
        (!is_allowed).then(|| format!("swizzle {} of packed elements", self.swizzle))
    }

    /// Bytes from the first element to behind the last.
    pub(crate) fn extent_bytes(&self) -> u64 {
        let row = (self.dims[0] * bits(self.data_type).unwrap_or(0)).div_ceil(8);
        let steps = self.dims[1..].iter().zip(&self.strides);
        steps.fold(row, |bytes, (dim, stride)| {
            bytes.saturating_add((dim - 1).saturating_mul(*stride))
        })
    }

    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut map = Writer {
            bytes: [0; BYTES],
            at: 0,
        };
        let is_tiled = matches!(self.part, Part::Tiled { .. });
        map.put(&MARK);
        for number in [
            u32::from(is_tiled),
            self.data_type,
            self.dims.len() as u32,
            self.interleave,
            self.swizzle,
            self.l2_promotion,
            self.fill,
        ] {
            map.put(&[number as u8]);
        }
        for index in 0..RANK_MAX {
            map.put(&[self.element_strides.get(index).copied().unwrap_or(0) as u8]);
        }
        map.put(&self.address.to_le_bytes());
        for index in 0..RANK_MAX {
            // 2^32 is allowed, and 0 is not.
            let last = self.dims.get(index).map_or(0, |dim| dim - 1);
            map.put(&(last as u32).to_le_bytes());
        }
        for index in 0..RANK_MAX - 1 {
            let stride = self.strides.get(index).copied().unwrap_or(0);
            map.put(&stride.to_le_bytes());
        }
        let numbers: Vec<i32> = match &self.part {
            Part::Tiled { box_dims } => box_dims.iter().map(|dim| *dim as i32).collect(),
            Part::Im2col {
                lower_corner,
                upper_corner,
                channels_per_pixel,
                pixels_per_column,
            } => {
                let others = [*channels_per_pixel as i32, *pixels_per_column as i32];
                let corners = lower_corner.iter().chain(upper_corner);
                corners.copied().chain(others).collect()
            }
        };
        for number in numbers {
            map.put(&(number as i16).to_le_bytes());
        }
        map.bytes
    }

    /// Reads a map that the fake has written; none, if these bytes are no such thing.
    pub fn decode(bytes: &[u8; BYTES]) -> Option<Self> {
        let mut map = Reader(bytes);
        if map.take::<4>() != MARK {
            return None;
        }
        let kinds = map.take::<7>().map(u32::from);
        let [
            tiled,
            data_type,
            rank,
            interleave,
            swizzle,
            l2_promotion,
            fill,
        ] = kinds;
        let rank = rank as usize;
        if rank == 0 || rank > RANK_MAX {
            return None;
        }
        let element_strides = map.take::<RANK_MAX>().map(u32::from);
        let address = u64::from_le_bytes(map.take());
        let dims: [u64; RANK_MAX] =
            std::array::from_fn(|_| u64::from(u32::from_le_bytes(map.take())) + 1);
        let strides: [u64; RANK_MAX - 1] = std::array::from_fn(|_| u64::from_le_bytes(map.take()));
        let mut numbers = || i32::from(i16::from_le_bytes(map.take()));
        let part = match tiled {
            1 => Part::Tiled {
                box_dims: (0..rank).map(|_| numbers() as u32).collect(),
            },
            _ => Part::Im2col {
                lower_corner: (2..rank).map(|_| numbers()).collect(),
                upper_corner: (2..rank).map(|_| numbers()).collect(),
                channels_per_pixel: numbers() as u32,
                pixels_per_column: numbers() as u32,
            },
        };
        Some(Self {
            data_type,
            address,
            dims: dims[..rank].to_vec(),
            strides: strides[..rank - 1].to_vec(),
            part,
            element_strides: element_strides[..rank].to_vec(),
            interleave,
            swizzle,
            l2_promotion,
            fill,
        })
    }
}

impl fmt::Display for TensorMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "map of type {} at {:#x}, {:?} by {:?} bytes: {:?}",
            self.data_type, self.address, self.dims, self.strides, self.part
        )
    }
}

/// Bytes, one after the other.
struct Writer {
    bytes: [u8; BYTES],
    at: usize,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

/// What is left of them.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// So many, of which there are enough: a map has room for all that is written.
    fn take<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        let mut taken = [0; COUNT];
        let (now, rest) = self.0.split_at(COUNT);
        taken.copy_from_slice(now);
        self.0 = rest;
        taken
    }
}
