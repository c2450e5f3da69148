//! Values over the same rows or elements of the same buffers: one kernel computes them, and reads the buffers once.
//! `named.jsonl` of the fuzzer has the values of such groups.

use millstream::graph::{DType, Graph, LazyBuffer, Outputs, Schedule};
use rstest::rstest;
use rstest_reuse::apply;

use super::every_device;
use super::failures::values;
use super::support::On;

/// Returns the number of tasks of a run of these roots, and the number of bytes of the buffers of its tasks, each
/// buffer once for each task.
fn cost(on: On, roots: &[&LazyBuffer]) -> (usize, u64) {
    let schedule = Schedule::create(roots).unwrap();
    let rig = on.open();
    let compiled = schedule.compile(&rig.client()).unwrap();
    let report = compiled.report(&[]);
    let bytes = report.items.iter().map(|item| item.bytes).sum();
    (compiled.tasks(), bytes)
}

#[apply(every_device)]
fn values_of_one_input_are_one_task_that_reads_it_once(on: On) {
    let graph = Graph::new();
    let (elements, rows) = (40 * 72, 40);
    let [x, y] = ["x", "y"].map(|name| graph.input(name, DType::F32, [40, 72]));
    for (axes, results) in [(&[1][..], 40), (&[0][..], 72), (&[0, 1][..], 1)] {
        let roots = [&x.sum(axes), &x.max(axes), &(&x * &x).sum(axes)];
        let bytes = 4 * (elements + 3 * results);
        assert_eq!(cost(on, &roots), (1, bytes), "{axes:?}");
    }
    let elementwise = [&(&x * &y).exp(), &(&x + &y), &x.less(&y)];
    assert_eq!(cost(on, &elementwise), (1, elements * (2 * 4 + 4 + 4 + 1)));
    // One kernel walks each row twice.
    let mean = x.mean(-1);
    let variance = (&x - &mean).square().sum(-1);
    assert_eq!(
        cost(on, &[&mean, &variance]),
        (1, 4 * (elements + 2 * rows))
    );
    // The last root reads the powers, and reduces an axis that they have not been reduced over.
    let max = x.max(1);
    let powers = (&x - &max).exp();
    let (tasks, bytes) = cost(on, &[&max, &powers, &-&powers, &powers.sum(1)]);
    assert!(
        tasks <= 3 && bytes <= 4 * (5 * elements + 3 * rows),
        "{tasks} {bytes}"
    );
    for dtype in [DType::F16, DType::Bf16, DType::F64, DType::I32, DType::U8] {
        let x = graph.input("x", dtype, [5, 70]);
        let least = x.cast(DType::F32).min(1);
        let roots = [&x.sum(1), &x.argmax(1), &least, &x.greater(x.min(0))];
        assert_eq!(cost(on, &roots).0, 2, "{dtype:?}: rows, and columns");
    }
}

#[apply(every_device)]
fn groups_have_at_most_eight_buffers_and_none_is_merged_over_a_product(on: On) {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [16, 16]);
    let schedule = |roots: &[&LazyBuffer]| Schedule::create(roots).unwrap();
    // Two groups need the product, and one of them depends on the other through it.
    let first = x.exp();
    let between = first.matmul(&x);
    let groups = schedule(&[&first, &(&x + &between), &(&x * &between)]);
    assert_eq!(groups.items().len(), 3, "{groups}");
    // Seven outputs and the input for each task.
    let power = |of: usize| (0..of).fold(x.clone(), |power, _| power * &x);
    let sums: Vec<LazyBuffer> = (0..16).map(|of| power(of).sum(1)).collect();
    let sums = schedule(&sums.iter().collect::<Vec<_>>());
    assert_eq!(sums.items().len(), 3, "{sums}");
    // The products force the elementwise results into buffers; one takes the memory of a temporary.
    let product = x.matmul(&x);
    let reused = schedule(&[&(&product * &product).matmul(&x), &(-&product).matmul(&x)]);
    assert_eq!(reused.items().len(), 4, "{reused}");
    let (_rig, client, _stream) = on.start();
    let compiled = reused.compile(&client).unwrap();
    assert!(compiled.temporary_bytes() <= 2 * 16 * 16 * 4, "{reused}");
}

#[apply(every_device)]
fn value_computed_from_a_stored_half_uses_the_rounded_half(on: On) {
    let (_rig, client, stream) = on.start();
    for dtype in [DType::F16, DType::Bf16] {
        let graph = Graph::new();
        let x = graph.input("x", dtype, [64]);
        let third = &x / 3.0;
        let back = third.cast(DType::F32) * 3.0;
        let schedule = Schedule::create(&[&third, &back]).unwrap();
        assert_eq!(schedule.items().len(), 1, "{schedule}");
        let rounded = Schedule::create_one(&(x.cast(DType::F32) * 3.0)).unwrap();
        let one = match dtype {
            DType::F16 => 0x3c00_u16,
            _ => 0x3f80,
        };
        let ones = [one; 64];
        let bytes: Vec<u8> = ones.iter().flat_map(|one| one.to_le_bytes()).collect();
        let ones = stream.create(&bytes).unwrap();
        let run = schedule.compile(&client).unwrap();
        let made = run.run().input(&x, &ones).submit(&stream).unwrap();
        // The same computation, from the stored halves.
        let run = rounded.compile(&client).unwrap();
        let again = run
            .run()
            .input(&x, made[0].bytes())
            .submit(&stream)
            .unwrap();
        let values = |outputs: &Outputs, root| values(outputs, root, &stream).unwrap();
        assert_eq!(values(&made, 1), values(&again, 0), "{dtype:?}");
        assert_ne!(values(&made, 1), [1.0; 64], "{dtype:?}");
    }
}

#[test]
fn texts_list_all_outputs_of_an_item() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [4, 8]);
    let schedule = Schedule::create(&[&x.sum(-1), &x.max(-1)]).unwrap();
    let text = schedule.to_string();
    let line = "t0 f32 [4, 1], t1 f32 [4, 1]  (x, t0, t1)  b1 = sum(b0); b2 = max(b0)";
    assert!(text.contains(line), "{text}");
    let dot = schedule.dot();
    assert!(dot.contains("f32 [4, 1]\\n"), "{dot}");
}
