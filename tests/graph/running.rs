//! Runs: bindings, versions of buffers, caches, many threads.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use millstream::graph::{
    Call, DType, Graph, GraphCache, ItemKind, LazyBuffer, Outputs, Schedule, ScheduleError, Size,
};
use millstream::{DeviceOptions, Handle, Kernel};
use rstest::rstest;
use rstest_reuse::apply;

use super::compile;
use super::every_device;
use super::support::On;
use super::{ONE, WITH_RUST_KERNELS};

fn kinds(schedule: &Schedule) -> Vec<ItemKind> {
    schedule
        .items()
        .iter()
        .map(millstream::graph::Item::kind)
        .collect()
}

#[apply(every_device)]
fn inputs_scalars_and_lengths_change_without_compiling(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let t = graph.length("t", 8);
    let x = graph.input("x", DType::F32, [8, 4]);
    let (factor, by) = graph.scalar("factor", DType::F32, 2.0);
    let sums = (x.narrow(0, 0, &t) * by).sum(0);
    let cache = GraphCache::default();
    let schedule = Schedule::create_one(&sums).unwrap();
    let compiled = schedule.compile_with_cache(&client, &cache).unwrap();
    let before = cache.stats();
    let data: Vec<f32> = (0..32).map(|i| i as f32).collect();
    let handle = stream.create(&data).unwrap();
    for rows in [1_u64, 5, 8, 0, 3] {
        for by in [2.0_f32, -0.5] {
            let run = compiled.run().input(&x, &handle).length(&t, rows);
            let out = run.scalar(&factor, by).submit(&stream).unwrap();
            let got = out[0].read::<f32>(&stream).unwrap().wait().unwrap();
            let want = |column: usize| (0..rows as usize).map(|r| data[r * 4 + column] * by).sum();
            let want: Vec<f32> = (0..4).map(want).collect();
            assert_eq!(got, want, "{rows} rows by {by}");
        }
    }
    assert_eq!(cache.stats(), before);
    let unbound = compiled.run().input(&x, &handle).submit(&stream);
    assert!(matches!(
        unbound,
        Err(ScheduleError::Unbound { what: "length", .. })
    ));
    let unbound = compiled.run().length(&t, 1).submit(&stream);
    assert!(matches!(
        unbound,
        Err(ScheduleError::Unbound { what: "input", .. })
    ));
    let long = compiled
        .run()
        .input(&x, &handle)
        .length(&t, 9)
        .submit(&stream);
    assert!(matches!(long, Err(ScheduleError::Length { given: 9, .. })));
    let unknown = graph.input("y", DType::F32, [1]);
    let unknown = compiled.run().input(&unknown, &handle).submit(&stream);
    assert!(matches!(
        unknown,
        Err(ScheduleError::UnknownArgument { .. })
    ));
}

/// An output as large as the arena of another schedule is not taken for it: the two share no recording.
#[apply(every_device)]
fn output_of_the_size_of_an_arena_is_another_form(
    on: On,
    #[values(false, true)] other_first: bool,
) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [8, 8]);
    let square = x.matmul(&x);
    let stored = x.set(&(&square + 1));
    let both = Schedule::create(&[&stored, &square]).unwrap();
    let alone = Schedule::create_one(&stored).unwrap();
    let cache = GraphCache::default();
    let mut schedules = [(&alone, 256), (&both, 0)];
    schedules.rotate_left(usize::from(other_first));
    for (schedule, bytes) in schedules {
        let compiled = schedule.compile_with_cache(&client, &cache).unwrap();
        assert_eq!(compiled.temporary_bytes(), bytes, "{schedule}");
        let values = stream.create(&[1.0_f32; 64]).unwrap();
        compiled.run().input(&x, &values).submit(&stream).unwrap();
        let result = stream.read(&values).wait().unwrap();
        assert_eq!(&*result, [9.0; 64]);
    }
}

