//! Kernels of PTX: what they compute, and what is refused.

use millstream_client::arguments::{CubeCount, read, update, write};
use millstream_client::handle::Handle;
use millstream_protocol::access::Access;
use millstream_protocol::error::{Error, KernelError};
use millstream_protocol::kernel::Kernel;
use rstest::rstest;

use crate::support::*;

/// I6: every element is computed, whether or not the last block is full.
#[rstest]
fn saxpy_is_right_i6(#[values(1, 255, 256, 257, 5000)] len: usize) {
    let gpu = gpu(len as u64);
    let device = open(2);
    let client = device.new_client();
    let (stream, saxpy) = (client.new_stream(), client.kernel(saxpy()).unwrap());
    let x: Vec<f32> = (0..len).map(|at| at as f32 / 8.0).collect();
    let y: Vec<f32> = (0..len).map(|at| 1.0 - at as f32).collect();
    let (from, to) = (stream.create(&x).unwrap(), stream.create(&y).unwrap());
    let arguments = (read(&from), update(&to), 2.5_f32, len as u32);
    stream
        .launch(&saxpy, CubeCount::cover(len, 256), arguments)
        .unwrap();
    let expected: Vec<f32> = x
        .iter()
        .zip(&y)
        .map(|(x, y)| 2.5_f32.mul_add(*x, *y))
        .collect();
    assert_eq!(stream.read(&to).wait().unwrap(), expected);
    drop((from, to, saxpy, stream, client, device));
    gpu.assert_clean();
}

/// I6: blocks meet at their barriers and in atomic operations.
#[rstest]
fn a_sum_in_shared_memory_is_right_i6(#[values(1, 256, 1000, 4096)] len: usize) {
    let gpu = gpu(len as u64);
    let device = open(2);
    let client = device.new_client();
    let (stream, sum) = (client.new_stream(), client.kernel(sum()).unwrap());
    let data: Vec<u32> = (0..len as u32).map(|at| at * 3 + 1).collect();
    let (from, to) = (
        stream.create(&data).unwrap(),
        stream.create(&[100_u32]).unwrap(),
    );
    let arguments = (read(&from), update(&to), len as u32);
    stream
        .launch(&sum, CubeCount::cover(len, 256), arguments)
        .unwrap();
    assert_eq!(
        stream.read(&to).wait().unwrap(),
        [100 + data.iter().sum::<u32>()]
    );
    drop((from, to, sum, stream, client, device));
    gpu.assert_clean();
}

/// What a declaration is refused with.
fn refused(kernel: Kernel) -> String {
    let device = open(1);
    let client = device.new_client();
    match client.kernel(kernel) {
        Err(Error::Kernel(KernelError::Compile { log, .. })) => log,
        other => panic!("{other:?}"),
    }
}

/// I7: a declaration that does not fit its entry point is refused before it is ever launched.
#[test]
fn declarations_must_fit_the_entry_point_i7() {
    let gpu = gpu(1);
    let text = || ptx(include_str!("../kernels/fill.ptx"));
    let short = Kernel::new("fill")
        .writes::<u32>("to")
        .scalar::<u32>("value");
    let log = refused(short.source(text()));
    assert!(
        log.contains("takes 3 parameters, but 2 are declared"),
        "{log}"
    );
    let wide = Kernel::new("fill")
        .writes::<u32>("to")
        .scalar::<u64>("value")
        .scalar::<u32>("n");
    let log = refused(wide.source(text()));
    assert!(
        log.contains("parameter 1 of the entry point has 4 bytes"),
        "{log}"
    );
    let log = refused(
        Kernel::new("fil")
            .raw::<u32>("to", Access::Write)
            .source(text()),
    );
    assert!(log.contains("no entry point"), "{log}");
    gpu.assert_clean();
}

/// I7: what the driver cannot load is a typed error of that kernel, and the fake says what it does not know.
#[test]
fn ptx_that_is_not_known_is_a_typed_error_i7() {
    let gpu = gpu(1);
    let text = include_str!("../kernels/fill.ptx").replace("bra.uni NEXT;", "nanosleep.u32 20;");
    let log = refused(Kernel::new("fill").writes::<u32>("to").source(ptx(&text)));
    assert!(log.contains("CUDA_ERROR_INVALID_PTX (218)"), "{log}");
    let reports = gpu.end();
    assert!(
        matches!(&reports[..], [one] if one.contains("`nanosleep.u32`")),
        "{reports:?}"
    );
}

/// I5: a store out of bounds is the end of the device, told to who waits, and said by the fake with its line.
#[test]
fn a_store_out_of_bounds_loses_the_device_i5() {
    let gpu = gpu(3);
    let device = open(1);
    let client = device.new_client();
    let (stream, fill) = (client.new_stream(), client.kernel(fill()).unwrap());
    // A page of its own, behind whose end is nothing.
    let to: Handle<u32> = stream.empty(1 << 20).unwrap();
    let arguments = (write(&to), 1_u32, (1 << 20) + 5000_u32);
    stream.launch(&fill, CubeCount::d1(4), arguments).unwrap();
    let answer = stream.read(&to).wait_timeout(PATIENCE);
    assert!(
        matches!(answer, Err(Error::DeviceLost { .. })),
        "{answer:?}"
    );
    drop((to, fill, stream, client, device));
    let reports = gpu.end();
    let said = "kernel `fill`, line 30 of its PTX";
    assert!(
        matches!(&reports[..], [one] if one.starts_with(said) && one.contains("out of bounds")),
        "{reports:?}"
    );
}
