//! What schedules consist of: which nodes are fused, and the order of items.

use millstream_graph::{DType, Graph, Item, ItemKind, LazyBuffer, Schedule};

fn show(roots: &[&LazyBuffer]) -> Schedule {
    let schedule = Schedule::create(roots).expect("the roots are valid");
    println!("{schedule}");
    for item in schedule.items() {
        if let Some(program) = item.program() {
            program.check().expect("the program is valid");
            println!("{program:?}");
        }
    }
    schedule
}

fn kinds(schedule: &Schedule) -> Vec<ItemKind> {
    schedule.items().iter().map(Item::kind).collect()
}

#[test]
fn elementwise_expression_is_one_kernel() {
    let graph = Graph::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| graph.input(name, DType::F32, [4, 256]));
    let y = (&a * &b + &c).exp();
    assert_eq!(kinds(&show(&[&y])), [ItemKind::Kernel]);
}

#[test]
fn softmax_and_layer_norm_are_one_kernel_each() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [64, 128]);
    assert_eq!(kinds(&show(&[&x.softmax(-1)])), [ItemKind::Kernel]);
    assert_eq!(kinds(&show(&[&x.normalize(-1, 1e-5)])), [ItemKind::Kernel]);
    assert_eq!(kinds(&show(&[&x.softmax(0)])), [ItemKind::Kernel]);
    assert_eq!(kinds(&show(&[&x.argmax(1)])), [ItemKind::Kernel]);
}

#[test]
fn layer_is_a_product_with_its_epilogue() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [64, 784]);
    let w = graph.input("w", DType::F32, [784, 512]);
    let b = graph.input("b", DType::F32, [512]);
    let y = (x.matmul(&w) + &b).relu();
    assert_eq!(kinds(&show(&[&y])), [ItemKind::Matmul]);
    let h = y.matmul_t(&w);
    assert_eq!(kinds(&show(&[&h])), [ItemKind::Matmul, ItemKind::Matmul]);
}

#[test]
fn attention_can_be_scheduled() {
    let graph = Graph::new();
    let t = graph.length("t", 128);
    let q = graph.input("q", DType::F32, [1, 4 * 16]);
    let k = graph.input("k", DType::F32, [128, 4 * 16]);
    let v = graph.input("v", DType::F32, [128, 4 * 16]);
    let heads = |x: &LazyBuffer| x.split_axis(1, [4, 16]).permute([1, 0, 2]);
    let k = k.narrow(0, 0, &t);
    let v = v.narrow(0, 0, &t);
    let scores = heads(&q).matmul_t(&heads(&k)) * 0.25;
    let out = scores.softmax(-1).matmul(&heads(&v));
    let out = out.permute([1, 0, 2]).merge_axes(1, 2);
    show(&[&out]);
}

#[test]
fn set_is_in_place_and_readers_of_both_versions_need_a_copy() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [8, 8]);
    assert_eq!(kinds(&show(&[&x.set(&(&x * 2.0))])), [ItemKind::Set]);
    assert_eq!(kinds(&show(&[&x.set(&x)])), []);
    assert_eq!(
        kinds(&show(&[&x.set(&x.t())])),
        [ItemKind::Kernel, ItemKind::Set]
    );
    let new = x.set(&(&x * 2.0));
    let both = &x + &new;
    assert_eq!(
        kinds(&show(&[&both])),
        [ItemKind::Copy, ItemKind::Set, ItemKind::Kernel]
    );
    let before = &x * 3.0;
    assert_eq!(
        kinds(&show(&[&new, &before])),
        [ItemKind::Kernel, ItemKind::Set]
    );
}

#[test]
fn cat_scatter_gather_and_random_can_be_scheduled() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [4, 8]);
    let y = graph.input("y", DType::F32, [4, 3]);
    show(&[&LazyBuffer::cat([&(&x * 2.0), &y], 1)]);
    let i = graph.input("i", DType::I64, [5]);
    show(&[&x.take(0, &i)]);
    show(&[&x.scatter_add(
        0,
        &i.reshape([5, 1]).broadcast_to([5, 8]),
        &graph.full(DType::F32, [5, 8], 1.0),
    )]);
    show(&[&graph.uniform([100], 7).1]);
}

#[test]
fn chain_of_100_000_operations_is_scheduled_and_dropped() {
    let graph = Graph::new();
    let mut x = graph.input("x", DType::F32, [64]);
    for _ in 0..100_000 {
        x = x + 1.0;
    }
    let start = std::time::Instant::now();
    let schedule = Schedule::create_one(&x).unwrap();
    println!("{} items, {:?}", schedule.items().len(), start.elapsed());
    drop(schedule);
    drop(x);
    assert!(graph.is_empty());
}
