//! Tensor maps: 128 bytes that describe a tensor and the part of it that an instruction copies. NVIDIA's encoding is
//! opaque; this one is the fake's own and can be decoded. Of the documented rules of `cuTensorMapEncodeTiled` and
//! `..Im2col`, the fake has those about addresses, strides and boxes.

/// The size and alignment of a map in bytes.
pub(crate) const BYTES: usize = 128;
pub(crate) const ALIGNMENT: u64 = 64;
/// Most dimensions.
pub(crate) const RANK_MAX: usize = 5;
/// Addresses and strides are multiples of this.
const UNIT: u64 = 16;
/// The first bytes of a map.
const MARK: [u8; 4] = *b"FTMA";

/// The part of the tensor that is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A box.
    Tiled {
        /// Elements in each dimension, the innermost first.
        box_dims: Vec<u32>,
    },
    /// Columns of pixels, for convolutions.
    Im2col {
        /// The offset of the bounding box in each dimension except channels and images: width, height, depth.
        lower_corner: Vec<i32>,
        /// The offset of the opposite corner.
        upper_corner: Vec<i32>,
        /// Elements along the channels.
        channels_per_pixel: u32,
        /// Elements along all other dimensions.
        pixels_per_column: u32,
    },
}

/// A decoded tensor map. Numbers of enums are those of `cuda.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// `CUtensorMapDataType`
    pub data_type: u32,
    /// The address of the tensor.
    pub address: u64,
    /// Elements in each dimension, the innermost first.
    pub dims: Vec<u64>,
    /// The stride in bytes of each dimension except the innermost.
    pub strides: Vec<u64>,
    /// The part that is copied.
    pub part: Part,
    /// The distance of copied elements along each dimension.
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
            // Stores the length minus one: 2^32 is allowed, and 0 is not.
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

    /// Decodes a map. Returns `None` if the fake did not encode these bytes.
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

impl TensorMap {
    /// Returns the first violated rule, as a part of a report.
    pub(crate) fn violation(&self) -> Option<String> {
        let rank = self.dims.len();
        if rank == 0 {
            return Some(format!("no dimensions, expected 1 to {RANK_MAX}"));
        }
        if !self.address.is_multiple_of(UNIT) {
            let address = self.address;
            return Some(format!(
                "address {address:#x}, which is not a multiple of {UNIT}"
            ));
        }
        if let Some(dim) = self.dims.iter().find(|dim| !(1..=1 << 32).contains(*dim)) {
            return Some(format!("a dimension of {dim} elements, expected 1 to 2^32"));
        }
        let is_stride = |stride: &u64| stride.is_multiple_of(UNIT) && *stride < 1 << 40;
        if let Some(stride) = self.strides.iter().find(|stride| !is_stride(stride)) {
            return Some(format!(
                "a stride of {stride} bytes, which is not a multiple of {UNIT} below 2^40"
            ));
        }
        match &self.part {
            Part::Tiled { box_dims } => {
                let dim = box_dims.iter().find(|dim| !(1..=256).contains(*dim));
                dim.map(|dim| format!("a box of {dim} elements, expected 1 to 256"))
            }
            Part::Im2col { .. } if rank < 3 => {
                Some(format!("{rank} dimensions, expected at least 3"))
            }
            Part::Im2col { .. } => None,
        }
    }

    /// Returns the bytes of an element.
    fn element_bytes(&self) -> u64 {
        match self.data_type {
            0 => 1,
            1 | 6 | 9 => 2,
            4 | 5 | 8 => 8,
            _ => 4,
        }
    }

    /// Returns the bytes from the first element to the last.
    pub(crate) fn extent_bytes(&self) -> u64 {
        let row = self.dims[0] * self.element_bytes();
        let steps = self.dims[1..].iter().zip(&self.strides);
        steps.fold(row, |bytes, (dim, stride)| {
            bytes.saturating_add((dim - 1).saturating_mul(*stride))
        })
    }
}

/// Appends bytes to a map.
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

/// Reads bytes of a map in order.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// Returns the next `COUNT` bytes. A map has enough for all fields.
    fn take<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        let mut taken = [0; COUNT];
        let (now, rest) = self.0.split_at(COUNT);
        taken.copy_from_slice(now);
        self.0 = rest;
        taken
    }
}
