//! Launches with more than bindings and scalars: metadata, launch attributes, priorities.

use millstream_actors::Device;
use millstream_client::arguments::{CubeCount, LaunchArgs, write};
use millstream_cuda::{Cuda, CudaLaunch};
use millstream_protocol::{Kernel, Metadata, Priority};
use rstest::rstest;

use crate::support::*;

fn words() -> Kernel {
    Kernel::new("words")
        .writes::<u32>("to")
        .source(ptx(include_str!("../kernels/words.ptx")))
        .threads([1, 1, 1])
}

/// I6: the entry point receives the metadata of a launch by value, padded with zeros.
#[test]
fn metadata_reaches_the_kernel_by_value_i6() {
    let _gpu = gpu(1);
    let (_device, client, stream) = opened(1);
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
    // A launch without metadata passes zeros, not the metadata of the launch before.
    launch(args()).unwrap();
    assert_eq!(stream.read(&to).wait().unwrap(), [0; 8]);
    let more = metadata.input(&[3], &[1], 3).unwrap();
    launch(args().metadata(more)).unwrap();
    let why = stream.read(&to).wait().unwrap_err().to_string();
    assert!(why.contains("at most 8 words of metadata"), "{why}");
    assert!(why.contains("got 14"), "{why}");
}

/// I7: a kernel whose launch options do not match its entry point, or exceed a limit, is refused when it is prepared.
#[rstest]
#[case::metadata_not_declared(CudaLaunch::default(), "takes 2 parameters, but 1 are declared")]
#[case::too_few_words(CudaLaunch::default().metadata_words(7), "parameter 1 of the entry point has 32 bytes, but the metadata `unsigned words[7]` has 28")]
#[case::too_many_words(CudaLaunch::default().metadata_words(600), "at most 512 words of metadata, got 600")]
#[case::too_many_maps(CudaLaunch::default().tensor_maps(9), "at most 8 tensor maps, got 9")]
#[case::too_large_a_cluster(CudaLaunch::default().cluster([5, 5, 1]), "clusters of 1 to 16 cubes, got [5, 5, 1]")]
#[case::empty_cluster(CudaLaunch::default().cluster([0, 1, 1]), "clusters of 1 to 16 cubes, got [0, 1, 1]")]
fn launch_options_that_do_not_match_the_entry_point_are_refused_i7(
    #[case] options: CudaLaunch,
    #[case] expected: &str,
) {
    let _gpu = gpu(2);
    let device = open(1);
    let why = device
        .new_client()
        .kernel(words().with(options))
        .unwrap_err();
    assert!(why.to_string().contains(expected), "{why}");
}

/// I6: clusters, cooperative and programmatic launches reach the driver. A number of cubes that is not a multiple of
/// the cluster is refused.
#[test]
fn launch_attributes_reach_the_driver_i6() {
    let gpu = gpu(5);
    let (_device, client, stream) = opened(1);
    let options = CudaLaunch::default().cluster([2, 1, 1]).cooperative();
    // SAFETY: no task that may still run writes memory that the kernel accesses, so the kernel need not wait for any.
    let programmatic = unsafe { CudaLaunch::default().programmatic() };
    let [pairs, large, programmatic] = [options, options.cluster([16, 1, 1]), programmatic]
        .map(|options| client.kernel(fill().with(options)).unwrap());
    let to = stream.empty::<u32>(64).unwrap();
    let launch = |kernel, cubes, value: u32| {
        let arguments = (write(&to), value, 64_u32);
        stream
            .launch(kernel, CubeCount::Static(cubes, 1, 1), arguments)
            .unwrap();
        stream.read(&to).wait()
    };
    assert_eq!(launch(&pairs, 4, 1).unwrap(), [1; 64]);
    assert_eq!(launch(&large, 16, 2).unwrap(), [2; 64]);
    assert_eq!(launch(&programmatic, 1, 3).unwrap(), [3; 64]);
    let why = launch(&pairs, 3, 4).unwrap_err().to_string();
    assert!(why.contains("not a multiple of the cluster"), "{why}");
    assert_eq!(
        gpu.launched(),
        [
            "fill <<<[4, 1, 1], [256, 1, 1], 0>>> cluster [2, 1, 1] cooperative priority 0",
            "fill <<<[16, 1, 1], [256, 1, 1], 0>>> cluster [16, 1, 1] cooperative priority 0",
            "fill <<<[1, 1, 1], [256, 1, 1], 0>>> programmatic priority 0",
        ]
    );
}

/// I12: streams of high and of low priority have queues of their own, whose driver streams have the highest and the
/// lowest priority.
#[test]
fn streams_run_on_queues_of_their_priority_i12() {
    let gpu = gpu(3);
    let device = Device::open_with(Cuda::ordinal(0), options()).unwrap();
    let mut handles = Vec::new();
    for (priority, value) in [
        (Priority::Low, 1),
        (Priority::Normal, 2),
        (Priority::High, 3),
    ] {
        let client = device.client_builder().priority(priority).build();
        let kernel = client.kernel(fill()).unwrap();
        // More streams than queues, and still every stream stays on the queues of its priority.
        for _ in 0..6 {
            let stream = client.new_stream();
            let handle = stream.empty::<u32>(4).unwrap();
            launch_fill(&stream, &kernel, &handle, value);
            assert_eq!(stream.read(&handle).wait().unwrap(), [value; 4]);
            handles.push(handle);
        }
    }
    let launched = gpu.launched();
    let levels = launched
        .iter()
        .map(|launch| launch.rsplit(' ').next().unwrap());
    let expected = ["0", "0", "-5"].into_iter().flat_map(|level| [level; 6]);
    assert!(levels.eq(expected), "{launched:?}");
}

/// I12: a device has the requested number of queues, plus two with priority queues. A total outside 1 to 16 is refused.
#[rstest]
#[case(Cuda::ordinal(0), Some(6))]
#[case(Cuda::ordinal(0).queues(3), Some(3))]
#[case(Cuda::ordinal(0).queues(3).priority_queues(true), Some(5))]
#[case(Cuda::ordinal(0).priority_queues(false), Some(4))]
#[case(Cuda::ordinal(0).queues(0), None)]
#[case(Cuda::ordinal(0).queues(17), None)]
#[case(Cuda::ordinal(0).queues(15).priority_queues(true), None)]
#[case(Cuda::ordinal(0).queues(usize::MAX).priority_queues(true), None)]
fn a_device_has_the_requested_number_of_queues_i12(
    #[case] requested: Cuda,
    #[case] expected: Option<usize>,
) {
    let _gpu = gpu(4);
    let opened = Device::open_with(requested, options());
    assert_eq!(
        opened
            .as_ref()
            .ok()
            .map(|device| device.properties().queues),
        expected
    );
    if let Err(error) = &opened {
        assert!(error.to_string().contains("from 1 to 16"), "{error}");
    }
}
