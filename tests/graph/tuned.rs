//! Programs with tuned blockings.

use std::sync::Arc;
use std::time::Duration;

use millstream::graph::{
    CompiledSchedule, DType, Graph, GraphCache, GraphTuner, LazyBuffer, Schedule, ScheduleError,
};
use millstream::tune::{Effort, Identity, Policy, Tuner};
use millstream::{Handle, Stream};
use rstest::rstest;
use rstest_reuse::apply;

use super::every_device;
use super::support::On;
use super::{ONE, compiles_slowly};

/// Returns a tuner for tests, which measures little: its choices do not matter.
fn hasty() -> GraphTuner {
    let effort = Effort::default()
        .samples(1)
        .budget(Duration::from_micros(1));
    GraphTuner::with(Tuner::with_effort(effort))
}

const ROWS: usize = 70;
const INNER: usize = 40;
const COLUMNS: usize = 96;

/// A product with an epilogue, reductions of rows, and an elementwise kernel.
struct Model {
    inputs: [LazyBuffer; 2],
    schedule: Schedule,
}

impl Model {
    fn new() -> Self {
        let graph = Graph::new();
        let a = graph.input("a", DType::F32, [ROWS, INNER]);
        let b = graph.input("b", DType::F32, [INNER, COLUMNS]);
        let product = a.matmul(&b).relu();
        let parts = product.softmax(-1);
        let roots = [&parts.sum(0), &parts];
        Self {
            schedule: Schedule::create(&roots).unwrap(),
            inputs: [a, b],
        }
    }

    fn run(&self, compiled: &CompiledSchedule, stream: &Stream) -> Vec<f32> {
        let number = |index: usize| ((index * 37) % 101) as f32 / 50.0 - 1.0;
        let data = |len: usize| (0..len).map(number).collect::<Vec<f32>>();
        let [a, b] = [ROWS * INNER, INNER * COLUMNS].map(data);
        let [a, b]: [Handle<f32>; 2] = [a, b].map(|data| stream.create(&data).unwrap());
        let run = compiled.run().input(&self.inputs[0], &a);
        let out = run.input(&self.inputs[1], &b).submit(stream).unwrap();
        let outs = [&out[0], &out[1]];
        let read = outs.map(|out| out.read::<f32>(stream).unwrap().wait().unwrap());
        read.concat()
    }
}

/// I2: a tuned schedule has the results of an untuned one; every blocking was run.
#[apply(every_device)]
fn tuned_schedule_has_the_same_results(on: On) {
    let rig = on.open();
    let client = rig.client();
    let model = Model::new();
    let usual = model.schedule.compile(&client).unwrap();
    let expected = model.run(&usual, &client.new_stream());

    let cache = GraphCache::default().tuned_by(hasty());
    let tuned = model.schedule.compile_with_cache(&client, &cache).unwrap();
    let found = model.run(&tuned, &client.new_stream());
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let near = (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
        assert!(near, "element {index}: expected {expected}, got {found}");
    }
    let known = model.schedule.tune(&client, &cache).unwrap();
    assert!(known.iter().any(|item| item.kernel.contains("matmul")));
    for item in &known {
        let candidates = &item.outcome.candidates;
        assert!(candidates.len() > 1, "{item}");
        for candidate in candidates {
            assert!(candidate.result.is_ok(), "{item}: {candidate:?}");
        }
        assert!(item.gain().is_some());
    }
}

