//! Tensor maps: each rule is broken once.

use cuda::{Part, TensorMap};

use crate::kernels::Kernels;
use crate::raw::Gpu;

const INVALID_VALUE: u32 = 1;
/// `CU_TENSOR_MAP_DATA_TYPE_..`
const U8: u32 = 0;
const FLOAT32: u32 = 7;
const PACKED_4_ALIGN_8: u32 = 13;
const PACKED_4_ALIGN_16: u32 = 14;
const PACKED_6_ALIGN_16: u32 = 15;

/// A place that is aligned as a map must be.
#[repr(align(64))]
struct Place([u8; 192]);

/// What is asked for; the address counts from the memory of the test.
#[derive(Clone)]
struct Asked {
    offset: u64,
    place: usize,
    rank: Option<u32>,
    map: TensorMap,
}

/// Four rows of floats by a box of eight by two.
fn tiled() -> Asked {
    Asked {
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
fn im2col() -> Asked {
    let mut asked = tiled();
    asked.map.dims = vec![4, 8, 8, 2];
    asked.map.strides = vec![16, 128, 1024];
    asked.map.element_strides = vec![1; 4];
    asked.map.part = Part::Im2col {
        lower_corner: vec![-1, -1],
        upper_corner: vec![1, -1],
        channels_per_pixel: 4,
        pixels_per_column: 16,
    };
    asked
}

fn encode(gpu: &Gpu, block: u64, asked: &Asked) -> (u32, Option<TensorMap>) {
    let (map, mut place) = (&asked.map, Place([0; 192]));
    let to = &raw mut place.0 as u64 + asked.place as u64;
    let rank = asked.rank.unwrap_or(map.dims.len() as u32);
    let head = [to, map.data_type.into(), rank.into(), block + asked.offset];
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
    let bytes = place.0[asked.place..].first_chunk().unwrap();
    (answer, TensorMap::decode(bytes))
}

#[test]
fn a_map_says_what_it_was_given() {
    let gpu = Gpu::new(1);
    let block = gpu.memory(4096, 0);
    for asked in [tiled(), im2col()] {
        let (answer, map) = encode(&gpu, block, &asked);
        let mut expected = asked.map.clone();
        expected.address = block;
        assert_eq!((answer, map), (0, Some(expected)));
    }
    assert_eq!(TensorMap::decode(&[0; 128]), None);
    assert_eq!(gpu.wrong(), [""; 0]);
}

#[test]
fn a_map_reaches_a_kernel() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (block, to, stream) = (gpu.memory(4096, 0), gpu.memory(16, 0), gpu.stream());
    let mut asked = tiled();
    asked.map.address = block;
    let map = {
        let mut place = Place([0; 192]);
        let (dims, strides) = (
            asked.map.dims.as_ptr() as u64,
            asked.map.strides.as_ptr() as u64,
        );
        let (boxes, steps) = ([8_u32, 2], [1_u32, 1]);
        let lists = [dims, strides, boxes.as_ptr() as u64, steps.as_ptr() as u64];
        let head = [&raw mut place.0 as u64, FLOAT32.into(), 2, block];
        gpu.must(
            "cuTensorMapEncodeTiled",
            &[&head[..], &lists, &[0; 4]].concat(),
        );
        place
    };
    let list = [&raw const to as u64, &raw const map.0 as u64];
    let arguments = [
        kernels.first,
        1,
        1,
        1,
        1,
        1,
        1,
        0,
        stream,
        list.as_ptr() as u64,
        0,
    ];
    gpu.must("cuLaunchKernel", &arguments);
    assert_eq!(gpu.byte(to, stream), map.0[0]);
    let launched = gpu.session.launched();
    assert!(
        launched[0].ends_with(&asked.map.to_string()),
        "{launched:?} of {}",
        asked.map
    );
    assert_eq!(gpu.wrong(), [""; 0]);
}

/// Each change of what is right, and the words of what is said of it.
type Cases = Vec<(&'static str, fn(&mut Asked))>;

fn assert_each_is_wrong(right: &Asked, cases: Cases) {
    for (words, change) in cases {
        let gpu = Gpu::new(1);
        let block = gpu.memory(1 << 16, 0);
        let mut asked = right.clone();
        change(&mut asked);
        assert_eq!(
            encode(&gpu, block, &asked),
            (INVALID_VALUE, None),
            "{words}"
        );
        gpu.assert_wrong(&["wrong map: `cuTensorMapEncode", words]);
    }
}

fn assert_each_is_right(right: &Asked, cases: &[fn(&mut Asked)]) {
    for (index, change) in cases.iter().enumerate() {
        let gpu = Gpu::new(1);
        let block = gpu.memory(1 << 16, 0);
        let mut asked = right.clone();
        change(&mut asked);
        asked.map.address = block + asked.offset;
        let (answer, map) = encode(&gpu, block, &asked);
        assert_eq!((answer, gpu.wrong()), (0, vec![]), "case {index}");
        assert_eq!(map, Some(asked.map), "case {index}");
    }
}

fn boxed(asked: &mut Asked, dims: &[u32]) {
    asked.map.part = Part::Tiled {
        box_dims: dims.to_vec(),
    };
}

/// Three dimensions, interleaved by 32 bytes.
fn interleaved(asked: &mut Asked) {
    asked.map.dims = vec![8, 4, 2];
    asked.map.strides = vec![32, 128];
    asked.map.element_strides = vec![1; 3];
    boxed(asked, &[8, 2, 2]);
    (asked.map.interleave, asked.map.swizzle) = (2, 1);
}

/// One row of packed elements.
fn packed(asked: &mut Asked, data_type: u32) {
    asked.map.data_type = data_type;
    asked.map.dims = vec![128, 4];
    asked.map.strides = vec![128];
    boxed(asked, &[128, 2]);
}

#[test]
fn every_rule_of_tiled_maps_is_looked_at() {
    assert_each_is_wrong(
        &tiled(),
        vec![
            ("no multiple of 64", |asked| asked.place = 32),
            ("data type 16", |asked| asked.map.data_type = 16),
            ("0 dimensions", |asked| asked.rank = Some(0)),
            ("6 dimensions", |asked| asked.rank = Some(6)),
            ("must be 3 at least", |asked| asked.map.interleave = 1),
            ("interleave 3", |asked| asked.map.interleave = 3),
            ("swizzle 7", |asked| asked.map.swizzle = 7),
            ("promotion 4", |asked| asked.map.l2_promotion = 4),
            ("fill 2", |asked| asked.map.fill = 2),
            ("what is no float", |asked| {
                (asked.map.data_type, asked.map.fill) = (U8, 1);
                boxed(asked, &[16, 2]);
            }),
            ("no multiple of 16", |asked| asked.offset = 8),
            ("no multiple of 32", |asked| {
                interleaved(asked);
                asked.offset = 16;
            }),
            ("a dimension of 0", |asked| asked.map.dims[1] = 0),
            ("a dimension of 4294967297", |asked| {
                asked.map.dims[0] = (1 << 32) + 1;
            }),
            ("a stride of 264 bytes", |asked| asked.map.strides[0] = 264),
            ("below 2^40", |asked| asked.map.strides[0] = 1 << 40),
            ("a stride of 48 bytes", |asked| {
                interleaved(asked);
                asked.map.strides[0] = 48;
            }),
            ("an element stride of 0", |asked| {
                asked.map.element_strides[1] = 0;
            }),
            ("an element stride of 9", |asked| {
                asked.map.element_strides[1] = 9;
            }),
            ("an element stride of 9", |asked| {
                interleaved(asked);
                asked.map.element_strides[0] = 9;
            }),
            ("a box of 0", |asked| boxed(asked, &[8, 0])),
            ("a box of 257", |asked| boxed(asked, &[8, 257])),
            ("of 24 bytes, which is no multiple of 16", |asked| {
                boxed(asked, &[6, 2]);
            }),
            ("of 48 bytes, which a swizzle of 32", |asked| {
                asked.map.swizzle = 1;
                boxed(asked, &[12, 2]);
            }),
            ("of 80 bytes, which a swizzle of 64", |asked| {
                asked.map.swizzle = 2;
                boxed(asked, &[20, 2]);
            }),
            ("of 144 bytes, which a swizzle of 128", |asked| {
                asked.map.swizzle = 3;
                boxed(asked, &[36, 2]);
            }),
            ("without a swizzle of 32", |asked| {
                interleaved(asked);
                asked.map.swizzle = 2;
            }),
        ],
    );
}

#[test]
fn every_rule_of_packed_elements_is_looked_at() {
    assert_each_is_wrong(
        &tiled(),
        vec![
            ("no multiple of 32", |asked| {
                packed(asked, PACKED_4_ALIGN_16);
                asked.offset = 16;
            }),
            ("a stride of 80 bytes", |asked| {
                packed(asked, PACKED_6_ALIGN_16);
                asked.map.strides[0] = 80;
            }),
            ("no multiple of 128", |asked| {
                packed(asked, PACKED_6_ALIGN_16);
                asked.map.dims[0] = 192;
            }),
            ("which is odd", |asked| {
                packed(asked, PACKED_4_ALIGN_8);
                asked.map.dims[0] = 127;
            }),
            ("which must be 128", |asked| {
                packed(asked, PACKED_4_ALIGN_16);
                boxed(asked, &[64, 2]);
            }),
            ("that are interleaved", |asked| {
                interleaved(asked);
                asked.map.data_type = PACKED_6_ALIGN_16;
                asked.map.dims[0] = 128;
            }),
            ("swizzle 2 of packed", |asked| {
                packed(asked, PACKED_4_ALIGN_16);
                asked.map.swizzle = 2;
            }),
            ("swizzle 5 of packed", |asked| {
                packed(asked, PACKED_6_ALIGN_16);
                asked.map.swizzle = 5;
            }),
        ],
    );
}

#[test]
fn what_is_just_allowed_is_allowed() {
    assert_each_is_right(
        &tiled(),
        &[
            interleaved,
            |asked| packed(asked, PACKED_4_ALIGN_8),
            |asked| packed(asked, PACKED_4_ALIGN_16),
            |asked| packed(asked, PACKED_6_ALIGN_16),
            |asked| {
                asked.map.swizzle = 3;
                boxed(asked, &[32, 256]);
            },
            // The innermost element stride is nobody's business.
            |asked| asked.map.element_strides = vec![0, 8],
            |asked| (asked.map.fill, asked.map.l2_promotion) = (1, 3),
            |asked| {
                asked.map.dims = vec![64];
                asked.map.strides = vec![];
                asked.map.element_strides = vec![1];
                boxed(asked, &[256]);
            },
        ],
    );
}

/// The part of an im2col map.
fn part(asked: &mut Asked, corners: [&[i32]; 2], channels: u32, pixels: u32) {
    asked.map.part = Part::Im2col {
        lower_corner: corners[0].to_vec(),
        upper_corner: corners[1].to_vec(),
        channels_per_pixel: channels,
        pixels_per_column: pixels,
    };
}

#[test]
fn every_rule_of_im2col_maps_is_looked_at() {
    assert_each_is_wrong(
        &im2col(),
        vec![
            ("2 dimensions, where", |asked| asked.rank = Some(2)),
            ("an offset of 128 for a corner, of -128..=127", |asked| {
                part(asked, [&[0, 0], &[128, 0]], 4, 16);
            }),
            ("an offset of -129", |asked| {
                part(asked, [&[-129, 0], &[0, 0]], 4, 16);
            }),
            ("an offset of 32768", |asked| {
                asked.rank = Some(3);
                part(asked, [&[0], &[32_768]], 4, 16);
            }),
            ("an offset of 16 for a corner, of -16..=15", |asked| {
                asked.map.dims.push(2);
                asked.map.strides.push(2048);
                asked.map.element_strides.push(1);
                part(asked, [&[16, 0, 0], &[0, 0, 0]], 4, 16);
            }),
            ("leave nothing between", |asked| {
                part(asked, [&[4, 0], &[-4, 0]], 4, 16);
            }),
            ("257 channels", |asked| {
                part(asked, [&[0, 0], &[0, 0]], 257, 16);
            }),
            ("1025 pixels", |asked| {
                part(asked, [&[0, 0], &[0, 0]], 4, 1025);
            }),
            ("which a swizzle of 32", |asked| {
                asked.map.swizzle = 1;
                part(asked, [&[0, 0], &[0, 0]], 16, 16);
            }),
        ],
    );
}

#[test]
fn a_map_of_more_than_there_is_is_reported() {
    let gpu = Gpu::new(1);
    let block = gpu.memory(1000, 0);
    // The driver does not see it.
    assert_eq!(encode(&gpu, block, &tiled()).0, 0);
    gpu.assert_wrong(&[
        "out of bounds: the tensor map of `cuTensorMapEncodeTiled`",
        "1024 bytes",
    ]);
}
