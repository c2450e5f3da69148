//! Known errors of graph compilers, case by case.

use millstream::DType;
use millstream::graph::{Graph, GraphCache, ItemKind, LazyBuffer, Schedule, ScheduleError};
use rstest::rstest;
use rstest_reuse::apply;

use super::ONE;
use super::compile;
use super::every_device;
use super::support::On;

fn is_send_and_sync<T: Send + Sync>() {}

#[test]
fn graph_types_are_send_and_sync() {
    is_send_and_sync::<Graph>();
    is_send_and_sync::<LazyBuffer>();
    is_send_and_sync::<Schedule>();
    is_send_and_sync::<millstream::graph::CompiledSchedule>();
    is_send_and_sync::<GraphCache>();
}

#[test]
fn expression_of_many_buffers_is_split_into_several_kernels() {
    let graph = Graph::new();
    let all = (0..20).map(|at| graph.input(format!("x{at}"), DType::F32, [5, 7]));
    let sum = all.reduce(|sum, x| sum + x).unwrap();
    let schedule = Schedule::create_one(&sum).unwrap();
    assert!(schedule.items().len() > 1);
    for item in schedule.items() {
        assert!(item.program().unwrap().buffers().len() <= 8, "{schedule}");
    }
}

#[test]
fn constant_that_is_used_twice_needs_no_buffer() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [8]);
    let two = graph.constant(DType::F32, 2.0);
    let y = (&x * &two).exp() + &two;
    let z = (&x + &two).sum(0) * &two;
    let schedule = Schedule::create(&[&y, &z]).unwrap();
    assert_eq!(schedule.items().len(), 2, "{schedule}");
}

#[test]
fn realized_buffer_releases_its_operands() {
    let (_rig, client, stream) = ONE.start();
    let graph = Graph::new();
    let start = stream.create(&[1.0_f32; 64]).unwrap();
    let mut x = graph.buffer(&start, [64]);
    let cache = GraphCache::default();
    for step in 0..200 {
        x = &x * 1.01 + f64::from(step);
        let compiled = Schedule::create_one(&x)
            .unwrap()
            .compile_with_cache(&client, &cache);
        let outputs = compiled.unwrap().run().submit(&stream).unwrap();
        x.realize(outputs[0].bytes()).unwrap();
        assert!(x.is_realized());
        assert_eq!(graph.len(), 1, "step {step}");
    }
    // Each step has another constant, which is a launch word, so all use one kernel.
    assert_eq!(cache.stats().kernels_compiled, 1);
}

#[test]
fn chain_of_40_000_operations_needs_no_stack() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [64]);
    let mut y = x.clone();
    for _ in 0..20_000 {
        y = (y + 1.0).abs();
    }
    let schedule = Schedule::create_one(&y).unwrap();
    assert!(schedule.items().len() > 100);
    drop((schedule, y, x));
    assert!(graph.is_empty());
}

/// Node ids are reused, so an input is identified by more than its id.
#[test]
fn node_with_the_id_of_an_input_of_another_graph_is_not_that_input() {
    let (_rig, client, stream) = ONE.start();
    let handle = stream.create(&[1.0_f32; 8]).unwrap();
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [8]);
    let schedule = Schedule::create_one(&(&x + 1.0)).unwrap();
    let compiled = schedule.compile(&client).unwrap();
    let elsewhere = Graph::new().input("y", DType::F32, [8]);
    assert!(!compiled.run().takes(&elsewhere));
    let unknown = compiled.run().input(&elsewhere, &handle).submit(&stream);
    assert!(matches!(
        unknown,
        Err(ScheduleError::UnknownArgument { what: "input", .. })
    ));
    drop(x);
    let others: Vec<LazyBuffer> = (0..4).map(|_| graph.input("z", DType::F32, [8])).collect();
    assert!(!others.iter().any(|other| compiled.run().takes(other)));
    drop((schedule, compiled, others));
    assert!(graph.is_empty());
}

#[test]
fn unknown_input_name_is_refused() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [8]);
    let schedule = Schedule::create_one(&(&x + 1.0)).unwrap();
    assert_eq!(schedule.inputs().collect::<Vec<_>>(), ["x"]);
    assert!(schedule.input("x").is_ok());
    let missing = schedule.input("y");
    assert!(matches!(
        missing,
        Err(ScheduleError::UnknownArgument { what: "input", .. })
    ));
    assert_eq!(schedule.items()[0].kind(), ItemKind::Kernel);
}

