//! A machine with a GPU and without NVRTC. A test binary of its own, since a process looks for NVRTC only once.
#![allow(clippy::unwrap_used, reason = "tests")]

use fake_cuda::Session;
use millstream_actors::Device;
use millstream_client::arguments::{CubeCount, write};
use millstream_cuda::Cuda;
use millstream_protocol::{Error, Kernel, KernelError, Source};

/// I7: a kernel with only CUDA C is a typed error that says what to install. A kernel that also has PTX runs it.
#[test]
fn without_nvrtc_the_next_source_is_used_i7() {
    // SAFETY: no other thread reads the environment yet.
    unsafe { std::env::set_var("MILLSTREAM_NVRTC", "/nowhere/at/all") };
    let gpu = Session::begin(1).unwrap_or_else(|error| panic!("{error}"));
    let device = Device::open(Cuda::ordinal(0).queues(1)).unwrap();
    let client = device.new_client();
    let fill = || {
        let kernel = Kernel::new("fill").writes::<u32>("to");
        kernel
            .scalar::<u32>("value")
            .scalar::<u32>("n")
            .cuda("not compiled")
    };
    match client.kernel(fill()) {
        Err(Error::Kernel(KernelError::NoCompiler { why, .. })) => {
            assert!(why.contains("/nowhere/at/all"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    let ptx = Source::Ptx(include_str!("kernels/fill.ptx").into());
    let (fill, stream) = (
        client.kernel(fill().source(ptx)).unwrap(),
        client.new_stream(),
    );
    let to = stream.empty::<u32>(300).unwrap();
    let cubes = CubeCount::cover(300, 256);
    stream
        .launch(&fill, cubes, (write(&to), 9_u32, 300_u32))
        .unwrap();
    assert_eq!(stream.read(&to).wait().unwrap(), [9; 300]);
    drop((to, fill, stream, client, device));
    gpu.assert_clean();
}
