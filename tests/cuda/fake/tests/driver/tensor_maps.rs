//! Tensor maps: each rule is broken once.

use cuda::TensorMap;

use crate::kernels::Kernels;
use crate::maps::{
    Asked, FLOAT32, PACKED_4_ALIGN_8, PACKED_4_ALIGN_16, PACKED_6_ALIGN_16, Place, U8, boxed,
    encode, im2col, interleaved, packed, part, tiled,
};
use crate::raw::Gpu;

const INVALID_VALUE: u32 = 1;
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
