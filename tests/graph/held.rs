//! Values that are computed once from inputs that rarely change, and runs that read them.

use std::thread;

use millstream::graph::{
    Call, CompiledHeld, DType, Graph, GraphCache, Hold, ItemKind, LazyBuffer, Schedule,
    ScheduleError,
};
use millstream::{ComputeClient, Handle, Stream};
use rstest::rstest;
use rstest_reuse::apply;

use crate::every_device;
use crate::ssa_calls::scale;
use crate::support::{On, Rig};

/// `x (softmax(w) v) + b`. All but `x` is held: the softmax and a product are computed once.
struct Model {
    x: LazyBuffer,
    held: [LazyBuffer; 3],
    compiled: CompiledHeld,
    whole: millstream::graph::CompiledSchedule,
}

const N: usize = 24;

impl Model {
    fn new(client: &ComputeClient) -> Self {
        let graph = Graph::new();
        let square = |name: &str| graph.input(name, DType::F32, [N, N]);
        let (x, w, v) = (square("x"), square("w"), square("v"));
        let b = graph.input("b", DType::F32, [N]);
        let y = x.matmul(&w.softmax(-1).matmul(&v)) + &b;
        let hold = Hold::new().inputs([&w, &v, &b]);
        let compiled = Schedule::create_holding(&[&y], &hold).unwrap();
        let compiled = compiled.compile(client).unwrap();
        let whole = Schedule::create_one(&y).unwrap().compile(client).unwrap();
        Model {
            x,
            held: [w, v, b],
            compiled,
            whole,
        }
    }

    /// Returns the result of a run with prepared values, and of the undivided schedule.
    fn run(&self, stream: &Stream, seed: usize) -> [Vec<f32>; 2] {
        let held = [1, 2, 3].map(|salt| numbers(stream, seed + salt));
        let x = numbers(stream, seed);
        let mut preparation = self.compiled.prepare();
        let mut whole = self.whole.run();
        for (input, handle) in self.held.iter().zip(&held) {
            preparation = preparation.input(input, handle);
            whole = whole.input(input, handle);
        }
        let prepared = preparation.submit(stream).unwrap();
        let run = self.compiled.run(&prepared).input(&self.x, &x);
        let [got, want] = [run, whole.input(&self.x, &x)]
            .map(|run| run.submit(stream).unwrap()[0].read(stream).unwrap());
        [got.wait().unwrap(), want.wait().unwrap()]
    }
}

fn numbers(stream: &Stream, seed: usize) -> Handle<f32> {
    let number = |i: usize| ((i * 7 + seed * 31) % 13) as f32 / 13.0 - 0.5;
    let all: Vec<f32> = (0..N * N).map(number).collect();
    stream.create(&all).unwrap()
}

fn launches(rig: &Rig, stream: &Stream) -> u64 {
    stream.sync().wait().unwrap();
    rig.stats().launches
}

fn close(got: &[f32], want: &[f32]) -> bool {
    let near = |(got, want): (&f32, &f32)| (got - want).abs() <= 1e-5 * want.abs().max(1.0);
    got.len() == want.len() && got.iter().zip(want).all(near)
}

/// Held values are computed once; a run launches only the rest.
#[apply(every_device)]
fn run_computes_only_values_that_are_not_held_i6(on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.new_stream();
    let model = Model::new(&client);
    assert_eq!(model.compiled.first().tasks(), 2, "softmax, product");
    assert_eq!(model.compiled.rest().tasks(), 1, "product with its sum");
    let [w, v, b] = [1, 2, 3].map(|seed| numbers(&stream, seed));
    let before = launches(&rig, &stream);
    let preparation = model.compiled.prepare().input(&model.held[0], &w);
    let preparation = preparation
        .input(&model.held[1], &v)
        .input(&model.held[2], &b);
    let prepared = preparation.submit(&stream).unwrap();
    assert_eq!(launches(&rig, &stream), before + 2);
    for seed in 0..5 {
        let x = numbers(&stream, seed);
        let before = launches(&rig, &stream);
        let run = model.compiled.run(&prepared).input(&model.x, &x);
        let got = run.submit(&stream).unwrap()[0].read::<f32>(&stream);
        assert_eq!(launches(&rig, &stream), before + 1);
        let whole = model.whole.run().input(&model.x, &x);
        let whole = whole
            .input(&model.held[0], &w)
            .input(&model.held[1], &v)
            .input(&model.held[2], &b);
        let want = whole.submit(&stream).unwrap()[0].read::<f32>(&stream);
        let (got, want) = (got.unwrap().wait().unwrap(), want.unwrap().wait().unwrap());
        assert!(close(&got, &want), "{got:?} {want:?}");
    }
}

