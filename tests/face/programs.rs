//! Typed launches of programs that are written by hand: their scalars keep their names and types, on each device.

use std::sync::Arc;

use millstream::ir::ssa::{Builder, Function};
use millstream::ir::{DType, Program};
use millstream::sim::Sim;
use millstream::{Cpu, Device, Handle, Kernel, KernelHandle, Stream, f16, read, update};
use rstest::rstest;

/// `y[i] += a * x[i] * half` for `n` elements, if `on`.
fn saxpy() -> Function {
    let k = Builder::new("saxpy", [32, 1, 1]);
    let (x, y) = (k.read("x", DType::F32), k.update("y", DType::F32));
    let (a, n) = (k.scalar("a", DType::F32), k.scalar("n", DType::I64));
    let (half, on) = (k.scalar("half", DType::F16), k.scalar("on", DType::Bool));
    let (i, x_len) = (k.index(), k.len(x).cast(DType::I64));
    let within = i.lt(n.min(x_len));
    k.when(within & on, || {
        y.set(i, y.get(i) + a * x.get(i) * half.cast(DType::F32));
    });
    k.build().unwrap()
}

/// Opens a device with the kernel, a stream, and buffers of 100 elements: 0, 1, .. and zeros.
fn opened(device: &Device) -> (Stream, KernelHandle, Handle<f32>, Handle<f32>) {
    let client = device.new_client();
    let stream = client.new_stream();
    let program = Arc::new(Program::Ssa(saxpy()));
    let kernel = Kernel::from_program("saxpy", program).unwrap();
    let kernel = client.kernel(kernel).unwrap();
    let x: Vec<f32> = (0..100).map(|x| x as f32).collect();
    let (x, y) = (stream.create(&x), stream.create(&[0.0; 100]));
    (stream, kernel, x.unwrap(), y.unwrap())
}

fn device(is_simulated: bool) -> Device {
    match is_simulated {
        true => Device::open(Sim::seed(1)).unwrap(),
        false => Device::open(Cpu::default()).unwrap(),
    }
}

#[rstest]
fn program_is_launched_with_its_own_types(#[values(false, true)] is_simulated: bool) {
    let device = device(is_simulated);
    let (stream, kernel, x, y) = opened(&device);
    assert_eq!(
        kernel.kernel().signature().to_string(),
        "(read x: f32, update y: f32, a: f32, n: i64, half: f16, on: u8, x_len: u64, may alias)"
    );
    let half = f16::from_f32(0.5);
    for (on, n) in [(true, 80_i64), (true, -1), (false, 100)] {
        let arguments = (read(&x), update(&y), 3.0_f32, n, half, on, 90_u64);
        stream.launch(&kernel, 4, arguments).unwrap();
    }
    // The same by words: each scalar has one.
    let words = [2.0_f32.to_bits().into(), 1000, 0x3c00, 1, 90];
    let bindings = [read(x.as_bytes()), update(y.as_bytes())];
    stream.launch_words(&kernel, 4, &bindings, &words).unwrap();
    let expected: Vec<f32> = (0..100)
        .map(|i| {
            let x = i as f32;
            f32::from(i < 80) * 1.5 * x + f32::from(i < 90) * 2.0 * x
        })
        .collect();
    assert_eq!(stream.read(&y).wait().unwrap(), expected);
}

/// The message advises the type that the program has.
#[rstest]
fn scalar_of_another_type_is_refused_with_the_right_one(#[values(false, true)] is_simulated: bool) {
    let device = device(is_simulated);
    let (stream, kernel, x, y) = opened(&device);
    let half = f16::from_f32(0.5);
    let arguments = (read(&x), update(&y), 3_u64, 80_i64, half, true, 90_u64);
    let error = stream.launch(&kernel, 4, arguments).unwrap_err();
    let why = "scalar `a` is declared as f32, got u64: write a literal as `5.0_f32`";
    assert!(error.to_string().contains(why), "{error}");
    let arguments = (read(&x), update(&y), 3.0_f32, 80_i32, half, true, 90_u64);
    let error = stream.launch(&kernel, 4, arguments).unwrap_err();
    let why = "scalar `n` is declared as i64, got i32: write a literal as `5_i64`";
    assert!(error.to_string().contains(why), "{error}");
}
