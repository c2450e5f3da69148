//! Calls of SSA functions by graphs: on every kind of device, with lengths and values that change between runs.

use millstream::Kernel;
use millstream::graph::{Call, DType, Graph, GraphCache, Item, ItemKind, Schedule, Size};
use millstream::ir::ReduceOp;
use millstream::ir::ssa::{Builder, Function};
use rstest::rstest;
use rstest_reuse::apply;

use super::WITH_RUST_KERNELS;
use super::compile;
use super::every_device;
use super::support::On;

/// Returns a function that computes `to[i] = factor * from[i]` for `n` elements, with any number of threads.
pub(crate) fn scale() -> Function {
    let k = Builder::new("scale", [4, 1, 1]);
    let (from, to) = (k.read("from", DType::F32), k.write("to", DType::F32));
    let (factor, n) = (k.scalar("factor", DType::F32), k.scalar("n", DType::I64));
    k.range(k.index(), n, k.count(), |i| to.set(i, factor * from.get(i)));
    k.build().expect("the function is valid")
}

/// Returns a function that sums each row, with one cube for each row: each thread sums some elements, and the cube
/// reduces the sums.
fn row_sums() -> Function {
    let k = Builder::new("row_sums", [8, 1, 1]);
    let (from, to) = (k.read("from", DType::F32), k.write("to", DType::F32));
    let columns = k.scalar("columns", DType::I64);
    let sum = k.var("sum", 0.0_f32);
    k.range(k.thread(), columns, 8, |column| {
        sum.set(sum.get() + from.get(k.cube() * columns + column));
    });
    let all = sum.get().reduce(ReduceOp::Sum);
    k.when(k.thread().eq(0), || to.set(k.cube(), all));
    k.build().expect("the function is valid")
}

/// Returns a function that computes `counts[i] += by` for `n` elements.
fn count() -> Function {
    let k = Builder::new("count", [4, 1, 1]);
    let counts = k.update("counts", DType::F32);
    let (by, n) = (k.scalar("by", DType::F32), k.scalar("n", DType::I64));
    k.range(k.index(), n, k.count(), |i| {
        counts.set(i, counts.get(i) + by);
    });
    k.build().expect("the function is valid")
}

/// The calls are between kernels of the graph, with a length and a number that each run sets, and are compiled once.
#[apply(every_device)]
fn call_uses_the_lengths_and_scalars_of_each_run(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let t = graph.length("t", 50);
    let (factor, _) = graph.scalar("factor", DType::F32, 2.0);
    let x = graph.input("x", DType::F32, [4, 50]);
    let shifted = x.narrow(1, 0, &t) + 1.0;
    let scaled = Call::ssa(scale(), [3, 1, 1])
        .scalar(&factor)
        .scalar(Size::from(&t).times(&4.into()).unwrap())
        .make([&shifted], DType::F32, shifted.shape());
    let sums = Call::ssa(row_sums(), [4, 1, 1])
        .scalar(&t)
        .make([&scaled], DType::F32, [4]);
    let schedule = Schedule::create(&[&(&sums * 10.0), &scaled]).unwrap();
    let kinds: Vec<ItemKind> = schedule.items().iter().map(Item::kind).collect();
    let wanted = [
        ItemKind::Kernel,
        ItemKind::Ssa,
        ItemKind::Ssa,
        ItemKind::Kernel,
    ];
    assert_eq!(kinds, wanted, "{schedule}");
    let cache = GraphCache::default();
    let compiled = schedule.compile_with_cache(&client, &cache).unwrap();
    let before = cache.stats();
    for (turn, (t_now, by)) in [(50, 2.0_f32), (7, 2.0), (7, -1.5), (0, 1.0), (33, 0.25)]
        .into_iter()
        .enumerate()
    {
        let data: Vec<f32> = (0..200).map(|i| ((i * 7 + turn) % 16) as f32).collect();
        let handle = stream.create(&data).unwrap();
        let run = compiled.run().input(&x, &handle).length(&t, t_now);
        // The default is 2.
        let run = if by == 2.0 {
            run
        } else {
            run.scalar(&factor, by)
        };
        let outputs = run.submit(&stream).unwrap();
        let [got_sums, got_scaled] = [0, 1].map(|root| {
            let read = outputs[root].read::<f32>(&stream).unwrap();
            read.wait().unwrap()
        });
        let scaled: Vec<f32> = (0..4)
            .flat_map(|row| {
                data[row * 50..][..t_now as usize]
                    .iter()
                    .map(|x| (x + 1.0) * by)
            })
            .collect();
        let row = |row: usize| {
            scaled[row * t_now as usize..][..t_now as usize]
                .iter()
                .sum::<f32>()
        };
        assert_eq!(got_scaled, scaled, "turn {turn}");
        assert_eq!(
            got_sums,
            [0, 1, 2, 3].map(|index| 10.0 * row(index)),
            "turn {turn}"
        );
    }
    assert_eq!(cache.stats(), before, "nothing is compiled again");
}

