//! PTX kernels: their results, and the errors of those that cannot be loaded or do not match their declaration.

use millstream_client::arguments::{CubeCount, read, update, write};
use millstream_client::handle::Handle;
use millstream_ir::{DType, Program, ssa::Builder};
use millstream_protocol::{Access, Error, Feature, Kernel, KernelError};
use rstest::rstest;

use crate::support::*;

/// I6: the threads of a block synchronize at barriers, and blocks add atomically.
#[rstest]
fn a_sum_through_shared_memory_is_correct_i6(#[values(1, 256, 1000, 4096)] len: usize) {
    let _gpu = gpu(len as u64);
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
}

/// Prepares a kernel, which must fail, and returns the log of the error.
fn refusal_log(kernel: Kernel) -> String {
    let device = open(1);
    let client = device.new_client();
    match client.kernel(kernel) {
        Err(Error::Kernel(KernelError::Compile { log, .. })) => log,
        other => panic!("{other:?}"),
    }
}

/// I7: a declaration that does not match its entry point is refused before it is launched.
#[test]
fn a_declaration_that_does_not_match_its_entry_point_is_refused_i7() {
    let _gpu = gpu(1);
    let text = || ptx(include_str!("../kernels/fill.ptx"));
    let short = Kernel::new("fill")
        .writes::<u32>("to")
        .scalar::<u32>("value");
    let log = refusal_log(short.source(text()));
    assert!(
        log.contains("takes 3 parameters, but 2 are declared"),
        "{log}"
    );
    let wide = Kernel::new("fill")
        .writes::<u32>("to")
        .scalar::<u64>("value")
        .scalar::<u32>("n");
    let log = refusal_log(wide.source(text()));
    assert!(
        log.contains("parameter 1 of the entry point has 4 bytes"),
        "{log}"
    );
    let log = refusal_log(
        Kernel::new("fil")
            .raw::<u32>("to", Access::Write)
            .source(text()),
    );
    assert!(log.contains("no entry point"), "{log}");
}

/// A GPU prints nothing, and says which devices do.
#[test]
fn a_kernel_that_prints_is_refused() {
    let _gpu = gpu(1);
    let k = Builder::new("loud", [32, 1, 1]);
    let y = k.update("y", DType::U32);
    k.print("y = {}", &[y.get(0)]);
    let program = Program::Ssa(k.build().unwrap());
    let loud = Kernel::from_program("loud", program.into()).unwrap();
    let error = open(1).new_client().kernel(loud).unwrap_err();
    let is_typed = matches!(
        error,
        Error::Kernel(KernelError::Feature {
            feature: Feature::Printing,
            ..
        })
    );
    assert!(is_typed, "{error:?}");
    let expected = "kernel `loud` requires printing, which this device does not have; \
                    open the CPU or the simulator, `Cpu::default()` or `Sim::seed(7)`, or remove `print!`";
    assert!(error.to_string().contains(expected), "{error}");
}

/// I7: PTX that the driver cannot load is a typed error of that kernel. The fake reports the unknown instruction.
#[test]
fn ptx_that_the_driver_cannot_load_is_a_typed_error_i7() {
    let gpu = gpu(1);
    let text = include_str!("../kernels/fill.ptx").replace("bra.uni NEXT;", "nanosleep.u32 20;");
    let log = refusal_log(Kernel::new("fill").writes::<u32>("to").source(ptx(&text)));
    assert!(log.contains("CUDA_ERROR_INVALID_PTX (218)"), "{log}");
    let reports = gpu.end();
    assert!(
        matches!(&reports[..], [one] if one.contains("`nanosleep.u32`")),
        "{reports:?}"
    );
}

/// I5: a store out of bounds loses the device. Waiting callers receive the error, and the fake reports the line of the
/// PTX.
#[test]
fn a_store_out_of_bounds_loses_the_device_i5() {
    let gpu = gpu(3);
    let device = open(1);
    let client = device.new_client();
    let (stream, fill) = (client.new_stream(), client.kernel(fill()).unwrap());
    // The buffer has a page of its own, with no memory after its end.
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
    let place = "kernel `fill`, line 30 of its PTX";
    assert!(
        matches!(&reports[..], [one] if one.starts_with(place) && one.contains("out of bounds")),
        "{reports:?}"
    );
}
