//! Kernels in WGSL.

use millstream::vulkan::Vulkan;
use millstream::{
    ComputeClient, CubeCount, Device, Error, Kernel, KernelHandle, error::KernelError, read, update,
};
use millstream_conformance::Opening;

use crate::subject::{checked, unavailable};

const ADD: &str = "
@group(0) @binding(0) var<storage, read> by: array<u32>;
@group(0) @binding(1) var<storage, read_write> values: array<u32>;
struct Scalars { scale: f32, n: u32 }
var<immediate> scalars: Scalars;

@compute @workgroup_size(64)
fn add(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < scalars.n { values[id.x] += by[id.x] * u32(scalars.scale); }
}
";

fn add() -> Kernel {
    let kernel = Kernel::new("add")
        .reads::<u32>("by")
        .updates::<u32>("values");
    kernel.scalar::<f32>("scale").scalar::<u32>("n")
}

/// Calls `body` with a client of a device.
fn with_client(body: impl FnOnce(&ComputeClient)) {
    if let Some(why) = unavailable() {
        return eprintln!("SKIPPED: {why}");
    }
    let Opening { kind, checks } = checked(Vulkan::ordinal(0).queues(1).no_pipeline_cache());
    let device = Device::open(kind).unwrap();
    let client = device.new_client();
    body(&client);
    drop(client);
    device.close(std::time::Duration::from_secs(60));
    drop(device);
    drop(checks);
}

fn log_of(result: Result<KernelHandle, Error>) -> String {
    match result {
        Err(Error::Kernel(KernelError::Compile { log, .. })) => log,
        other => panic!("{:?}", other.map(drop)),
    }
}

#[test]
fn kernel_in_wgsl_receives_buffers_and_scalars_in_declared_order() {
    with_client(|client| {
        let kernel = client.kernel(add().wgsl(ADD)).unwrap();
        let stream = client.new_stream();
        let (by, values) = (stream.create(&[1_u32; 100]), stream.create(&[10_u32; 100]));
        let (by, values) = (by.unwrap(), values.unwrap());
        let arguments = (read(&by), update(&values), 3.0_f32, 70_u32);
        stream
            .launch(&kernel, CubeCount::cover(70, 64), arguments)
            .unwrap();
        let expected: Vec<u32> = (0..100).map(|i| if i < 70 { 13 } else { 10 }).collect();
        assert_eq!(stream.read(&values).wait().unwrap(), expected);
    });
}

#[test]
fn access_out_of_bounds_reads_zero_and_writes_nothing() {
    with_client(|client| {
        let kernel = client.kernel(add().wgsl(ADD)).unwrap();
        let stream = client.new_stream();
        let (by, values) = (stream.create(&[1_u32; 64]), stream.create(&[10_u32; 128]));
        let (by, values) = (by.unwrap(), values.unwrap());
        let half = values.slice(0..64).unwrap();
        let arguments = (read(&by), update(&half), 1.0_f32, 1000_u32);
        stream
            .launch(&kernel, CubeCount::cover(1000, 64), arguments)
            .unwrap();
        let expected: Vec<u32> = (0..128).map(|i| if i < 64 { 11 } else { 10 }).collect();
        assert_eq!(stream.read(&values).wait().unwrap(), expected);
    });
}

#[test]
fn wrong_kernels_are_errors_that_name_the_line_or_the_argument() {
    with_client(|client| {
        let log = |kernel: Kernel| log_of(client.kernel(kernel));
        let broken = ADD.replace("+=", "+*");
        assert!(
            log(add().wgsl(broken)).contains("wgsl:9"),
            "{}",
            log(add().wgsl(ADD.replace("+=", "+*")))
        );
        let typed = ADD.replace("u32(scalars.scale)", "scalars.scale");
        assert!(log(add().wgsl(typed)).contains("by[id.x] * scalars.scale"));
        let writes = ADD.replace("storage, read>", "storage, read_write>");
        assert!(log(add().wgsl(writes)).contains("declares `by` as read"));
        let far = ADD.replace("binding(1)", "binding(7)");
        assert!(log(add().wgsl(far)).contains("at a binding below 2"));
        let wide = ADD.replace("n: u32 }", "n: u32, a: vec4<u32> }");
        assert!(log(add().wgsl(wide)).contains("immediates `scalars` have 32 bytes"));
        let uniform = ADD.replace("var<immediate>", "@group(0) @binding(2) var<uniform>");
        assert!(log(add().wgsl(uniform)).contains("`scalars` is not a storage buffer"));
        assert!(log(add().wgsl("fn add() {}")).contains("no `@compute` function"));
    });
}

#[test]
fn view_that_no_descriptor_can_begin_at_is_refused() {
    with_client(|client| {
        let kernel = client.kernel(add().wgsl(ADD)).unwrap();
        let stream = client.new_stream();
        let (by, values) = (stream.create(&[1_u32; 8]), stream.create(&[10_u32; 8]));
        let (by, values) = (by.unwrap(), values.unwrap());
        let odd = values.slice(1..8).unwrap();
        let arguments = (read(&by), update(&odd), 1.0_f32, 7_u32);
        stream.launch(&kernel, CubeCount::d1(1), arguments).unwrap();
        let error = stream.read(&odd).wait().unwrap_err().to_string();
        assert!(error.contains("begins at byte 4 of its slice"), "{error}");
    });
}
