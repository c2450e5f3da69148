//! Tensor maps: 128 bytes that describe a tensor, and which part of it an instruction copies. NVIDIA's are opaque; these
//! are of our own, and can be read again. What a map may be is what the documentation of `cuTensorMapEncodeTiled` and
//! `..Im2col` says: [`rules`].

mod rules;

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

impl TensorMap {
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