/// Preparations coexist: each thread sees the values of its own, whenever the others are dropped.
#[apply(every_device)]
fn sixteen_threads_run_with_their_own_preparations_i1_i2(on: On) {
    let rig = on.open();
    let client = rig.client();
    let model = Model::new(&client);
    if rig.driver.is_some() {
        for seed in 0..16 {
            let [got, want] = model.run(&client.new_stream(), seed);
            assert!(close(&got, &want), "{got:?} {want:?}");
        }
        return;
    }
    thread::scope(|scope| {
        for seed in 0..16 {
            let (model, stream) = (&model, client.new_stream());
            scope.spawn(move || {
                for turn in 0..3 {
                    let [got, want] = model.run(&stream, seed + turn);
                    assert!(close(&got, &want), "{got:?} {want:?}");
                }
            });
        }
    });
}

/// A new preparation has new values, and an earlier one keeps its own, whatever happens to the outputs of runs.
#[apply(every_device)]
fn prepared_values_do_not_change_after_later_preparations_or_writes_to_outputs_i4(on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.new_stream();
    let graph = Graph::new();
    let w = graph.input("w", DType::F32, [4]);
    let x = graph.input("x", DType::F32, [4]);
    let (factor, by) = graph.scalar("factor", DType::F32, 2.0);
    let made = (&w * by).exp().sum(0);
    // A held root, a root that a run stores into, and one that reads the old version of the stored buffer.
    let squares = (&w * &w + 1.0).sqrt() + (&w * 3.0).exp();
    let stored = squares.set_rows(0, 0, &x.narrow(0, 1, 2));
    // Two versions of one buffer, both computed once and both read by runs.
    let powers = (&w * &w).exp();
    let cut = powers.set_rows(0, 1, &w.narrow(0, 0, 2));
    let added = [&squares + &x, &powers + &x, &cut + &x];
    let roots = [
        &made,
        &stored,
        &(&x * &made),
        &added[0],
        &added[1],
        &added[2],
    ];
    let hold = Hold::new().inputs([&w]).scalar(&factor);
    let schedule = Schedule::create_holding(&roots, &hold).unwrap();
    let compiled = schedule.compile(&client).unwrap();
    let data = [0.5_f32, -0.25, 0.125, 0.0];
    let handle = stream.create(&data).unwrap();
    let xs = [10.0_f32, 20.0, 30.0, 40.0];
    let x_handle = stream.create(&xs).unwrap();
    let old = compiled.prepare().input(&w, &handle);
    let old = old.submit(&stream).unwrap();
    let new = compiled.prepare().input(&w, &handle).scalar(&factor, -1.0);
    let new = new.submit(&stream).unwrap();
    for turn in 0..3 {
        for (prepared, by) in [(&old, 2.0_f32), (&new, -1.0)] {
            let run = compiled.run(prepared).input(&x, &x_handle);
            let outputs = run.submit(&stream).unwrap();
            let got: Vec<Vec<f32>> = outputs
                .iter()
                .map(|output| output.read(&stream).unwrap().wait().unwrap())
                .collect();
            let sum: f32 = data.iter().map(|w| (w * by).exp()).sum();
            let squares = data.map(|w| (w * w + 1.0).sqrt() + (w * 3.0).exp());
            let stored = [20.0, 30.0, squares[2], squares[3]];
            let scaled = xs.map(|x| x * sum);
            let powers = data.map(|w| (w * w).exp());
            let cut = [powers[0], data[0], data[1], powers[3]];
            let [squares, powers, cut] =
                [squares, powers, cut].map(|a| [0, 1, 2, 3].map(|i| a[i] + xs[i]));
            let want = [&[sum][..], &stored, &scaled, &squares, &powers, &cut];
            for (got, want) in got.iter().zip(want) {
                assert!(close(got, want), "{turn}: {got:?} {want:?}\n{schedule}");
            }
            // Outputs belong to the caller, which may write to them.
            for output in outputs.iter() {
                let output = output.handle::<f32>().unwrap();
                stream.fill(&output, f32::NAN).unwrap();
            }
        }
    }
}

