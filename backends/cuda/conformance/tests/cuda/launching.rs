//! What a launch has beyond bindings and scalars: metadata, tensor maps, clusters.

use millstream_core::error::Error;
use millstream_core::kernel::Kernel;
use millstream_core::launch::{CubeCount, LaunchArgs, Metadata, write};
use millstream_cuda::CudaLaunch;
use rstest::rstest;

use crate::support::*;

/// The error of a task, as it reads.
fn said(error: &Error) -> String {
    error.to_string()
}

fn words() -> Kernel {
    Kernel::new("words")
        .writes::<u32>("to")
        .source(ptx(include_str!("../kernels/words.ptx")))
        .threads([1, 1, 1])
}

/// I6: the words of a launch's metadata reach its entry point, with zeros behind them.
#[test]
fn metadata_reaches_the_kernel_by_value_i6() {
    let gpu = gpu(1);
    let device = open(1);
    let client = device.client();
    let stream = client.stream();
    let options = CudaLaunch::default().metadata_words(8);
    let kernel = client.kernel(words().with(options)).unwrap();
    let to = stream.empty::<u32>(8).unwrap();
    let metadata = Metadata::new().input(&[3], &[1], 3).unwrap();
    assert_eq!(metadata.words(), [1, 3, 3, 5, 6, 3, 1]);
    let args = || LaunchArgs::new().arg(write(&to));
    let one = CubeCount::Static(1, 1, 1);
    let launch = |args| stream.launch(&kernel, one.clone(), args);
    launch(args().metadata(metadata.clone())).unwrap();
    assert_eq!(stream.read(&to).wait().unwrap(), [1, 3, 3, 5, 6, 3, 1, 0]);
    // None is none, not the one before.
    launch(args()).unwrap();
    assert_eq!(stream.read(&to).wait().unwrap(), [0; 8]);
    let more = metadata.input(&[3], &[1], 3).unwrap();
    launch(args().metadata(more)).unwrap();
    let why = said(&stream.read(&to).wait().unwrap_err());
    assert!(why.contains("14 words of metadata"), "{why}");
    assert!(why.contains("room for 8"), "{why}");
    drop((to, kernel, stream, client, device));
    gpu.assert_clean();
}

/// I7: an entry point that takes what its kernel does not say it takes, or the other way round, is refused as it is prepared.
#[rstest]
#[case::none(CudaLaunch::default(), "takes 2 parameters, and 1 are declared")]
#[case::too_few(CudaLaunch::default().metadata_words(7), "parameter 1 of its entry point has 32 bytes, and the metadata, `unsigned words[7]` by value, has 28")]
#[case::too_many(CudaLaunch::default().metadata_words(600), "600 words of metadata, and 512 can be")]
fn what_an_entry_point_does_not_take_is_refused_i7(
    #[case] options: CudaLaunch,
    #[case] expected: &str,
) {
    let gpu = gpu(2);
    let device = open(1);
    let why = device.client().kernel(words().with(options)).unwrap_err();
    assert!(why.to_string().contains(expected), "{why}");
    drop((why, device));
    gpu.assert_clean();
}
