//! Gradients, compared with finite differences for every operation, and at corners of functions.

use millstream::graph::{Call, DType, Graph, LazyBuffer, Schedule, Size};
use millstream::ir::UnaryOp;
use millstream::ir::ssa::Builder;
use millstream::{ComputeClient, Stream};
use rstest::rstest;
use rstest_reuse::apply;

use super::compile;
use super::every_device;
use super::support::On;
use super::{ONE, compiles_slowly};

/// The step to each side of a finite difference.
const STEP: f64 = 1e-5;

type Function<'a> = &'a dyn Fn(&[LazyBuffer]) -> LazyBuffer;
/// A function with its name.
type Named = (&'static str, fn(&[LazyBuffer]) -> LazyBuffer);

/// Returns distinct positive numbers away from corners.
fn numbers(count: usize, salt: usize) -> Vec<f64> {
    let number = |at: usize| 0.3 + ((at * 7 + salt * 5) % 31) as f64 / 13.0;
    (0..count).map(number).collect()
}

/// Returns a weighted sum of the results of a function; each element has its own weight.
fn loss(
    graph: &Graph,
    stream: &Stream,
    shapes: &[&[usize]],
    data: &[Vec<f64>],
    of: Function,
) -> (Vec<LazyBuffer>, LazyBuffer) {
    let buffers = shapes.iter().zip(data);
    let inputs: Vec<LazyBuffer> = buffers
        .map(|(shape, data)| graph.buffer(&stream.create(data).unwrap(), shape.to_vec()))
        .collect();
    let made = of(&inputs);
    made.check().unwrap();
    let weight = (graph.iota(made.shape().elements().unwrap()) % 5 + 1).cast(DType::F64);
    let loss = (&made * weight.reshape(made.shape())).sum(..);
    (inputs, loss)
}

fn value(loss: &LazyBuffer, stream: &Stream) -> f64 {
    loss.eval(stream).unwrap().values::<f64>().unwrap()[0]
}

fn check(client: &ComputeClient, name: &str, shapes: &[&[usize]], of: Function) {
    let stream = client.new_stream();
    let data: Vec<Vec<f64>> = shapes
        .iter()
        .enumerate()
        .map(|(salt, shape)| numbers(shape.iter().product(), salt))
        .collect();
    let graph = Graph::new();
    let (inputs, y) = loss(&graph, &stream, shapes, &data, of);
    let wanted: Vec<&LazyBuffer> = inputs.iter().collect();
    let gradients = y.grad_all(&wanted);
    for (at, gradient) in gradients.iter().enumerate() {
        let got = gradient
            .eval(&stream)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(gradient.shape(), inputs[at].shape(), "{name}");
        for (place, got) in got.values::<f64>().unwrap().into_iter().enumerate() {
            let moved = |by: f64| {
                let mut data = data.clone();
                data[at][place] += by;
                value(&loss(&Graph::new(), &stream, shapes, &data, of).1, &stream)
            };
            let want = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            let near = 1e-6 * (1.0 + want.abs() + got.abs());
            assert!(
                (got - want).abs() < near,
                "{name}, input {at}, element {place}: expected {want}, got {got}"
            );
        }
    }
}

/// Maps numbers between 0 and 3 to the domain of an operation.
fn within([least, most]: [f64; 2], x: &LazyBuffer) -> LazyBuffer {
    match (least.is_finite(), most.is_finite()) {
        (true, true) => x * ((most - least) / 3.0) + least,
        (true, false) => x + least,
        _ => x.clone(),
    }
}

#[test]
fn gradient_of_each_operation_agrees_with_its_finite_difference() {
    // Gradients are the same graphs on every device, and each of their operations has tests on each device.
    if compiles_slowly(ONE) {
        return;
    }
    let rig = ONE.open();
    let client = rig.client();
    let ops = UnaryOp::ALL.iter().filter(|op| op.takes(DType::F64));
    for op in ops {
        check(&client, op.name(), &[&[3, 4]], &|x| {
            within(op.domain(), &x[0]).unary(*op)
        });
    }
    let one: [Named; 26] = [
        ("abs", |x| (&x[0] - 1.13).abs()),
        ("square", |x| x[0].square()),
        ("recip", |x| x[0].recip()),
        ("relu", |x| (&x[0] - 1.13).relu()),
        ("clamp", |x| x[0].clamp(0.71, 1.93)),
        ("sigmoid", |x| x[0].sigmoid()),
        ("silu", |x| x[0].silu()),
        ("gelu", |x| x[0].gelu()),
        ("gelu_tanh", |x| x[0].gelu_tanh()),
        ("log1p", |x| x[0].log1p()),
        ("expm1", |x| x[0].expm1()),
        ("remainder", |x| &x[0] % 0.77),
        ("sum", |x| x[0].sum(0)),
        ("product", |x| x[0].product(1)),
        ("max", |x| x[0].max(0)),
        ("min", |x| x[0].min(..)),
        ("mean", |x| x[0].mean(1)),
        ("variance", |x| x[0].variance(1)),
        ("softmax", |x| x[0].softmax(-1)),
        ("log_softmax", |x| x[0].log_softmax(0)),
        ("normalize", |x| x[0].normalize(-1, 1e-5)),
        ("cumsum", |x| x[0].cumsum(1)),
        ("views", |x| {
            x[0].t()
                .narrow(0, 1, 2)
                .reshape([6])
                .unsqueeze(0)
                .broadcast_to([2, 6])
        }),
        ("moves", |x| {
            x[0].roll(1, 1) * x[0].flip(0) + x[0].repeat(0, 2).narrow(0, 1, 3)
        }),
        ("pad", |x| x[0].pad(1, 1, 2, 7.0).square()),
        ("used twice", |x| &x[0] * x[0].sum(0) + x[0].exp()),
    ];
    for (name, of) in one {
        check(&client, name, &[&[3, 4]], &of);
    }
    let two: [Named; 15] = [
        ("add", |x| &x[0] + &x[1]),
        ("sub", |x| &x[0] - &x[1]),
        ("mul", |x| &x[0] * &x[1]),
        ("div", |x| &x[0] / &x[1]),
        ("pow", |x| x[0].pow(&x[1])),
        ("atan2", |x| (&x[0] - 1.27).atan2(&x[1] - 1.31)),
        ("minimum", |x| x[0].minimum(&x[1])),
        ("maximum", |x| x[0].maximum(&x[1])),
        ("select", |x| {
            x[0].less(&x[1]).select(x[0].square(), &x[1] * 3.0)
        }),
        ("cat", |x| {
            LazyBuffer::cat([&x[0], &x[1], &x[0]], 0).square()
        }),
        ("stack", |x| LazyBuffer::stack([&x[0], &x[1]], 1).exp()),
        ("set", |x| (&x[0] * 1.0).set(&x[1].square())),
        ("set_rows", |x| {
            (&x[0] * 2.0).set_rows(0, 1, &x[1].narrow(0, 0, 2)).square()
        }),
        ("set_layout", |x| {
            let strides = vec![Size::from(5), Size::from(2)];
            let layout = millstream::graph::Layout {
                offset: Size::from(1),
                strides,
            };
            (&x[0] * 2.0)
                .set_layout(&x[1].narrow(0, 0, 2).narrow(1, 0, 2), layout)
                .square()
        }),
        ("matmul_t", |x| x[0].matmul_t(&x[1]).square()),
    ];
    for (name, of) in two {
        check(&client, name, &[&[3, 4], &[3, 4]], &of);
    }
    check(&client, "broadcast", &[&[3, 1], &[4]], &|x| &x[0] * &x[1]);
    check(&client, "matmul", &[&[2, 3, 4], &[4, 5]], &|x| {
        x[0].matmul(&x[1]).sin()
    });
    check(&client, "einsum", &[&[2, 3, 4], &[2, 4]], &|x| {
        LazyBuffer::einsum("bij,bj->ib", [&x[0], &x[1]]).square()
    });
}

#[test]
fn gradient_of_gather_and_scatter_follows_the_indices() {
    let rig = ONE.open();
    let client = rig.client();
    // 1, 0, 5 (out of range), 1, 2, 0 ..: some places occur several times.
    fn index(x: &LazyBuffer, rows: i64) -> LazyBuffer {
        let graph = x.graph().unwrap();
        let flat = graph.iota(rows * 4) * 5 % 7 - 1;
        flat.reshape([rows, 4])
    }
    check(&client, "gather", &[&[3, 4]], &|x| {
        x[0].gather(0, &index(&x[0], 2)).square()
    });
    check(&client, "take", &[&[3, 4]], &|x| {
        let graph = x[0].graph().unwrap();
        x[0].take(0, &(graph.iota(5) * 2 % 4)).square()
    });
    check(&client, "scatter_add", &[&[3, 4], &[2, 4]], &|x| {
        x[0].scatter_add(0, &index(&x[0], 2), &x[1]).square()
    });
    check(&client, "scatter", &[&[3, 4], &[6, 4]], &|x| {
        let long = LazyBuffer::cat([&x[0], &x[0]], 0);
        (long * 2.0).scatter(0, &index(&x[1], 6), &x[1]).square()
    });
}

#[apply(every_device)]
fn gradient_of_f32_is_equal_on_every_device(on: On) {
    let (_rig, _, stream) = on.start();
    let graph = Graph::new();
    let x = graph.buffer(
        &stream.create(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap(),
        [2, 3],
    );
    let w = graph.buffer(&stream.create(&[0.5_f32, -1.0, 2.0]).unwrap(), [3, 1]);
    let loss = x.matmul(&w).square().sum(..);
    // 2 x^T (x w).
    let [dw, dx] = loss.grad([&w, &x]);
    let values = |buffer: &LazyBuffer| buffer.eval(&stream).unwrap().values::<f32>().unwrap();
    assert_eq!(values(&dw), [81.0, 108.0, 135.0]);
    assert_eq!(values(&dx), [4.5, -9.0, 18.0, 9.0, -18.0, 36.0]);
}

#[test]
fn gradient_passes_casts_and_intermediate_values_and_stops_at_detach() {
    let (_rig, _, stream) = ONE.start();
    let graph = Graph::new();
    let x = graph.buffer(&stream.create(&[0.0_f32, 2.0, 2.0, -1.0]).unwrap(), [4]);
    let values = |buffer: &LazyBuffer| buffer.eval(&stream).unwrap().values::<f32>().unwrap();
    let grad = |y: LazyBuffer| values(&y.grad([&x])[0]);
    assert_eq!(grad(x.detach() * &x), [0.0, 2.0, 2.0, -1.0]);
    assert_eq!(
        grad(x.cast(DType::F64).square().cast(DType::F32)),
        [0.0, 4.0, 4.0, -2.0]
    );
    // By an intermediate value.
    let middle = &x * 3.0;
    let [by_middle, by_x] = middle.square().grad([&middle, &x]);
    assert_eq!(values(&by_middle), [0.0, 12.0, 12.0, -6.0]);
    assert_eq!(values(&by_x), [0.0, 36.0, 36.0, -18.0]);
    let half = x.cast(DType::F16);
    let [dhalf] = half.take(0, &graph.zeros(DType::I64, [2])).grad([&half]);
    assert_eq!(
        dhalf
            .cast(DType::F32)
            .eval(&stream)
            .unwrap()
            .values::<f32>()
            .unwrap(),
        [2.0, 0.0, 0.0, 0.0]
    );
}

/// A gradient of zeros is no error, so these are the mistakes that `grad` documents.
#[test]
fn gradient_by_a_buffer_that_the_result_does_not_use_is_zero() {
    let (_rig, _, stream) = ONE.start();
    let graph = Graph::new();
    let buffer = |values: &[f32]| {
        let len = values.len();
        graph.buffer(&stream.create(values).unwrap(), [len])
    };
    let (w, unused) = (buffer(&[1.0, 2.0]), buffer(&[5.0]));
    let values = |buffer: &LazyBuffer| buffer.eval(&stream).unwrap().values::<f32>().unwrap();
    let grad = |loss: LazyBuffer, by: &LazyBuffer| values(&loss.grad([by])[0]);
    assert_eq!(grad(w.square(), &w), [2.0, 4.0]);
    assert_eq!(grad(w.square(), &unused), [0.0]);
    let (view, same) = (w.reshape([1, 2]), w.cast(DType::F64));
    assert_eq!(grad(w.square(), &view), [0.0; 2], "a view made beside it");
    let of_cast = w.square().grad([&same])[0].cast(DType::F32);
    assert_eq!(values(&of_cast), [0.0; 2], "a cast made beside it");
    assert_eq!(grad(w.detach().square(), &w), [0.0; 2]);
    let whole = w.cast(DType::I32).cast(DType::F32);
    assert_eq!(grad(whole, &w), [0.0; 2], "through integers");
    let stored = w.set(&buffer(&[3.0, 4.0]));
    assert_eq!(grad(stored.square(), &w), [0.0; 2], "an earlier version");
    assert_eq!(grad(stored.square(), &stored), [6.0, 8.0]);
    let loss = Schedule::create_one(&w.square()).unwrap();
    assert!(loss.takes(&w) && !loss.takes(&unused));
}

#[test]
fn gradient_by_integers_other_graphs_or_through_calls_is_refused() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [4]);
    let whole = graph.input("whole", DType::I32, [4]);
    let text = |refused: &LazyBuffer| refused.check().unwrap_err().to_string();
    let [refused] = (&x * 2.0).grad([&whole]);
    assert!(
        text(&refused).starts_with("`grad` of i32 [4]: i32 is not supported"),
        "{}",
        text(&refused)
    );
    assert!(text(&refused).contains("gradients.rs"));
    let [refused] = x.grad([&Graph::new().input("other", DType::F32, [4])]);
    assert!(text(&refused).contains("different graphs"));
    let k = Builder::new("double", [4, 1, 1]);
    let (a, b) = (k.read("a", DType::F32), k.write("b", DType::F32));
    let at = k.index();
    b.set(at, a.get(at) + a.get(at));
    let double = Call::ssa(k.build().unwrap(), [1, 1, 1]).make([&x], DType::F32, [4]);
    let [refused] = double.grad([&x]);
    assert!(text(&refused).contains("kernel `double` has no gradient"));
    let [known] = (double.detach() * &x).grad([&x]);
    known.check().unwrap();
}