/// I6: a function that updates a buffer of the caller runs once for each run, with the arguments of the run; readers of
/// both versions see their version.
#[apply(every_device)]
fn call_in_place_updates_the_buffer_once_in_each_run_i6(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let (step, _) = graph.scalar("step", DType::F32, 1.0);
    let n = graph.length("n", 9);
    let handle = stream.create(&[0.0_f32; 9]).unwrap();
    let counts = graph.buffer(&handle, [9]);
    let before = &counts * 1.0;
    let counted = Call::ssa(count(), [2, 1, 1]).scalar(&step).scalar(&n);
    let counted = counted.make_in_place([], &counts);
    let roots = [&before, &counted, &(&counted * 2.0)];
    let schedule = Schedule::create(&roots).unwrap();
    let compiled = schedule.compile(&client).unwrap();
    let mut want = [0.0_f32; 9];
    for (by, len) in [(1.0_f32, 9), (0.5, 4), (-2.0, 9), (8.0, 0)] {
        let run = compiled.run().scalar(&step, by).length(&n, len);
        let outputs = run.submit(&stream).unwrap();
        let read = |root: usize| outputs[root].read::<f32>(&stream).unwrap().wait().unwrap();
        assert_eq!(read(0), want, "{schedule}");
        want[..len as usize]
            .iter_mut()
            .for_each(|count| *count += by);
        assert_eq!(read(1), want, "{schedule}");
        assert_eq!(read(2), want.map(|count| 2.0 * count), "{schedule}");
        assert_eq!(stream.read(&handle).wait().unwrap(), want);
    }
}

/// Native kernels accept the scalars and lengths of a run too, if each has its own launch word.
#[test]
fn call_with_scalars_of_another_type_or_a_shared_word_is_refused() {
    let rig = WITH_RUST_KERNELS.open();
    let client = rig.client();
    let stream = client.new_stream();
    let graph = Graph::new();
    let t = graph.length("t", 4);
    let (by, _) = graph.scalar("by", DType::F32, 3.0);
    let x = graph.input("x", DType::F32, [4]);
    let add = Kernel::new("add")
        .reads::<f32>("from")
        .writes::<f32>("to")
        .scalar::<f32>("by")
        .scalar::<i64>("len")
        .native(|_, args| {
            let (by, len) = (args.scalar::<f32>(0), args.scalar::<i64>(1) as usize);
            let from = args.read::<f32>(0);
            for (index, to) in args.chunk::<f32>(1).iter_mut().enumerate() {
                *to = from[index] + if index < len { by } else { 0.0 };
            }
        });
    let sum = Call::new(add, [1, 1, 1]).scalar(&by).scalar(&t);
    let sum = sum.make([&x], DType::F32, [4]);
    let compiled = compile(&client, &sum);
    let handle = stream.create(&[1.0_f32; 4]).unwrap();
    for (value, len) in [(3.0_f32, 4), (10.0, 1)] {
        let run = compiled.run().input(&x, &handle).length(&t, len);
        let outputs = run.scalar(&by, value).submit(&stream).unwrap();
        let got = outputs[0].read::<f32>(&stream).unwrap().wait().unwrap();
        let want = [0, 1, 2, 3].map(|i| if i < len { 1.0 + value } else { 1.0 });
        assert_eq!(got, want);
    }
    let scale = || Call::ssa(scale(), [1, 1, 1]);
    let (whole, _) = graph.scalar("whole", DType::I64, 3);
    let refused = [
        scale().scalar(&whole).scalar(4),
        scale().scalar(1.0).scalar(&by),
        scale().scalar(&t).scalar(4),
    ];
    for call in refused {
        let refused = call.make([&x], DType::F32, [4]);
        let text = refused.check().unwrap_err().to_string();
        assert!(text.contains("the scalar must be "), "{text}");
    }
    let packs = Kernel::new("packs")
        .reads::<f32>("from")
        .writes::<f32>("to")
        .scalar::<f32>("a")
        .scalar::<f32>("b")
        .native(|_, _| {});
    let same = Call::new(packs.clone(), [1, 1, 1]).scalar(1.0).scalar(2.0);
    assert!(same.make([&x], DType::F32, [4]).check().is_ok());
    let changes = Call::new(packs, [1, 1, 1]).scalar(1.0).scalar(&by);
    let changes = changes.make([&x], DType::F32, [4]);
    let text = changes.check().unwrap_err().to_string();
    assert!(
        text.contains("packs `b` into eight bytes with another"),
        "{text}"
    );
}

/// As with `set`, a reshaped buffer is not the buffer. Readers of an old version see that version.
#[apply(every_device)]
fn call_in_place_updates_the_buffer_and_no_reshape_of_it_i6(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let handle = stream.create(&[1.0_f32; 9]).unwrap();
    let counts = graph.buffer(&handle, [9]);
    let before = &counts * 1.0;
    let square = counts.reshape([3, 3]);
    let counted = Call::ssa(count(), [2, 1, 1]).scalar(0.5).scalar(9);
    let counted = counted.make_in_place([], &counts);
    // The reshaped old version, in a buffer of its own.
    let squared = Call::ssa(count(), [2, 1, 1]).scalar(2.0).scalar(9);
    let squared = squared.make_in_place([], &square);
    let after = &counted * 2.0;
    // For a computed value it updates the value's own buffer.
    let made = (&counts * 4.0).reshape([3, 3]);
    let moved = Call::ssa(count(), [2, 1, 1]).scalar(1.0).scalar(9);
    let moved = moved.make_in_place([], &made);
    let roots = [&before, &counted, &after, &moved, &(&made + 0.0), &squared];
    let schedule = Schedule::create(&roots).unwrap();
    let compiled = schedule.compile(&client).unwrap();
    for turn in 0..3 {
        let outputs = compiled.run().submit(&stream).unwrap();
        let read = |root: usize| outputs[root].read::<f32>(&stream).unwrap().wait().unwrap();
        let old = 1.0 + 0.5 * turn as f32;
        let got = [0, 1, 2, 3, 4, 5].map(read);
        let want = [
            old,
            old + 0.5,
            2.0 * (old + 0.5),
            4.0 * old + 1.0,
            4.0 * old,
            old + 2.0,
        ];
        let want = want.map(|x| vec![x; 9]);
        assert_eq!(got, want, "turn {turn}\n{schedule}");
        assert_eq!(stream.read(&handle).wait().unwrap(), want[1], "turn {turn}");
    }
}
