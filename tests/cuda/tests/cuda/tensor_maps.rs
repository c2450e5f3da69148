//! Tensor maps of launches, which the driver encodes and the entry point receives by value.

use fake_cuda::Part;
use millstream_client::arguments::{CubeCount, LaunchArgs, read, write};
use millstream_client::handle::Handle;
use millstream_cuda::CudaLaunch;
use millstream_ir::DType;
use millstream_protocol::{
    Error, Im2colMap, Kernel, OutOfBoundsFill, Prefetch, Swizzle, TensorInterleave, TensorMap,
    TensorMapFormat,
};
use rstest::rstest;

use crate::support::*;

/// Launches a kernel that stores its map, with these maps over a buffer of `bytes`. Returns the fake's reports and the
/// decoded map, or the error.
fn launch(
    maps: Vec<TensorMap>,
    bytes: usize,
) -> (Vec<String>, Result<fake_cuda::TensorMap, Error>) {
    let gpu = gpu(1);
    let device = open(1);
    let client = device.new_client();
    let kernel = Kernel::new("map")
        .reads::<u8>("from")
        .writes::<u64>("to")
        .with(CudaLaunch::default().tensor_maps(1))
        .source(ptx(include_str!("../kernels/map.ptx")))
        .threads([1, 1, 1]);
    let (stream, kernel) = (client.new_stream(), client.kernel(kernel).unwrap());
    let (from, to): (Handle<u8>, Handle<u64>) = (
        stream.create(&vec![1_u8; bytes]).unwrap(),
        stream.empty(16).unwrap(),
    );
    let args = LaunchArgs::new().arg(read(&from)).arg(write(&to));
    let args = maps.into_iter().fold(args, LaunchArgs::tensor_map);
    stream
        .launch(&kernel, CubeCount::Static(1, 1, 1), args)
        .unwrap();
    let map = stream.read(&to).wait().map(|words| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let bytes = bytes.try_into().expect("the kernel stores 128 bytes");
        gpu.tensor_map(&bytes)
            .expect("the driver has encoded the map")
    });
    drop((from, to, kernel, stream, client, device));
    (gpu.end(), map)
}

/// I6: the encoded map has all fields of the launch's map, with the axes in reverse order: the innermost first.
#[test]
fn a_tiled_map_reaches_the_kernel_i6() {
    let map = TensorMap {
        strides: vec![4096, 256, 4],
        element_strides: vec![1, 2, 1],
        swizzle: Swizzle::B64,
        prefetch: Prefetch::B128,
        fill: OutOfBoundsFill::NanFma,
        ..TensorMap::tiled(0, DType::F32, &[3, 10, 40], &[1, 4, 16])
    };
    let (reports, encoded) = launch(vec![map], 3 * 4096);
    assert!(reports.is_empty(), "{reports:#?}");
    let encoded = encoded.unwrap();
    assert!(encoded.address != 0);
    assert_eq!(
        (encoded.data_type, encoded.dims.as_slice()),
        (7, [40, 10, 3].as_slice())
    );
    assert_eq!(encoded.strides, [256, 4096]);
    assert_eq!(encoded.element_strides, [1, 2, 1]);
    assert_eq!(
        encoded.part,
        Part::Tiled {
            box_dims: vec![16, 4, 1]
        }
    );
    assert_eq!(
        (
            encoded.interleave,
            encoded.swizzle,
            encoded.l2_promotion,
            encoded.fill
        ),
        (0, 2, 2, 1)
    );
}

/// I6: the corners of an im2col map are reversed like its axes.
#[test]
fn an_im2col_map_reaches_the_kernel_i6() {
    let map = TensorMap {
        format: TensorMapFormat::Im2col(Im2colMap {
            lower_corner: vec![-1, -2],
            upper_corner: vec![1, 2],
            channels_per_pixel: 32,
            pixels_per_column: 64,
        }),
        interleave: TensorInterleave::None,
        ..TensorMap::tiled(0, DType::F16, &[2, 8, 9, 64], &[])
    };
    let (reports, encoded) = launch(vec![map], 2 * 8 * 9 * 64 * 2);
    assert!(reports.is_empty(), "{reports:#?}");
    let encoded = encoded.unwrap();
    assert_eq!(encoded.dims, [64, 9, 8, 2]);
    assert_eq!(encoded.strides, [128, 128 * 9, 128 * 9 * 8]);
    let part = Part::Im2col {
        lower_corner: vec![-2, -1],
        upper_corner: vec![2, 1],
        channels_per_pixel: 32,
        pixels_per_column: 64,
    };
    assert_eq!(encoded.part, part);
}

/// I7: an invalid map is refused with an error that says why. Mistakes that the driver cannot detect are refused before
/// it is called.
#[rstest]
#[case::outside_of_its_binding(TensorMap::tiled(0, DType::F32, &[64, 64], &[8, 8]), 0, "exceeds its binding of 4096 bytes")]
#[case::overflow(TensorMap::tiled(0, DType::F32, &[u64::MAX, 64], &[8, 8]), 0, "exceeds its binding")]
#[case::no_axes(TensorMap::tiled(0, DType::F32, &[], &[]), 0, "expected 1 to 5 axes, got 0")]
#[case::too_many_axes(TensorMap::tiled(0, DType::U8, &[1; 6], &[1; 6]), 0, "got 6")]
#[case::tile_of_other_rank(TensorMap::tiled(0, DType::F32, &[8, 8], &[8]), 0, "expected 2 entries in the tile, got 1")]
#[case::stride_of_the_last_axis(TensorMap { strides: vec![64, 8], ..TensorMap::tiled(0, DType::F32, &[8, 8], &[8, 8]) }, 0, "along the last axis, got 8 bytes")]
#[case::refused_by_the_driver(TensorMap::tiled(0, DType::F32, &[8, 9], &[8, 8]), 1, "`cuTensorMapEncodeTiled` failed: CUDA_ERROR_INVALID_VALUE (1)")]
fn an_invalid_map_is_refused_i7(
    #[case] map: TensorMap,
    #[case] reported: usize,
    #[case] expected: &str,
) {
    let (reports, encoded) = launch(vec![map], 4096);
    // The fake reports maps that the driver refuses.
    assert_eq!(reports.len(), reported, "{reports:#?}");
    let why = encoded.unwrap_err().to_string();
    assert!(why.contains(expected), "{why}");
}

/// I7: a launch whose number of maps differs from the kernel's is refused.
#[rstest]
#[case(0)]
#[case(2)]
fn a_launch_with_another_number_of_maps_is_refused_i7(#[case] maps: usize) {
    let map = TensorMap::tiled(0, DType::F32, &[8, 8], &[8, 8]);
    let (reports, encoded) = launch(vec![map; maps], 4096);
    assert!(reports.is_empty(), "{reports:#?}");
    let why = encoded.unwrap_err().to_string();
    assert!(why.contains(&format!("got {maps}")), "{why}");
}