/// Held lengths belong to a preparation, others to a run.
#[apply(every_device)]
fn held_lengths_belong_to_the_preparation(on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.new_stream();
    let graph = Graph::new();
    let (rows, past) = (graph.length("rows", 6), graph.length("past", 8));
    let w = graph.input("w", DType::F32, [6, 4]);
    let x = graph.input("x", DType::F32, [8, 4]);
    let made = w.narrow(0, 0, &rows).exp().sum(0);
    let y = (x.narrow(0, 0, &past) * &made).sum(1);
    let hold = Hold::new().inputs([&w]).length(&rows);
    let held = Schedule::create_holding(&[&y], &hold).unwrap();
    assert_eq!(
        (held.first().items().len(), held.rest().items().len()),
        (1, 1)
    );
    let compiled = held.compile(&client).unwrap();
    let (w_handle, x_handle) = (
        stream.create(&[0.0_f32; 24]).unwrap(),
        stream.create(&[1.0_f32; 32]).unwrap(),
    );
    for count in [6_u64, 2, 0] {
        let prepared = compiled.prepare().input(&w, &w_handle).length(&rows, count);
        let prepared = prepared.submit(&stream).unwrap();
        for t in [8_u64, 3] {
            let run = compiled
                .run(&prepared)
                .input(&x, &x_handle)
                .length(&past, t);
            let got = run.submit(&stream).unwrap()[0].read::<f32>(&stream);
            let got = got.unwrap().wait().unwrap();
            assert_eq!(got, vec![4.0 * count as f32; t as usize]);
        }
    }
    let missing = compiled.prepare().input(&w, &w_handle).submit(&stream);
    assert!(
        matches!(&missing, Err(ScheduleError::Unbound { what: "length", name }) if name == "rows")
    );
}

/// Calls of kernels, existing buffers and constants are computed once as well; a store into a buffer of the caller
/// never is.
#[apply(every_device)]
fn store_into_a_buffer_of_the_caller_happens_in_each_run_i6(on: On) {
    let rig = on.open();
    let client = rig.client();
    let stream = client.new_stream();
    let graph = Graph::new();
    let (weights, counts) = (
        stream.create(&[1.0_f32; 8]).unwrap(),
        stream.create(&[0.0_f32; 8]).unwrap(),
    );
    let (w, count) = (graph.buffer(&weights, [8]), graph.buffer(&counts, [8]));
    let x = graph.input("x", DType::F32, [8]);
    let scaled = Call::ssa(scale(), [2, 1, 1]).scalar(3.0).scalar(8);
    let scaled = scaled.make([&w], DType::F32, [8]);
    // All stored values are held, and still each run stores them.
    let counted = count.set(&(&count + &w));
    let roots = [&(&scaled * &x), &counted];
    let held = Schedule::create_holding(&roots, &Hold::new().inputs([&w])).unwrap();
    let kinds = |schedule: &Schedule| -> Vec<ItemKind> {
        schedule
            .items()
            .iter()
            .map(millstream::graph::Item::kind)
            .collect()
    };
    assert_eq!(kinds(held.first()), [ItemKind::Ssa], "{held}");
    let mut rest = kinds(held.rest());
    rest.sort_by_key(|kind| kind.name());
    assert_eq!(rest, [ItemKind::Kernel, ItemKind::Set], "{held}");
    let cache = GraphCache::default();
    let compiled = held.compile_with_cache(&client, &cache).unwrap();
    let prepared = compiled.prepare().submit(&stream).unwrap();
    for turn in 1..4 {
        let x_handle = stream.create(&[turn as f32; 8]).unwrap();
        let run = compiled.run(&prepared).input(&x, &x_handle);
        let outputs = run.submit(&stream).unwrap();
        let got = outputs[0].read::<f32>(&stream).unwrap().wait().unwrap();
        assert_eq!(got, [3.0 * turn as f32; 8]);
        assert_eq!(stream.read(&counts).wait().unwrap(), [turn as f32; 8]);
    }
    let stored = Schedule::create_holding(&roots, &Hold::new().inputs([&count]));
    assert!(
        matches!(&stored, Err(ScheduleError::HeldIsStored { name }) if *name == counts.id().to_string())
    );
}