#[apply(every_device)]
fn sixteen_threads_run_one_schedule_with_their_own_inputs_i1_i2(on: On) {
    let rig = on.open();
    let client = rig.client();
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [64, 64]);
    let w = graph.input("w", DType::F32, [64, 64]);
    let y = x.matmul(&w).softmax(-1).matmul(&x).sum(1);
    let compiled = compile(&client, &y);
    assert!(compiled.temporary_bytes() > 0);
    let run = |seed: usize| -> Vec<f32> {
        let stream = client.new_stream();
        let data = |salt: usize| -> Vec<f32> {
            (0..4096)
                .map(|i| ((i * 7 + seed * 31 + salt) % 13) as f32 / 13.0)
                .collect()
        };
        let (a, b) = (
            stream.create(&data(1)).unwrap(),
            stream.create(&data(5)).unwrap(),
        );
        let run = compiled.run().input(&x, &a).input(&w, &b);
        let outputs = run.submit(&stream).unwrap();
        outputs[0].read(&stream).unwrap().wait().unwrap()
    };
    let alone: Vec<Vec<f32>> = (0..16).map(run).collect();
    if rig.driver.is_some() {
        return;
    }
    let together: Vec<Vec<f32>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|seed| scope.spawn(move || run(seed))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(alone, together);
}

#[apply(every_device)]
fn equal_expression_of_another_graph_is_recorded_once(on: On) {
    let (_rig, client, stream) = on.start();
    let cache = GraphCache::default();
    for round in 0..4 {
        let graph = Graph::new();
        let handle = stream.create(&[round as f32; 32]).unwrap();
        let x = graph.buffer(&handle, [32]);
        let schedule = Schedule::create_one(&((&x + 1.0) * 2.0).exp()).unwrap();
        let compiled = schedule.compile_with_cache(&client, &cache).unwrap();
        let outputs = compiled.run().submit(&stream).unwrap();
        let got = outputs[0].read::<f32>(&stream).unwrap().wait().unwrap();
        let want = ((round as f32 + 1.0) * 2.0).exp();
        assert!(got.iter().all(|got| (got - want).abs() <= want * 1e-5));
    }
    let stats = cache.stats();
    assert_eq!((stats.schedule_lookups, stats.schedules_recorded), (4, 1));
    assert_eq!(stats.kernels_compiled, 1);
}