/// I8: with a policy that must not block, nothing is measured until `tune` is called.
#[apply(every_device)]
fn compiling_does_not_measure_with_the_policy_use_default(on: On) {
    let rig = on.open();
    let client = rig.client();
    let model = Model::new();
    let tuner = hasty().policy(Policy::UseDefault);
    let known = tuner.tuner().clone();
    let cache = GraphCache::default().tuned_by(tuner);
    let identity = Identity {
        device: "any".into(),
        version: "1".into(),
    };
    let nothing = known.export(&identity);
    model.schedule.compile_with_cache(&client, &cache).unwrap();
    assert_eq!(known.export(&identity), nothing);

    let items = model.schedule.tune(&client, &cache).unwrap();
    let bundle = known.export(&identity);
    assert_ne!(bundle, nothing);
    // Tuned programs are known: nothing is measured again.
    let again = model.schedule.tune(&client, &cache).unwrap();
    let ways = |items: &[millstream::graph::TunedItem]| {
        let ways = items.iter().map(|item| item.blocking);
        ways.collect::<Vec<_>>()
    };
    assert_eq!(ways(&again), ways(&items));
    assert_eq!(known.export(&identity), bundle);

    // Exported choices are known in another process, which never measures.
    let frozen = hasty().policy(Policy::Frozen);
    frozen.tuner().import(&bundle, &identity).unwrap();
    let cache = GraphCache::default().tuned_by(frozen);
    let compiled = model.schedule.compile_with_cache(&client, &cache).unwrap();
    assert!(!model.run(&compiled, &client.new_stream()).is_empty());
}

#[apply(every_device)]
fn unknown_program_is_an_error_with_a_frozen_tuner(on: On) {
    let rig = on.open();
    let client = rig.client();
    let model = Model::new();
    let cache = GraphCache::default().tuned_by(hasty().policy(Policy::Frozen));
    let refused = model.schedule.compile_with_cache(&client, &cache);
    let error = refused.err().unwrap();
    assert!(matches!(error, ScheduleError::Tuning(_)), "{error}");
    assert!(error.to_string().contains("tune the key before"), "{error}");
    let refused = model.schedule.tune(&client, &GraphCache::default());
    assert!(matches!(refused, Err(ScheduleError::NoTuner)));
}

/// I5, I7: a program without memory for a trial runs with the default blocking, and is tuned later.
#[apply(every_device)]
fn program_without_memory_for_a_trial_uses_the_default(on: On) {
    let rig = on.open();
    let model = Model::new();
    let poor = rig.device.client_builder().hard_limit(1).build();
    let cache = GraphCache::default().tuned_by(hasty());
    assert!(model.schedule.tune(&poor, &cache).unwrap().is_empty());
    assert!(model.schedule.compile_with_cache(&poor, &cache).is_ok());
    let rich = rig.client();
    assert!(!model.schedule.tune(&rich, &cache).unwrap().is_empty());
}

/// I2: however a tuner splits rows, sums are those of whole rows. A choice is reused, and a frozen tuner refuses
/// unknown graphs.
#[apply(every_device)]
fn reductions_split_by_a_tuner_have_the_same_results(on: On) {
    let (_rig, client, stream) = on.start();
    let (long, columns) = (3000_u64, 24_usize);
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [long as usize, columns]);
    // Stored into, by trials and by this test.
    let total = graph.input("total", DType::F32, [1, columns]);
    let root = total.set(&(&total + &x.sum(0)));

    let tuner = hasty();
    let known = tuner.tuner().clone();
    let cache = Arc::new(GraphCache::default().tuned_by(tuner));
    let schedule = Schedule::create_tuned(&[&root], &client, &cache).unwrap();
    let again = Schedule::create_tuned(&[&root], &client, &cache).unwrap();
    assert_eq!(schedule.items().len(), again.items().len());
    let data: Vec<f32> = (0..long as usize * columns)
        .map(|i| (i % 7) as f32)
        .collect();
    let input = stream.create(&data).unwrap();
    let sums = stream.create(&vec![1.0_f32; columns]).unwrap();
    let compiled = schedule.compile_with_cache(&client, &cache).unwrap();
    let run = compiled.run().input(&x, &input).input(&total, &sums);
    run.submit(&stream).unwrap();
    let column = |column: usize| data.iter().skip(column).step_by(columns).sum::<f32>() + 1.0;
    let expected: Vec<f32> = (0..columns).map(column).collect();
    assert_eq!(stream.read(&sums).wait().unwrap(), expected);

    let identity = Identity {
        device: "any".into(),
        version: "1".into(),
    };
    let bundle = String::from_utf8(known.export(&identity)).unwrap();
    assert!(
        bundle.contains("schedule: usual, middling, short"),
        "{bundle}"
    );
    let unknown = Arc::new(GraphCache::default().tuned_by(hasty().policy(Policy::Frozen)));
    let refused = Schedule::create_tuned(&[&root], &client, &unknown);
    assert!(matches!(refused, Err(ScheduleError::Tuning(_))));
    let bare = Arc::new(GraphCache::default());
    let refused = Schedule::create_tuned(&[&root], &client, &bare);
    assert!(matches!(refused, Err(ScheduleError::NoTuner)));
}

