//! Tensor maps: encoded, decoded, and refused by rules.

use cuda::{Part, TensorMap};

use crate::raw::Gpu;

const INVALID_VALUE: u32 = 1;

/// A buffer with the alignment of a map.
#[repr(align(64))]
struct Place([u8; 192]);

/// Four rows of floats with a box of eight by two.
fn tiled(address: u64) -> TensorMap {
    TensorMap {
        data_type: 7,
        address,
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
    }
}

/// Two images of eight by eight pixels of four floats.
fn im2col(address: u64) -> TensorMap {
    TensorMap {
        dims: vec![4, 8, 8, 2],
        strides: vec![16, 128, 1024],
        element_strides: vec![1; 4],
        part: Part::Im2col {
            lower_corner: vec![-1, -1],
            upper_corner: vec![1, -1],
            channels_per_pixel: 4,
            pixels_per_column: 16,
        },
        ..tiled(address)
    }
}

/// Encodes a map, `offset` bytes after an aligned address.
fn encode(gpu: &Gpu, map: &TensorMap, offset: usize) -> (u32, Option<TensorMap>) {
    let mut place = Place([0; 192]);
    let to = &raw mut place.0 as u64 + offset as u64;
    let head = [
        to,
        map.data_type.into(),
        map.dims.len() as u64,
        map.address,
        map.dims.as_ptr() as u64,
        map.strides.as_ptr() as u64,
    ];
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
    let steps = map.element_strides.as_ptr() as u64;
    let answer = gpu.call(name, &[&head[..], &part, &[steps], &kinds].concat());
    let bytes = place.0[offset..].first_chunk().unwrap();
    (answer, gpu.session.tensor_map(bytes))
}

#[test]
fn a_decoded_map_has_the_encoded_values() {
    let gpu = Gpu::new(1);
    let block = gpu.memory(4096, 0);
    for map in [tiled(block), im2col(block)] {
        assert_eq!(encode(&gpu, &map, 0), (0, Some(map)));
    }
    assert_eq!(gpu.session.tensor_map(&[0; 128]), None);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn each_rule_of_maps_is_checked() {
    type Change<'a> = &'a dyn Fn(&mut TensorMap);
    let cases: [(&str, usize, Change<'_>); 3] = [
        ("which is not a multiple of 64", 16, &|_| {}),
        ("address 0x", 0, &|map| map.address += 4),
        ("a stride of 40 bytes", 0, &|map| map.strides[0] = 40),
    ];
    for (words, offset, change) in cases {
        let gpu = Gpu::new(1);
        let mut map = tiled(gpu.memory(4096, 0));
        change(&mut map);
        assert_eq!(encode(&gpu, &map, offset), (INVALID_VALUE, None), "{words}");
        gpu.assert_violation(&["invalid map: `cuTensorMapEncodeTiled", words]);
    }
}

#[test]
fn a_map_beyond_its_memory_is_reported() {
    let gpu = Gpu::new(1);
    let block = gpu.memory(512, 0);
    assert_eq!(encode(&gpu, &tiled(block), 0).0, 0);
    gpu.assert_violation(&["out of bounds: the tensor map of `cuTensorMapEncodeTiled`"]);
}