#[test]
fn user_kernels_run_in_order_with_the_destination_last() {
    let rig = WITH_RUST_KERNELS.open();
    let client = rig.client();
    let stream = client.new_stream();
    let scale = Kernel::new("scale")
        .reads::<f32>("from")
        .writes::<f32>("to")
        .scalar::<f32>("factor")
        .native(|_, args| {
            let (from, start) = (args.read::<f32>(0), args.chunk_start(1));
            for (index, to) in args.chunk::<f32>(1).iter_mut().enumerate() {
                *to = args.scalar::<f32>(0) * from[start + index];
            }
        });
    let add = Kernel::new("add")
        .reads::<f32>("other")
        .updates::<f32>("source")
        .native(|_, args| {
            let (other, start) = (args.read::<f32>(0), args.chunk_start(1));
            for (index, to) in args.chunk::<f32>(1).iter_mut().enumerate() {
                *to += other[start + index];
            }
        });
    let graph = Graph::new();
    let handle = stream.create(&[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
    let x = graph.buffer(&handle, [4]);
    let scaled = Call::new(scale, [2, 1, 1])
        .scalar(3.0)
        .make([&(&x + 1.0)], DType::F32, [4]);
    let added = Call::new(add, [2, 1, 1]).make_in_place([&scaled], &x);
    let schedule = Schedule::create(&[&scaled, &added]).unwrap();
    let wanted = [ItemKind::Kernel, ItemKind::Custom, ItemKind::CustomInPlace];
    assert_eq!(kinds(&schedule), wanted, "{schedule}");
    let outputs = schedule
        .compile(&client)
        .unwrap()
        .run()
        .submit(&stream)
        .unwrap();
    let got: Vec<Vec<f32>> = outputs
        .iter()
        .map(|o| o.read(&stream).unwrap().wait().unwrap())
        .collect();
    assert_eq!(got, [[6.0, 9.0, 12.0, 15.0], [7.0, 11.0, 15.0, 19.0]]);
    assert_eq!(outputs[1].bytes().id(), handle.id());
}

#[test]
fn errors_name_the_operation_the_reason_and_the_location() {
    let graph = Graph::new();
    let a = graph.input("a", DType::F32, [2, 3]);
    let b = graph.input("b", DType::I32, [2, 3]);
    assert!(matches!(Schedule::create(&[]), Err(ScheduleError::NoRoots)));
    let error = Schedule::create_one(&((&a + &b).exp() * 2.0))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("`add` of f32 [2, 3] and i32 [2, 3]: the types differ"),
        "{error}"
    );
    assert!(error.contains("running.rs"), "{error}");
    let other = Graph::new().input("c", DType::F32, [2, 3]);
    let error = (&a + &other).check().unwrap_err().to_string();
    assert!(error.contains("different graphs"), "{error}");
    assert!(matches!(
        Schedule::create(&[&a, &other]),
        Err(ScheduleError::Graphs { .. })
    ));
    let t = graph.length("t", 4);
    let long = a.narrow(1, &t, Size::ONE);
    assert!(
        long.error()
            .unwrap()
            .to_string()
            .contains("the range ends at row t + 1, expected at most 3"),
        "{long:?}"
    );
    let (one, two) = (ONE.open(), ONE.open());
    let make = |rig: &super::support::Rig| -> Handle<f32> {
        rig.client().new_stream().create(&[0.0; 6]).unwrap()
    };
    let (mine, theirs) = (make(&one), make(&two));
    let sum = graph.buffer(&mine, [6]) + graph.buffer(&theirs, [6]);
    assert!(matches!(
        Schedule::create_one(&sum),
        Err(ScheduleError::Devices { .. })
    ));
    let lone = Schedule::create_one(&(graph.buffer(&mine, [6]) + 1.0)).unwrap();
    let foreign = lone.compile(&two.client());
    assert!(
        matches!(foreign, Err(ScheduleError::ForeignDevice { .. })),
        "{:?}",
        foreign.err()
    );
    let cut: LazyBuffer = graph.buffer(&mine, [7]);
    assert!(
        cut.error()
            .unwrap()
            .to_string()
            .contains("expected a handle of 28 bytes, got 24")
    );
}

#[test]
fn report_has_the_items_of_a_run_with_their_times() {
    let rig = ONE.open_with(millstream::DeviceOptions::default().trace(1024));
    let client = rig.client();
    let stream = client.new_stream();
    let graph = Graph::new();
    let handle = stream.create(&[0.5_f32; 64 * 64]).unwrap();
    let x = graph.buffer(&handle, [64, 64]);
    let y = (x.exp().sum(0) + &x).softmax(-1);
    let compiled = compile(&client, &y);
    for _ in 0..3 {
        compiled.run().submit(&stream).unwrap();
    }
    stream.sync().wait().unwrap();
    let roofline = millstream::graph::Roofline {
        bytes_per_second: 1e10,
        flops_per_second: 1e10,
    };
    let report = compiled
        .report(&rig.device.trace().unwrap())
        .beside(roofline);
    assert_eq!(
        (report.runs, report.items.len()),
        (3, compiled.tasks()),
        "{report}"
    );
    for item in &report.items {
        assert!(
            item.bytes > 0 && item.flops > 0 && item.time_ns.is_some(),
            "{report}"
        );
        assert!(
            item.roofline_percent(&roofline)
                .is_some_and(|share| share > 0.0)
        );
    }
    assert!(report.to_string().contains("graph_exp_sum"), "{report}");
}

#[test]
fn buffer_with_elements_of_another_type_is_refused() {
    let (_rig, client, stream) = ONE.start();
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [4]);
    let place = x.argmax(0);
    let compiled = compile(&client, &place);
    let whole = stream.create(&[1_i32, 2, 3, 4]).unwrap();
    let wrong = compiled.run().input(&x, &whole).submit(&stream);
    let error = wrong.err().unwrap();
    assert!(matches!(error, ScheduleError::Elements { .. }));
    assert_eq!(
        error.to_string(),
        "`LazyBuffer(input `x` f32 [4])` has elements of f32, got i32: cast it in the graph, or pass it as bytes (u8)"
    );
    let out = stream.empty::<f32>(2).unwrap();
    let numbers = [1.0_f32, 7.0, 3.0, 4.0];
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_ne_bytes()).collect();
    let bytes = stream.create(&bytes).unwrap();
    let wrong = compiled
        .run()
        .input(&x, &bytes)
        .output(0, &out)
        .submit(&stream);
    assert!(matches!(wrong, Err(ScheduleError::Elements { .. })));
    let outputs = compiled.run().input(&x, &bytes).submit(&stream).unwrap();
    assert!(matches!(
        outputs[0].read::<f32>(&stream),
        Err(ScheduleError::Elements { .. })
    ));
    let got = outputs[0].read::<i64>(&stream).unwrap().wait().unwrap();
    assert_eq!(got, [1]);
    let small = stream.empty::<u8>(4).unwrap();
    let wrong = compiled
        .run()
        .input(&x, &bytes)
        .output(0, &small)
        .submit(&stream);
    assert!(matches!(
        wrong,
        Err(ScheduleError::OutputBytes {
            root: 0,
            expected: 8,
            given: 4
        })
    ));
}