#[test]
fn held_and_other_arguments_are_bound_to_preparations_and_runs_only() {
    let rig = On::Cpu.open();
    let client = rig.client();
    let stream = client.new_stream();
    let graph = Graph::new();
    let [x, w, other] = ["x", "w", "other"].map(|name| graph.input(name, DType::F32, [4]));
    let (factor, by) = graph.scalar("factor", DType::F32, 2.0);
    let (free, offset) = graph.scalar("free", DType::F32, 0.0);
    let rows = graph.length("rows", 4);
    let y = (&w * by).exp() * (&x + offset);
    for hold in [
        Hold::new().inputs([&other]),
        Hold::new().inputs([&y]),
        Hold::new().inputs([&Graph::new().input("w", DType::F32, [4])]),
        Hold::new().length(&rows),
        Hold::new().scalar(&Graph::new().scalar("factor", DType::F32, 2.0).0),
    ] {
        let unknown = Schedule::create_holding(&[&y], &hold);
        assert!(matches!(
            unknown,
            Err(ScheduleError::UnknownArgument { .. })
        ));
    }
    let hold = Hold::new().inputs([&w]).scalar(&factor);
    let held = Schedule::create_holding(&[&y], &hold).unwrap();
    let [compiled, again] = [0; 2].map(|_| held.compile(&client).unwrap());
    let handle = stream.create(&[1.0_f32; 4]).unwrap();
    let short = stream.create(&[1.0_f32; 3]).unwrap();
    let prepare = || compiled.prepare();
    let errors = [
        prepare().submit(&stream),
        prepare().input(&w, &short).submit(&stream),
        prepare().input(&x, &handle).submit(&stream),
        prepare().scalar(&free, 1.0).submit(&stream),
        prepare().length(&rows, 1).submit(&stream),
        prepare().scalar(&factor, true).submit(&stream),
    ];
    let text = errors.map(|error| error.err().unwrap().to_string());
    let begins = [
        "the input `w` is not bound",
        "the input `w` needs at least 16 bytes for the lengths of the run, got 12",
        "the input `LazyBuffer(input `x` f32 [4])` is not held: bind it to each run",
        "the scalar `free` is not held",
        "the length `rows` is not held",
        "the scalar `factor` is f32, which cannot represent true",
    ];
    for (text, begins) in text.iter().zip(begins) {
        assert!(text.starts_with(begins), "{text}");
    }
    let prepared = prepare().input(&w, &handle).submit(&stream).unwrap();
    let run = || compiled.run(&prepared).input(&x, &handle);
    assert!(run().takes(&x) && !run().takes(&w));
    assert!(run().scalar(&free, 1.0).submit(&stream).is_ok());
    let held = [run().input(&w, &handle), run().scalar(&factor, 1.0)];
    for run in held {
        assert!(matches!(
            run.submit(&stream),
            Err(ScheduleError::Held { .. })
        ));
    }
    let foreign = again.run(&prepared).input(&x, &handle).submit(&stream);
    assert!(matches!(foreign, Err(ScheduleError::ForeignPrepared)));
}