/// Lengths 0, 1 and symbolic ones; a gather and a scatter, which have no blockings.
#[apply(every_device)]
fn tuned_schedule_of_any_lengths_compiles_and_runs(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let rows = graph.length("rows", 8);
    let a = graph.input("a", DType::F32, [8, 3]);
    let b = graph.input("b", DType::F32, [3, 5]);
    let none = graph.input("none", DType::F32, [0, 3]);
    let places = graph.input("places", DType::I64, [2, 3]);
    let symbolic = a.narrow(0, 0, &rows).matmul(&b);
    let roots = [
        &symbolic.softmax(-1),
        &none.matmul(&b),
        &none.sum(0),
        &a.gather(0, &places),
        &b.sum(..),
    ];
    let cache = Arc::new(GraphCache::default().tuned_by(hasty()));
    let schedule = Schedule::create_tuned(&roots, &client, &cache).unwrap();
    let compiled = schedule.compile_with_cache(&client, &cache).unwrap();
    let ones = |len: usize| stream.create(&vec![1.0_f32; len]).unwrap();
    let (a_data, b_data) = (ones(24), ones(15));
    let none_data = stream.empty::<f32>(0).unwrap();
    let places_data = stream.create(&[7_i64, 0, 3, 0, 7, 1]).unwrap();
    for count in [0_u64, 1, 8] {
        let run = compiled.run().length(&rows, count);
        let run = run.input(&a, &a_data).input(&b, &b_data);
        let run = run.input(&none, &none_data).input(&places, &places_data);
        let outs = run.submit(&stream).unwrap();
        let read = |root: usize| outs[root].read::<f32>(&stream).unwrap().wait().unwrap();
        assert_eq!(read(0), vec![0.2; count as usize * 5]);
        assert_eq!(read(1), vec![0.0; 0]);
        assert_eq!(read(2), vec![0.0; 3]);
        assert_eq!(read(3), vec![1.0; 6]);
        assert_eq!(read(4), vec![15.0]);
    }
}

/// I5, I6: threads that tune schedules with common programs wait for each other, but never in a cycle.
#[test]
fn threads_that_tune_schedules_with_common_programs_finish_i5() {
    let rig = ONE.open();
    let client = rig.client();
    let rounds = if compiles_slowly(ONE) { 1 } else { 4 };
    for round in 0..rounds {
        let cache = Arc::new(GraphCache::default().tuned_by(hasty()));
        let barrier = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            let threads = (0..4).map(|thread| {
                let (client, cache, barrier) = (&client, &cache, &barrier);
                scope.spawn(move || {
                    let graph = Graph::new();
                    let x = graph.input("x", DType::F32, [3000 + round, 24]);
                    let sum = x.sum(0);
                    // Half of the schedules have two roots, with the programs of the others among theirs.
                    let scaled = &(&x * 2.0).sum(0);
                    let roots = [&sum, scaled];
                    barrier.wait();
                    let roots = &roots[..1 + thread % 2];
                    let schedule = Schedule::create_tuned(roots, client, cache).unwrap();
                    schedule.compile_with_cache(client, cache).unwrap();
                })
            });
            let threads: Vec<_> = threads.collect();
            assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
        });
    }
}
