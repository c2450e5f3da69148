//! Crossing stores: each of several stores needs a buffer as it was before another one.

use millstream::graph::{Call, DType, Graph, LazyBuffer, Schedule};
use millstream::ir::ssa::Builder;
use millstream::{CancelToken, Handle};
use rstest::rstest;
use rstest_reuse::apply;

use super::ONE;
use super::compile;
use super::every_device;
use super::support::On;

#[apply(every_device)]
fn call_in_place_reads_its_other_arguments_in_their_old_version(on: On) {
    let (_rig, client, stream) = on.start();
    // Adds the elements in reverse order, by one thread, which would see its own stores.
    let k = Builder::new("mirrored", [1, 1, 1]);
    let (from, to) = (k.read("from", DType::F32), k.update("to", DType::F32));
    let n = k.scalar("n", DType::I64);
    k.range(0_i64, n, 1_i64, |i| {
        to.set(i, to.get(i) + from.get(n - i - 1_i64));
    });
    let mirrored = k.build().unwrap();
    let graph = Graph::new();
    let b = graph.input("b", DType::F32, [4]);
    let call = || {
        Call::ssa(mirrored.clone(), [1, 1, 1])
            .scalar(4)
            .make_in_place([&b], &b)
    };
    let (first, second) = (call(), call());
    let compiled = Schedule::create(&[&first, &second])
        .unwrap()
        .compile(&client)
        .unwrap();
    let handle = stream.create(&[1.0_f32, 2.0, 3.0, 5.0]).unwrap();
    let outputs = compiled.run().input(&b, &handle).submit(&stream).unwrap();
    for index in 0..2 {
        let got = outputs[index].read::<f32>(&stream).unwrap().wait().unwrap();
        assert_eq!(got, [6.0, 5.0, 5.0, 6.0], "version {index}");
    }
}

#[apply(every_device)]
fn withdrawn_run_leaves_no_failure_in_the_temporaries_i7(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [2, 2]);
    let w = graph.input("w", DType::F32, [4, 2]);
    let both = LazyBuffer::cat(&[&x + 1.0, &x * 2.0], 0);
    let y = w.t().matmul(&both);
    let compiled = compile(&client, &y);
    let ones = stream.create(&[1.0_f32; 8]).unwrap();
    let good = ones.slice(..4).unwrap();
    let token = CancelToken::new();
    token.cancel();
    let withdrawn = stream.with_cancel(&token);
    let run = || compiled.run().input(&x, &good).input(&w, &ones);
    let outputs = run().submit(&withdrawn).unwrap();
    assert!(outputs[0].read::<f32>(&stream).unwrap().wait().is_err());
    let outputs = run().submit(&stream).unwrap();
    let got = outputs[0].read::<f32>(&stream).unwrap().wait().unwrap();
    assert_eq!(got, [8.0; 4]);
}

#[test]
fn output_that_overlaps_an_input_or_another_output_is_refused() {
    let (_rig, client, stream) = ONE.start();
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [6, 6]);
    let roots = [&(x.t() * 2.0), &(&x + 1.0)];
    let compiled = Schedule::create(&roots).unwrap().compile(&client).unwrap();
    let handle = stream.create(&[1.0_f32; 36]).unwrap();
    let other = stream.empty::<f32>(72).unwrap();
    let run = |first: &Handle<f32>, second: &Handle<f32>| {
        let run = compiled.run().input(&x, &handle);
        let done = run.output(0, first).output(1, second).submit(&stream);
        done.err().map(|error| error.to_string())
    };
    let [front, back, middle] = [0..36, 36..72, 10..46].map(|range| other.slice(range).unwrap());
    let text = |root: usize| {
        Some(format!(
            "the buffer for root {root} overlaps an input or the buffer of another root: bind a separate buffer, or update the input with `set`"
        ))
    };
    assert_eq!(run(&handle, &back), text(0));
    assert_eq!(run(&front, &middle), text(1));
    assert_eq!(run(&front, &back), None);
}