#[test]
fn unused_scalar_or_length_is_refused() {
    let (_rig, client, stream) = ONE.start();
    let graph = Graph::new();
    let (used, by) = graph.scalar("used", DType::F32, 2.0);
    let (unused, _) = graph.scalar("unused", DType::F32, 2.0);
    let (rows, others) = (graph.length("rows", 4), graph.length("others", 4));
    let y = by.broadcast_to([Size::from(&rows)]);
    let compiled = compile(&client, &y);
    let run = || compiled.run().length(&rows, 3).scalar(&used, 5.0);
    let wrong = run().scalar(&unused, 1.0).submit(&stream);
    assert!(matches!(
        wrong,
        Err(ScheduleError::UnknownArgument { what: "scalar", .. })
    ));
    let wrong = run().length(&others, 1).submit(&stream);
    assert!(matches!(
        wrong,
        Err(ScheduleError::UnknownArgument { what: "length", .. })
    ));
    let outputs = run().submit(&stream).unwrap();
    let got = outputs[0].read::<f32>(&stream).unwrap().wait().unwrap();
    assert_eq!(got, [5.0; 3]);
}

#[test]
fn operation_on_a_refused_buffer_returns_the_first_error() {
    let graph = Graph::new();
    let [a, b] = [[2, 3], [4, 5]].map(|shape| graph.input("a", DType::F32, shape));
    let refused = a.matmul(&b);
    let first = refused.error().unwrap().to_string();
    let vector = graph.input("v", DType::F32, [3]);
    let made = [
        refused.set(&a),
        a.set(&refused),
        refused.set_rows(0, 0, &a),
        refused.matmul(&vector),
        refused.matmul_t(&vector),
        a.matmul_t(&refused),
        &refused + &vector,
        refused.sum(7),
        refused.clamp(0.0, 1.0),
        LazyBuffer::cat(&[a.clone(), refused.clone()], 9),
        refused.gather(9, &vector),
        vector.take(0, &refused),
        refused.narrow(5, 0, 1),
        refused.reshape([1, 2, 3]),
    ];
    for (index, made) in made.iter().enumerate() {
        assert_eq!(made.error().unwrap().to_string(), first, "case {index}");
    }
}

