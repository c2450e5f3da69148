//! Tensor maps: 128 bytes that describe a tensor and the part of it that an instruction copies. NVIDIA's encoding is
//! opaque; the fake's is the number of the map in its session, which keeps the map. Of the documented rules of
//! `cuTensorMapEncodeTiled` and `..Im2col`, the fake has those about addresses and strides; the backend checks the others.

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

/// Encodes the number of a map, from 1.
pub(crate) fn encode(number: u64) -> [u8; BYTES] {
    let mut map = [0; BYTES];
    map[..4].copy_from_slice(&MARK);
    map[8..16].copy_from_slice(&number.to_le_bytes());
    map
}

/// Decodes the number of a map. Returns `None` if the fake did not encode these bytes.
pub(crate) fn decode(map: &[u8; BYTES]) -> Option<u64> {
    let number = u64::from_le_bytes(*map[8..].first_chunk()?);
    (encode(number) == *map).then_some(number)
}

impl TensorMap {
    /// Returns the first violated rule, as a part of a report.
    pub(crate) fn violation(&self) -> Option<String> {
        if !self.address.is_multiple_of(UNIT) {
            let address = self.address;
            return Some(format!(
                "address {address:#x}, which is not a multiple of {UNIT}"
            ));
        }
        let is_stride = |stride: &u64| stride.is_multiple_of(UNIT) && *stride < 1 << 40;
        let stride = self.strides.iter().find(|stride| !is_stride(stride))?;
        Some(format!(
            "a stride of {stride} bytes, which is not a multiple of {UNIT} below 2^40"
        ))
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
        let row = self
            .dims
            .first()
            .map_or(0, |row| row * self.element_bytes());
        let steps = self.dims.iter().skip(1).zip(&self.strides);
        steps.fold(row, |bytes, (dim, stride)| {
            bytes.saturating_add(dim.saturating_sub(1).saturating_mul(*stride))
        })
    }
}
