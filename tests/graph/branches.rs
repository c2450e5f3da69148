//! Independent branches of a graph.

use millstream::DType;
use millstream::graph::{Graph, LazyBuffer, Schedule};
use rstest::rstest;
use rstest_reuse::apply;

use super::every_device;
use super::support::On;

/// I2: in the CUDA graph of a recording, only the sum of the branches `softmax(x w) w`, one for each `w`, depends on
/// several of them. `named.jsonl` of the fuzzer has the values of such branches.
#[apply(every_device)]
fn independent_branches_have_no_dependencies_before_their_sum_i2(on: On) {
    let (rig, client, stream) = on.start();
    let graph = Graph::new();
    let input = |nth: usize| graph.input(format!("x{nth}"), DType::F32, [20, 20]);
    let inputs: Vec<LazyBuffer> = (0..=4).map(input).collect();
    let x = &inputs[0];
    let branches = inputs[1..]
        .iter()
        .map(|w| x.matmul(w).softmax(-1).matmul(w));
    let sum = branches.reduce(|sum, branch| sum + branch).unwrap();
    let schedule = Schedule::create_one(&sum).unwrap();
    let compiled = schedule.compile(&client).unwrap();
    let ones = stream.create(&[1.0_f32; 400]).unwrap();
    // From the second run on a driver replays a graph of its own.
    for _ in 0..4 {
        let run = inputs
            .iter()
            .fold(compiled.run(), |run, input| run.input(input, &ones));
        let outputs = run.submit(&stream).unwrap();
        let got = outputs[0].read::<f32>(&stream).unwrap().wait().unwrap();
        assert!(got.iter().all(|it| (it - 4.0).abs() < 1e-4), "{got:?}");
    }
    let Some(graphs) = super::recorded_graphs(&*rig.checks) else {
        return;
    };
    // Each of the four branches has three items. The last product of one branch also adds the results of the others, so
    // it depends on them: the longest path has four items. In sequence it would have twelve.
    assert_eq!(graphs, ["12 nodes, 11 edges, longest path 4"], "{schedule}");
}