#[test]
fn means_of_halves_are_summed_in_f32() {
    let (_rig, client, stream) = ONE.start();
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [100_000]);
    for dtype in [DType::F16, DType::Bf16] {
        let halves = x.cast(dtype);
        let roots = [
            &halves.mean(0),
            &halves.variance(0),
            &halves.normalize(0, 1e-8),
        ];
        let wide: Vec<LazyBuffer> = roots.iter().map(|root| root.cast(DType::F32)).collect();
        let wide: Vec<&LazyBuffer> = wide.iter().collect();
        let compiled = Schedule::create(&wide).unwrap().compile(&client).unwrap();
        let numbers: Vec<f32> = (0..100_000).map(|i| 2.0 + (i % 2) as f32).collect();
        let numbers = stream.create(&numbers).unwrap();
        let outputs = compiled.run().input(&x, &numbers).submit(&stream).unwrap();
        let read = |index: usize| outputs[index].read::<f32>(&stream).unwrap().wait().unwrap();
        assert_eq!((read(0), read(1)), (vec![2.5], vec![0.25]), "{dtype}");
        assert_eq!(read(2)[..2], [-1.0, 1.0], "{dtype}");
    }
}

#[test]
fn refused_operation_names_the_method_and_the_location() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [2, 3]);
    let whole = graph.input("whole", DType::I32, [2, 3]);
    let text = |refused: &LazyBuffer| refused.check().unwrap_err().to_string();
    let flat = x.reshape([6]);
    assert!(text(&LazyBuffer::cat([&x, &flat], 0)).contains("the ranks 2 and 1 differ"));
    let bools = graph.zeros(DType::Bool, [3]);
    assert!(text(&bools.cumsum(0)).starts_with("`cumsum` of bool"));
    assert!((&x << 1).error().is_some() && (bools >> true).error().is_some());
    for (name, refused) in [
        ("softmax", whole.softmax(0)),
        ("log_softmax", whole.log_softmax(0)),
        ("variance", whole.variance(0)),
        ("normalize", whole.normalize(0, 1e-5)),
    ] {
        let text = text(&refused);
        assert!(
            text.starts_with(&format!("`{name}` of i32 [2, 3]: i32 is not supported")),
            "{text}"
        );
        assert!(text.contains("hard_cases.rs"), "{text}");
    }
}

#[test]
fn buffer_is_realized_only_by_its_own_elements_or_bytes() {
    let (_rig, _, stream) = ONE.start();
    let graph = Graph::new();
    let sum = graph.input("x", DType::F32, [4]) + 1.0;
    let whole = stream.create(&[1_i32; 4]).unwrap();
    let refused = sum.realize(&whole).unwrap_err();
    assert!(
        matches!(refused, ScheduleError::Elements { .. }),
        "{refused}"
    );
    sum.realize(&whole.cast::<u8>().unwrap()).unwrap();
    assert!(sum.is_realized());
}

#[apply(every_device)]
fn take_with_indices_of_several_axes_inserts_these_axes(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let x = graph.iota(6).reshape([3, 2]);
    let at = graph.input("at", DType::I64, [2, 2]);
    let y = x.take(0, &at);
    assert_eq!(y.shape().known(), Some(vec![2, 2, 2]));
    let compiled = compile(&client, &y);
    let handle = stream.create(&[2_i64, 0, 7, 1]).unwrap();
    let outputs = compiled.run().input(&at, &handle).submit(&stream).unwrap();
    let got = outputs[0].read::<i64>(&stream).unwrap().wait().unwrap();
    assert_eq!(got, [4, 5, 0, 1, 0, 0, 2, 3]);
}

#[apply(every_device)]
fn u64_supports_integer_operations(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let x = graph.input("x", DType::U64, [2, 2]);
    let large = [u64::MAX, 1, 1 << 63, 3];
    let handle = stream.create(&large).unwrap();
    let roots = [
        x.sum(1),
        &x / 2,
        x.max(..),
        x.matmul_t(&x),
        x.cast(DType::I64).cast(DType::U64),
        x.greater(1_u64 << 62).cast(DType::U64),
    ];
    let all: Vec<&LazyBuffer> = roots.iter().collect();
    let compiled = Schedule::create(&all).unwrap().compile(&client).unwrap();
    let outputs = compiled.run().input(&x, &handle).submit(&stream).unwrap();
    let got = outputs
        .iter()
        .map(|it| it.read::<u64>(&stream).unwrap().wait().unwrap());
    let want = [
        vec![0, (1 << 63) + 3],
        large.map(|it| it / 2).to_vec(),
        vec![u64::MAX],
        vec![2, (1 << 63) + 3, (1 << 63) + 3, 9],
        large.to_vec(),
        vec![1, 0, 1, 0],
    ];
    assert_eq!(got.collect::<Vec<_>>(), want);
}