/// Traversals are iterative: a long chain needs no stack, and its gradient is scheduled in linear time.
#[test]
fn gradient_of_a_chain_of_20_000_operations_needs_no_stack() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [4]);
    let mut y = x.clone();
    for _ in 0..20_000 {
        y = y.sin();
    }
    let [dx] = y.grad([&x]);
    dx.check().unwrap();
    drop((y, dx));
    assert_eq!(graph.len(), 1);
}

#[test]
fn gradient_over_a_symbolic_length_is_right_for_each_length() {
    let (_rig, client, stream) = ONE.start();
    let graph = Graph::new();
    let n = graph.length("n", 5);
    let x = graph.input("x", DType::F32, [Size::from(&n), Size::from(2)]);
    let y = LazyBuffer::cat([&x, &x.square()], 0).mean(0).square();
    let [dx] = y.grad([&x]);
    let compiled = compile(&client, &dx);
    let handle = stream.create(&[1.0_f32; 10]).unwrap();
    for length in [1_u64, 3, 5] {
        let outputs = compiled
            .run()
            .input(&x, &handle)
            .length(&n, length)
            .submit(&stream)
            .unwrap();
        let got = outputs[0].read::<f32>(&stream).unwrap().wait().unwrap();
        // The mean of 2 n ones is 1: 2 * 1 * (1 + 2) / (2 n).
        let want = 3.0 / length as f32;
        assert_eq!(got.len(), 2 * length as usize);
        assert!(
            got.iter().all(|it| (it - want).abs() < 1e-6),
            "expected {want}, got {got:?}"
        );
    }
}
