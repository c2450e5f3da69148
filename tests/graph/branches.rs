//! Independent branches of a graph.

use millstream::graph::{Graph, LazyBuffer, Schedule};
use millstream::{DType, Handle};
use rstest::rstest;
use rstest_reuse::apply;

use super::every_device;
use super::support::On;

const N: usize = 20;
const BRANCHES: usize = 4;

/// Returns the inputs `x, w1, w2, ..` and the sum of the branches `softmax(x w) w`, one for each `w`.
fn branches(graph: &Graph) -> (Vec<LazyBuffer>, LazyBuffer) {
    let square = |name: String| graph.input(name, DType::F32, [N, N]);
    let inputs: Vec<LazyBuffer> = (0..=BRANCHES)
        .map(|nth| square(format!("x{nth}")))
        .collect();
    let x = &inputs[0];
    let branch = |w: &LazyBuffer| x.matmul(w).softmax(-1).matmul(w);
    let sum = inputs[2..]
        .iter()
        .fold(branch(&inputs[1]), |sum, w| sum + branch(w));
    (inputs, sum)
}

/// Multiplies two square matrices.
fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    let place = |flat: usize| (flat / N, flat % N);
    let element = |(i, j): (usize, usize)| (0..N).map(|k| a[i * N + k] * b[k * N + j]).sum();
    (0..N * N).map(|flat| element(place(flat))).collect()
}

/// Computes the sum of the branches in `f64`.
fn expected(x: &[f64], ws: &[Vec<f64>]) -> Vec<f64> {
    let mut sum = vec![0.0; N * N];
    for w in ws {
        let mut weights: Vec<f64> = product(x, w).into_iter().map(f64::exp).collect();
        for row in weights.chunks_mut(N) {
            let total: f64 = row.iter().sum();
            row.iter_mut().for_each(|weight| *weight /= total);
        }
        let branch = product(&weights, w);
        sum.iter_mut()
            .zip(branch)
            .for_each(|(sum, more)| *sum += more);
    }
    sum
}

/// I1, I2: each run has the right result, in any order of its branches. In the CUDA graph of the recording, only the
/// sum depends on several branches.
#[apply(every_device)]
fn independent_branches_have_no_dependencies_before_their_sum_i1_i2(on: On) {
    let (rig, client, stream) = on.start();
    let graph = Graph::new();
    let (inputs, sum) = branches(&graph);
    let schedule = Schedule::create_one(&sum).unwrap();
    let compiled = schedule.compile(&client).unwrap();
    let data = |round: usize, nth: usize| -> Vec<f64> {
        let number = |i: usize| ((i * 7 + nth * 31 + round * 5) % 13) as f64 / 13.0 - 0.5;
        (0..N * N).map(number).collect()
    };
    for round in 0..4 {
        let all: Vec<Vec<f64>> = (0..=BRANCHES).map(|nth| data(round, nth)).collect();
        let handles: Vec<Handle<f32>> = all
            .iter()
            .map(|data| {
                let data: Vec<f32> = data.iter().map(|x| *x as f32).collect();
                stream.create(&data).unwrap()
            })
            .collect();
        let run = inputs.iter().zip(&handles);
        let run = run.fold(compiled.run(), |run, (input, handle)| {
            run.input(input, handle)
        });
        let outputs = run.submit(&stream).unwrap();
        let got = outputs[0].read::<f32>(&stream).unwrap().wait().unwrap();
        for (got, want) in got.iter().zip(expected(&all[0], &all[1..])) {
            assert!(
                (f64::from(*got) - want).abs() < 1e-4,
                "got {got}, expected {want}\n{schedule}"
            );
        }
    }
    let Some(graphs) = super::recorded_graphs(&*rig.checks) else {
        return;
    };
    // Each of the four branches has three items. The last product of one branch also adds the results of the others, so
    // it depends on them: the longest path has four items. In sequence it would have twelve.
    assert_eq!(graphs, ["12 nodes, 11 edges, longest path 4"], "{schedule}");
}
