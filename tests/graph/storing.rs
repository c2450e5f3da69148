//! The buffers that `set` and similar operations store into, and those that they must not store into.

use millstream::graph::{Call, DType, Graph, LazyBuffer, ScheduleError};
use millstream::ir::ssa::Builder;
use millstream::{Handle, Stream};
use rstest::rstest;
use rstest_reuse::apply;

use super::ONE;
use super::compile;
use super::every_device;
use super::support::{On, Rig};

fn read(stream: &Stream, handle: &Handle<f32>) -> Vec<f32> {
    stream.read(handle).wait().unwrap()
}

/// Adds 10 to the result of an operation on ones with a kernel in place. Returns the kernel's result, and the content
/// of the operation's input afterwards.
fn updated(
    rig: &Rig,
    shape: [u64; 2],
    operation: impl Fn(&LazyBuffer) -> LazyBuffer,
) -> [Vec<f32>; 2] {
    let (client, stream) = (rig.client(), rig.client().new_stream());
    let graph = Graph::new();
    let count = shape.iter().product::<u64>() as usize;
    let ones = stream.create(&vec![1.0_f32; count]).unwrap();
    let x = graph.buffer(&ones, shape.map(|length| length as i64));
    let base = operation(&x);
    let k = Builder::new("add_10", [16, 1, 1]);
    let (y, n) = (k.update("y", DType::F32), k.scalar("n", DType::I64));
    k.range(k.index(), n, k.count(), |i| y.set(i, y.get(i) + 10.0));
    let elements = base.shape().elements().unwrap().known().unwrap();
    let call = Call::ssa(k.build().unwrap(), [1, 1, 1]).scalar(elements);
    let new = call.make_in_place([], &base);
    let compiled = compile(&client, &new);
    let outputs = compiled.run().submit(&stream).unwrap();
    let got = outputs[0].read::<f32>(&stream).unwrap().wait().unwrap();
    [got, read(&stream, &ones)]
}

#[apply(every_device)]
fn kernel_in_place_on_the_result_of_an_operation_keeps_its_input_for_any_lengths(on: On) {
    let rig = on.open();
    type Operation = (&'static str, fn(&LazyBuffer) -> LazyBuffer);
    let operations: [Operation; 13] = [
        ("sum", |x| x.sum(0) * 0.0 + 1.0),
        ("sum alone", |x| x.sum(0)),
        ("max", |x| x.max(0)),
        ("product", |x| x.product(0)),
        ("mean", |x| x.mean(0)),
        ("cast", |x| x.cast(DType::F32)),
        ("reshape", |x| x.reshape(x.shape())),
        ("unsqueeze", |x| x.unsqueeze(0)),
        ("squeeze", |x| x.unsqueeze(0).squeeze(0)),
        ("split_axis", |x| x.split_axis(1, [x.shape()[1].clone()])),
        ("broadcast_to", |x| x.broadcast_to(x.shape())),
        ("detach", |x| x.detach()),
        ("permute", |x| x.permute([0, 1])),
    ];
    for (name, operation) in operations {
        for shape in [[1, 4], [3, 4], [1, 1]] {
            let [got, left] = updated(&rig, shape, operation);
            let one = if name == "sum alone" {
                shape[0] as f32
            } else {
                1.0
            };
            assert!(
                got.iter().all(|value| *value == one + 10.0),
                "{name} of {shape:?}: {got:?}"
            );
            assert!(
                left.iter().all(|value| *value == 1.0),
                "{name} of {shape:?}"
            );
        }
    }
    assert_eq!(updated(&rig, [1, 4], Clone::clone), [[11.0; 4]; 2]);
}

#[apply(every_device)]
fn stored_input_that_overlaps_another_is_refused(on: On) {
    let (_rig, client, stream) = on.start();
    let handle = stream.create(&[1.0_f32, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let four = handle.slice(..4).unwrap();
    let graph = Graph::new();
    let (a, b) = (graph.buffer(&four, [4]), graph.buffer(&four, [4]));
    let moved = graph.buffer(&handle.slice(1..).unwrap(), [4]);
    for other in [b.roll(0, 1), moved.clone()] {
        let compiled = compile(&client, &a.set(&other));
        let refused = compiled.run().submit(&stream).unwrap_err();
        let ScheduleError::StoredInputOverlaps { stored, other } = &refused else {
            panic!("{refused}");
        };
        assert_ne!(stored, other, "{refused}");
        assert!(stored.contains("bytes 0..16"), "{refused}");
        assert_eq!(read(&stream, &handle), [1.0, 2.0, 3.0, 4.0, 5.0]);
        // Other buffers that do not overlap are accepted.
        let (x, y) = (
            stream.create(&[0.0_f32; 4]).unwrap(),
            stream.create(&[1.0_f32; 4]).unwrap(),
        );
        let both = if compiled.run().takes(&b) { &b } else { &moved };
        let run = compiled.run().input(&a, &x).input(both, &y);
        run.submit(&stream).unwrap();
        assert_eq!(read(&stream, &x), [1.0; 4]);
    }
    // Inputs that are only read may overlap.
    let sum = compile(&client, &(&a + &moved));
    let outputs = sum.run().submit(&stream).unwrap();
    let got = outputs[0].read::<f32>(&stream).unwrap().wait().unwrap();
    assert_eq!(got, [3.0, 5.0, 7.0, 9.0]);
}

/// One overlapping pair among a thousand adjacent buffers is found.
#[test]
fn overlap_is_found_among_many_inputs() {
    let (_rig, client, stream) = ONE.start();
    let all = stream.create(&vec![1.0_f32; 4000]).unwrap();
    let graph = Graph::new();
    let inputs: Vec<LazyBuffer> = (0..1000)
        .map(|at| graph.input(format!("x{at}"), DType::F32, [4]))
        .collect();
    let sum = inputs[1..]
        .iter()
        .fold(inputs[1].clone(), |sum, x| &sum + x);
    let compiled = compile(&client, &inputs[0].set(&sum));
    let run = |first: usize| {
        let mut run = compiled.run();
        for (at, input) in inputs.iter().enumerate() {
            let start = if at == 0 { first } else { 4 * at };
            run = run.input(input, &all.slice(start..start + 4).unwrap());
        }
        run.submit(&stream)
    };
    run(0).unwrap();
    let ScheduleError::StoredInputOverlaps { stored, other } = run(2001).unwrap_err() else {
        panic!("the run is refused with another error");
    };
    assert_eq!((&stored[..], &other[..]), ("x0", "x500"));
}

#[apply(every_device)]
fn set_rows_accepts_a_symbolic_start_in_a_buffer_of_symbolic_columns(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let t = graph.length("t", 3);
    let x = graph.input(
        "x",
        DType::F32,
        [5.into(), (&t).into()] as [millstream::graph::Size; 2],
    );
    let rows = graph
        .constant(DType::F32, 7.0)
        .broadcast_to([2.into(), (&t).into()] as [millstream::graph::Size; 2]);
    let y = x.set_rows(0, &t, &rows);
    y.check().unwrap();
    let compiled = compile(&client, &y);
    for length in 0..4_usize {
        let handle = stream.create(&[1.0_f32; 15]).unwrap();
        let run = compiled.run().input(&x, &handle).length(&t, length as u64);
        run.submit(&stream).unwrap();
        let mut want = vec![1.0; 15];
        want[length * length..][..2 * length].fill(7.0);
        assert_eq!(read(&stream, &handle), want, "t = {length}");
    }
}
