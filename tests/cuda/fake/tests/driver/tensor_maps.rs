//! Tensor maps: each rule is violated once.

use cuda::TensorMap;

use crate::kernels::Kernels;
use crate::maps::{
    Encoding, FLOAT32, PACKED_4_ALIGN_8, PACKED_4_ALIGN_16, PACKED_6_ALIGN_16, Place, U8, boxed,
    encode, im2col, interleaved, packed, part, tiled,
};
use crate::raw::Gpu;

const INVALID_VALUE: u32 = 1;
#[test]
fn a_decoded_map_has_the_encoded_values() {
    let gpu = Gpu::new(1);
    let block = gpu.memory(4096, 0);
    for encoding in [tiled(), im2col()] {
        let (answer, map) = encode(&gpu, block, &encoding);
        let mut expected = encoding.map.clone();
        expected.address = block;
        assert_eq!((answer, map), (0, Some(expected)));
    }
    assert_eq!(TensorMap::decode(&[0; 128]), None);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn a_map_reaches_a_kernel() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (block, to, stream) = (gpu.memory(4096, 0), gpu.memory(16, 0), gpu.stream());
    let mut encoding = tiled();
    encoding.map.address = block;
    let map = {
        let mut place = Place([0; 192]);
        let (dims, strides) = (
            encoding.map.dims.as_ptr() as u64,
            encoding.map.strides.as_ptr() as u64,
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
        launched[0].ends_with(&encoding.map.to_string()),
        "{launched:?} of {}",
        encoding.map
    );
    assert_eq!(gpu.violations(), [""; 0]);
}

/// Changes of a valid map, each with words of the expected report.
type Cases = Vec<(&'static str, fn(&mut Encoding))>;

fn assert_each_is_invalid(right: &Encoding, cases: Cases) {
    for (words, change) in cases {
        let gpu = Gpu::new(1);
        let block = gpu.memory(1 << 16, 0);
        let mut encoding = right.clone();
        change(&mut encoding);
        assert_eq!(
            encode(&gpu, block, &encoding),
            (INVALID_VALUE, None),
            "{words}"
        );
        gpu.assert_violation(&["invalid map: `cuTensorMapEncode", words]);
    }
}

fn assert_each_is_valid(right: &Encoding, cases: &[fn(&mut Encoding)]) {
    for (index, change) in cases.iter().enumerate() {
        let gpu = Gpu::new(1);
        let block = gpu.memory(1 << 16, 0);
        let mut encoding = right.clone();
        change(&mut encoding);
        encoding.map.address = block + encoding.offset;
        let (answer, map) = encode(&gpu, block, &encoding);
        assert_eq!((answer, gpu.violations()), (0, vec![]), "case {index}");
        assert_eq!(map, Some(encoding.map), "case {index}");
    }
}

#[test]
fn every_rule_of_tiled_maps_is_checked() {
    assert_each_is_invalid(
        &tiled(),
        vec![
            ("not a multiple of 64", |encoding| encoding.place = 32),
            ("data type 16", |encoding| encoding.map.data_type = 16),
            ("0 dimensions", |encoding| encoding.rank = Some(0)),
            ("6 dimensions", |encoding| encoding.rank = Some(6)),
            ("expected at least 3", |encoding| {
                encoding.map.interleave = 1;
            }),
            ("interleave 3", |encoding| encoding.map.interleave = 3),
            ("swizzle 7", |encoding| encoding.map.swizzle = 7),
            ("promotion 4", |encoding| encoding.map.l2_promotion = 4),
            ("fill 2", |encoding| encoding.map.fill = 2),
            ("not a float", |encoding| {
                (encoding.map.data_type, encoding.map.fill) = (U8, 1);
                boxed(encoding, &[16, 2]);
            }),
            ("not a multiple of 16", |encoding| encoding.offset = 8),
            ("not a multiple of 32", |encoding| {
                interleaved(encoding);
                encoding.offset = 16;
            }),
            ("a dimension of 0", |encoding| encoding.map.dims[1] = 0),
            ("a dimension of 4294967297", |encoding| {
                encoding.map.dims[0] = (1 << 32) + 1;
            }),
            ("a stride of 264 bytes", |encoding| {
                encoding.map.strides[0] = 264;
            }),
            ("below 2^40", |encoding| encoding.map.strides[0] = 1 << 40),
            ("a stride of 48 bytes", |encoding| {
                interleaved(encoding);
                encoding.map.strides[0] = 48;
            }),
            ("an element stride of 0", |encoding| {
                encoding.map.element_strides[1] = 0;
            }),
            ("an element stride of 9", |encoding| {
                encoding.map.element_strides[1] = 9;
            }),
            ("an element stride of 9", |encoding| {
                interleaved(encoding);
                encoding.map.element_strides[0] = 9;
            }),
            ("a box of 0", |encoding| boxed(encoding, &[8, 0])),
            ("a box of 257", |encoding| boxed(encoding, &[8, 257])),
            ("of 24 bytes, which is not a multiple of 16", |encoding| {
                boxed(encoding, &[6, 2]);
            }),
            ("of 48 bytes, which exceed the swizzle of 32", |encoding| {
                encoding.map.swizzle = 1;
                boxed(encoding, &[12, 2]);
            }),
            ("of 80 bytes, which exceed the swizzle of 64", |encoding| {
                encoding.map.swizzle = 2;
                boxed(encoding, &[20, 2]);
            }),
            (
                "of 144 bytes, which exceed the swizzle of 128",
                |encoding| {
                    encoding.map.swizzle = 3;
                    boxed(encoding, &[36, 2]);
                },
            ),
            ("without a swizzle of 32", |encoding| {
                interleaved(encoding);
                encoding.map.swizzle = 2;
            }),
        ],
    );
}

#[test]
fn every_rule_of_packed_elements_is_checked() {
    assert_each_is_invalid(
        &tiled(),
        vec![
            ("not a multiple of 32", |encoding| {
                packed(encoding, PACKED_4_ALIGN_16);
                encoding.offset = 16;
            }),
            ("a stride of 80 bytes", |encoding| {
                packed(encoding, PACKED_6_ALIGN_16);
                encoding.map.strides[0] = 80;
            }),
            ("not a multiple of 128", |encoding| {
                packed(encoding, PACKED_6_ALIGN_16);
                encoding.map.dims[0] = 192;
            }),
            ("which is odd", |encoding| {
                packed(encoding, PACKED_4_ALIGN_8);
                encoding.map.dims[0] = 127;
            }),
            ("expected 128", |encoding| {
                packed(encoding, PACKED_4_ALIGN_16);
                boxed(encoding, &[64, 2]);
            }),
            ("with interleave", |encoding| {
                interleaved(encoding);
                encoding.map.data_type = PACKED_6_ALIGN_16;
                encoding.map.dims[0] = 128;
            }),
            ("swizzle 2 for packed", |encoding| {
                packed(encoding, PACKED_4_ALIGN_16);
                encoding.map.swizzle = 2;
            }),
            ("swizzle 5 for packed", |encoding| {
                packed(encoding, PACKED_6_ALIGN_16);
                encoding.map.swizzle = 5;
            }),
        ],
    );
}

#[test]
fn maps_at_the_limits_are_valid() {
    assert_each_is_valid(
        &tiled(),
        &[
            interleaved,
            |encoding| packed(encoding, PACKED_4_ALIGN_8),
            |encoding| packed(encoding, PACKED_4_ALIGN_16),
            |encoding| packed(encoding, PACKED_6_ALIGN_16),
            |encoding| {
                encoding.map.swizzle = 3;
                boxed(encoding, &[32, 256]);
            },
            // The innermost element stride is ignored.
            |encoding| encoding.map.element_strides = vec![0, 8],
            |encoding| (encoding.map.fill, encoding.map.l2_promotion) = (1, 3),
            |encoding| {
                encoding.map.dims = vec![64];
                encoding.map.strides = vec![];
                encoding.map.element_strides = vec![1];
                boxed(encoding, &[256]);
            },
        ],
    );
}

#[test]
fn every_rule_of_im2col_maps_is_checked() {
    assert_each_is_invalid(
        &im2col(),
        vec![
            ("2 dimensions, expected", |encoding| encoding.rank = Some(2)),
            ("a corner offset of 128, expected -128..=127", |encoding| {
                part(encoding, [&[0, 0], &[128, 0]], 4, 16);
            }),
            ("a corner offset of -129", |encoding| {
                part(encoding, [&[-129, 0], &[0, 0]], 4, 16);
            }),
            ("a corner offset of 32768", |encoding| {
                encoding.rank = Some(3);
                part(encoding, [&[0], &[32_768]], 4, 16);
            }),
            ("a corner offset of 16, expected -16..=15", |encoding| {
                encoding.map.dims.push(2);
                encoding.map.strides.push(2048);
                encoding.map.element_strides.push(1);
                part(encoding, [&[16, 0, 0], &[0, 0, 0]], 4, 16);
            }),
            ("with an empty box between", |encoding| {
                part(encoding, [&[4, 0], &[-4, 0]], 4, 16);
            }),
            ("257 channels", |encoding| {
                part(encoding, [&[0, 0], &[0, 0]], 257, 16);
            }),
            ("1025 pixels", |encoding| {
                part(encoding, [&[0, 0], &[0, 0]], 4, 1025);
            }),
            ("which exceed the swizzle of 32", |encoding| {
                encoding.map.swizzle = 1;
                part(encoding, [&[0, 0], &[0, 0]], 16, 16);
            }),
        ],
    );
}

#[test]
fn a_map_that_exceeds_its_memory_is_reported() {
    let gpu = Gpu::new(1);
    let block = gpu.memory(1000, 0);
    // The driver does not check the memory.
    assert_eq!(encode(&gpu, block, &tiled()).0, 0);
    gpu.assert_violation(&[
        "out of bounds: the tensor map of `cuTensorMapEncodeTiled`",
        "1024 bytes",
    ]);
}