/// Buffers without spare bytes, side by side in one handle: a run reads, writes and depends on nothing beyond them.
#[apply(every_device)]
fn run_accesses_only_the_bytes_of_its_lengths_i1_i4(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let n = graph.length("n", 8);
    let x = graph.input("x", DType::F32, [Size::from(&n), Size::from(2)]);
    let y = graph.input("y", DType::F32, [Size::from(2), Size::from(&n)]);
    let roots = [x.matmul(&y), x.sum(0), &x * 2.0];
    let schedule = Schedule::create(&roots.iter().collect::<Vec<_>>()).unwrap();
    let compiled = schedule.compile(&client).unwrap();
    let memory = stream.create(&[1.0_f32; 64]).unwrap();
    for length in [8_usize, 3, 1, 0] {
        stream.fill(&memory, 1.0).unwrap();
        let side = 2 * length;
        let (of_x, of_y) = (
            memory.slice(..side).unwrap(),
            memory.slice(side..2 * side).unwrap(),
        );
        let twice = memory.slice(2 * side..3 * side).unwrap();
        let run = compiled.run().length(&n, length as u64);
        let run = run.input(&x, &of_x).input(&y, &of_y).output(2, &twice);
        let outputs = run.submit(&stream).unwrap();
        let values = |root: usize| outputs[root].read::<f32>(&stream).unwrap().wait().unwrap();
        assert_eq!(values(0), vec![2.0; length * length]);
        assert_eq!(values(1), [length as f32; 2]);
        assert_eq!(outputs[0].bytes().size(), 4 * (length * length) as u64);
        let mut want = [1.0; 64];
        want[2 * side..3 * side].fill(2.0);
        assert_eq!(stream.read(&memory).wait().unwrap(), want);
    }
    let short = memory.slice(..5).unwrap();
    let run = compiled.run().length(&n, 3).input(&x, &short);
    let refused = run.input(&y, &memory).submit(&stream).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the input `x` needs at least 24 bytes for the lengths of the run, got 20"
    );
    let all = memory.slice(..6).unwrap();
    let run = compiled.run().length(&n, 3).input(&x, &all);
    let run = run
        .input(&y, &memory.slice(8..).unwrap())
        .output(2, &memory.slice(6..8).unwrap());
    let refused = run.submit(&stream).unwrap_err();
    assert!(matches!(
        refused,
        ScheduleError::OutputBytes {
            root: 2,
            expected: 24,
            given: 8
        }
    ));
}

/// I8, I12: a run with three new outputs needs room four times. Each attempt keeps what it has allocated, so a run
/// proceeds even if there is room for one message at a time.
#[apply(every_device)]
fn runs_await_room_one_message_at_a_time_i12(on: On) {
    let mut rig = on.open_with(DeviceOptions::default().mailbox_capacity(1));
    let (client, driver) = (rig.client(), rig.driver.as_mut());
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [100]);
    let roots = [&(&x * 2.0), &x.sum(0), &(&x + 1.0)];
    let compiled = Schedule::create(&roots).unwrap().compile(&client).unwrap();
    let body = || {
        let stream = client.new_stream();
        let ones = stream.create(&[1.0_f32; 100]).unwrap();
        for _ in 0..20 {
            let run = compiled.run().input(&x, &ones);
            let outputs = pollster::block_on(run.submit_when_ready(&stream)).unwrap();
            let read = |root: usize| outputs[root].read::<f32>(&stream).unwrap().wait().unwrap();
            assert_eq!((read(0)[99], read(1)[0], read(2)[99]), (2.0, 100.0, 2.0));
        }
    };
    let callers_left = AtomicU32::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let _left = DropGuard(&callers_left);
                body();
            });
        }
        if let Some(driver) = driver {
            while callers_left.load(Ordering::Relaxed) > 0 {
                driver.pump(Duration::from_millis(1));
            }
        }
    });
}

/// Counts a thread as ended, also if it panics.
struct DropGuard<'a>(&'a AtomicU32);

impl Drop for DropGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A run that is submitted again has outputs of its own.
#[apply(every_device)]
fn run_submitted_twice_has_outputs_of_its_own(on: On) {
    let (rig, _, stream) = on.start();
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [4]);
    let compiled = compile(&rig.client(), &(&x * 2.0));
    let values = stream.create(&[1.0_f32; 4]).unwrap();
    let mut run = compiled.run().input(&x, &values);
    let first = run.try_submit(&stream).unwrap();
    stream.fill(&values, 3.0).unwrap();
    let second = run.try_submit(&stream).unwrap();
    let read = |outputs: &Outputs| outputs[0].read::<f32>(&stream).unwrap().wait().unwrap();
    assert_eq!((read(&first), read(&second)), (vec![2.0; 4], vec![6.0; 4]));
    assert!(first[0].bytes().is_unique(), "the run keeps no output");
    let mut wrong = compiled.run().length(&graph.length("n", 4), 1);
    for _ in 0..2 {
        assert!(matches!(
            wrong.try_submit(&stream),
            Err(ScheduleError::UnknownArgument { .. })
        ));
    }
}
