//! Valid tensor maps, and changes that make them invalid.

use cuda::{Part, TensorMap};

use crate::raw::Gpu;

/// `CU_TENSOR_MAP_DATA_TYPE_..`
pub(crate) const U8: u32 = 0;
pub(crate) const FLOAT32: u32 = 7;
pub(crate) const PACKED_4_ALIGN_8: u32 = 13;
pub(crate) const PACKED_4_ALIGN_16: u32 = 14;
pub(crate) const PACKED_6_ALIGN_16: u32 = 15;

/// A buffer with the alignment of a map.
#[repr(align(64))]
pub(crate) struct Place(pub(crate) [u8; 192]);

/// The arguments of an encoding. `offset` is relative to the memory of the test.
#[derive(Clone)]
pub(crate) struct Encoding {
    pub(crate) offset: u64,
    pub(crate) place: usize,
    pub(crate) rank: Option<u32>,
    pub(crate) map: TensorMap,
}

/// Four rows of floats with a box of eight by two.
pub(crate) fn tiled() -> Encoding {
    Encoding {
        offset: 0,
        place: 0,
        rank: None,
        map: TensorMap {
            data_type: FLOAT32,
            address: 0,
            dims: vec![64, 4],
            strides: vec![256],
            part: Part::Tiled {
                box_dims: vec![8, 2],
            },
            element_strides: vec![1, 1],
            interleave: 0,
            swizzle: 0,
            l2_promotion: 0,
            fill: 0,
        },
    }
}

/// Two images of eight by eight pixels of four floats.
pub(crate) fn im2col() -> Encoding {
    let mut encoding = tiled();
    encoding.map.dims = vec![4, 8, 8, 2];
    encoding.map.strides = vec![16, 128, 1024];
    encoding.map.element_strides = vec![1; 4];
    encoding.map.part = Part::Im2col {
        lower_corner: vec![-1, -1],
        upper_corner: vec![1, -1],
        channels_per_pixel: 4,
        pixels_per_column: 16,
    };
    encoding
}

pub(crate) fn encode(gpu: &Gpu, block: u64, encoding: &Encoding) -> (u32, Option<TensorMap>) {
    let (map, mut place) = (&encoding.map, Place([0; 192]));
    let to = &raw mut place.0 as u64 + encoding.place as u64;
    let rank = encoding.rank.unwrap_or(map.dims.len() as u32);
    let head = [
        to,
        map.data_type.into(),
        rank.into(),
        block + encoding.offset,
    ];
    let lists = [map.dims.as_ptr() as u64, map.strides.as_ptr() as u64];
    let steps = map.element_strides.as_ptr() as u64;
    let kinds = [map.interleave, map.swizzle, map.l2_promotion, map.fill].map(u64::from);
    let (name, part) = match &map.part {
        Part::Tiled { box_dims } => ("cuTensorMapEncodeTiled", vec![box_dims.as_ptr() as u64]),
        Part::Im2col {
            lower_corner,
            upper_corner,
            channels_per_pixel,
            pixels_per_column,
        } => {
            let corners = [lower_corner, upper_corner].map(|corner| corner.as_ptr() as u64);
            let counts = [*channels_per_pixel, *pixels_per_column].map(u64::from);
            ("cuTensorMapEncodeIm2col", [corners, counts].concat())
        }
    };
    let arguments = [&head[..], &lists, &part, &[steps], &kinds].concat();
    let answer = gpu.call(name, &arguments);
    let bytes = place.0[encoding.place..].first_chunk().unwrap();
    (answer, TensorMap::decode(bytes))
}

pub(crate) fn boxed(encoding: &mut Encoding, dims: &[u32]) {
    encoding.map.part = Part::Tiled {
        box_dims: dims.to_vec(),
    };
}

/// Three dimensions with an interleave of 32 bytes.
pub(crate) fn interleaved(encoding: &mut Encoding) {
    encoding.map.dims = vec![8, 4, 2];
    encoding.map.strides = vec![32, 128];
    encoding.map.element_strides = vec![1; 3];
    boxed(encoding, &[8, 2, 2]);
    (encoding.map.interleave, encoding.map.swizzle) = (2, 1);
}

/// Packed elements.
pub(crate) fn packed(encoding: &mut Encoding, data_type: u32) {
    encoding.map.data_type = data_type;
    encoding.map.dims = vec![128, 4];
    encoding.map.strides = vec![128];
    boxed(encoding, &[128, 2]);
}

/// Sets the part of an im2col map.
pub(crate) fn part(encoding: &mut Encoding, corners: [&[i32]; 2], channels: u32, pixels: u32) {
    encoding.map.part = Part::Im2col {
        lower_corner: corners[0].to_vec(),
        upper_corner: corners[1].to_vec(),
        channels_per_pixel: channels,
        pixels_per_column: pixels,
    };
}
