//! Composed functions, and the evaluation of an expression in one call.

use millstream::Stream;
use millstream::graph::{DType, Graph, LazyBuffer, Over, Schedule, Size};
use millstream::ir::UnaryOp;
use millstream::ir::scalar::{self, Number};
use rstest::rstest;
use rstest_reuse::apply;

use super::ONE;
use super::compile;
use super::every_device;
use super::support::On;

fn values(buffer: &LazyBuffer, stream: &Stream) -> Vec<f64> {
    let wide = buffer.cast(DType::F64);
    wide.eval(stream).unwrap().values::<f64>().unwrap()
}

const ODD: [f64; 17] = [
    0.5,
    1.5,
    2.5,
    -0.5,
    -1.5,
    -2.5,
    0.49,
    -0.51,
    7.0,
    1e-9,
    -1e-9,
    1e-300,
    40.0,
    800.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// So a new operation needs no test of its own.
#[apply(every_device)]
fn every_operation_of_one_value_agrees_with_its_definition(on: On) {
    const COUNT: u64 = 111;
    let (_rig, client, stream) = on.start();
    for dtype in DType::ALL {
        let (wide, size) = (dtype.computed(), dtype.size());
        let bits = |at: u64| match dtype {
            DType::Bool => at % 2,
            _ if dtype.is_float() => Number::Float((at as f64 * 0.618) % 4.0 - 2.0).bits(dtype),
            _ => at.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        let bytes = (0..COUNT).flat_map(|at| bits(at).to_le_bytes().into_iter().take(size));
        let bytes: Vec<u8> = bytes.collect();
        let load = |bytes: &[u8]| -> Vec<Number> {
            let elements = bytes.chunks_exact(size);
            elements.map(|bytes| Number::load(dtype, bytes)).collect()
        };
        let x = Graph::new().input("x", dtype, [COUNT]);
        if x.check().is_err() {
            // A type that is only stored.
            continue;
        }
        let ops = UnaryOp::ALL.into_iter().filter(|op| op.takes(wide));
        let ops: Vec<UnaryOp> = ops.collect();
        let roots: Vec<LazyBuffer> = ops.iter().map(|op| x.unary(*op)).collect();
        let schedule = Schedule::create(&roots.iter().collect::<Vec<_>>()).unwrap();
        let compiled = schedule.compile(&client).unwrap();
        let handle = stream.create(&bytes).unwrap();
        let outputs = compiled.run().input(&x, &handle).submit(&stream).unwrap();
        for (op, output) in ops.iter().zip(outputs.iter()) {
            let of = scalar::unary(*op, wide).unwrap();
            let stored = scalar::cast(wide, dtype);
            let got = load(&stream.read(output.bytes()).wait().unwrap());
            for (got, x) in got.into_iter().zip(load(&bytes)) {
                let want = Number::of(dtype, stored(of(x.bits(wide))));
                let same = match (got, want) {
                    (Number::Float(got), Number::Float(want)) => {
                        let error = match dtype {
                            DType::F64 => 1e-12,
                            DType::F32 => 1e-5,
                            _ => 1e-2,
                        };
                        got.is_nan() && want.is_nan()
                            || (got - want).abs() <= error * (want.abs() + 0.5)
                    }
                    (got, want) => got == want,
                };
                assert!(
                    same,
                    "{op} of {x:?}, {dtype}: expected {want:?}, got {got:?}"
                );
            }
        }
    }
}

#[apply(every_device)]
fn elementary_functions_agree_with_the_standard_library(on: On) {
    let (_rig, _, stream) = on.start();
    let graph = Graph::new();
    let x = graph.buffer(&stream.create(&ODD).unwrap(), [ODD.len()]);
    type Case = (&'static str, fn(&LazyBuffer) -> LazyBuffer, fn(f64) -> f64);
    let all: [Case; 4] = [
        ("round", LazyBuffer::round, f64::round_ties_even),
        ("log1p", LazyBuffer::log1p, f64::ln_1p),
        ("expm1", LazyBuffer::expm1, f64::exp_m1),
        ("sign", LazyBuffer::sign, |x| match x {
            _ if x > 0.0 => 1.0,
            _ if x < 0.0 => -1.0,
            x => x,
        }),
    ];
    for (name, of, want) in all {
        for (got, x) in values(&of(&x), &stream).into_iter().zip(ODD) {
            let want = want(x);
            let same = got == want
                || got.is_nan() && want.is_nan()
                || (got - want).abs() <= 8.0 * f64::EPSILON * want.abs();
            assert!(same, "{name} of {x}: expected {want}, got {got}");
        }
    }
    let nan = x.is_nan().eval(&stream).unwrap().values::<u8>().unwrap();
    assert_eq!(nan.iter().map(|it| usize::from(*it)).sum::<usize>(), 1);
    let whole = graph.buffer(&stream.create(&[3_i32, -4, 0]).unwrap(), [3]);
    assert_eq!(values(&whole.round(), &stream), [3.0, -4.0, 0.0]);
    assert_eq!(values(&whole.sign(), &stream), [1.0, -1.0, 0.0]);
    assert_eq!(
        values(&whole.cast(DType::U32).sign(), &stream),
        [1.0, 1.0, 0.0]
    );
    assert_eq!(values(&whole.any(0), &stream), [1.0]);
    assert_eq!(values(&whole.all(0), &stream), [0.0]);
    let none = graph.zeros(DType::Bool, [0]);
    assert_eq!(
        (values(&none.any(0), &stream), values(&none.all(0), &stream)),
        (vec![0.0], vec![1.0])
    );
}

#[apply(every_device)]
fn rounding_to_zero_keeps_the_sign(on: On) {
    let (_rig, _, stream) = on.start();
    let graph = Graph::new();
    let numbers: [f64; 6] = [-0.3, 0.3, -0.5, 0.5, -0.0, 0.0];
    let x = graph.buffer(&stream.create(&numbers).unwrap(), [6]);
    for dtype in [DType::F64, DType::F32, DType::F16, DType::Bf16] {
        let x = x.cast(dtype);
        for (name, y) in [("round", x.round()), ("rem", (&x * 4.0).round() % 1.0)] {
            for (got, x) in values(&y, &stream).into_iter().zip(numbers) {
                assert_eq!(got, 0.0, "{name} of {x}, {dtype}");
                let is_same = got.is_sign_negative() == x.is_sign_negative();
                assert!(is_same, "{name} of {x}, {dtype}: {got:?}");
            }
        }
        for (got, x) in values(&x.ceil(), &stream).into_iter().zip(numbers) {
            assert_eq!(got.is_sign_negative(), x.is_sign_negative(), "ceil of {x}");
        }
    }
}

/// As NumPy: the sum of no elements is 0, whatever the other factors are.
#[apply(every_device)]
fn einsum_over_an_empty_axis_is_zero_beside_nan(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let odd = [f64::NAN, f64::INFINITY, 1.0];
    let x = graph.buffer(&stream.create(&odd).unwrap(), [3]);
    let none = graph.zeros(DType::F64, [2, 0]);
    let cases: [(&str, Vec<&LazyBuffer>); 4] = [
        ("ij,k->ik", vec![&none, &x]),
        ("k,ij->k", vec![&x, &none]),
        ("ij,ij,k->k", vec![&none, &none, &x]),
        ("ij->i", vec![&none]),
    ];
    for (terms, buffers) in cases {
        let got = values(&LazyBuffer::einsum(terms, buffers), &stream);
        assert!(
            !got.is_empty() && got.iter().all(|it| *it == 0.0),
            "{terms}: {got:?}"
        );
    }
    let n = graph.length("n", 4);
    let y = graph.input("y", DType::F64, [Size::from(&n)]);
    let sums = LazyBuffer::einsum("n,k->k", [&y, &x]);
    let compiled = compile(&client, &sums);
    let ones = stream.create(&[1.0_f64; 4]).unwrap();
    for length in [0_u64, 3] {
        let run = compiled.run().input(&y, &ones).length(&n, length);
        let got = run.submit(&stream).unwrap()[0].read::<f64>(&stream);
        let got = got.unwrap().wait().unwrap();
        match length {
            0 => assert_eq!(got, [0.0; 3]),
            _ => assert!(
                got[0].is_nan() && got[1..] == [f64::INFINITY, 3.0],
                "{got:?}"
            ),
        }
    }
}

/// Both half planes, the axes, and distant points; the sign of zero is ignored.
#[apply(every_device)]
fn atan2_agrees_with_the_standard_library(on: On) {
    let (_rig, _, stream) = on.start();
    let graph = Graph::new();
    let of_axis = [
        0.0,
        1e-40,
        1e-9,
        0.3,
        0.5,
        0.659,
        0.661,
        1.0,
        2.5,
        7e30,
        f64::INFINITY,
    ];
    let of_axis: Vec<f64> = of_axis
        .iter()
        .flat_map(|it| [*it, -it])
        .chain([f64::NAN])
        .collect();
    let count = of_axis.len();
    let points = graph.buffer(&stream.create(&of_axis).unwrap(), [count]);
    for (dtype, units) in [(DType::F64, 3.0), (DType::F32, 3.0), (DType::F16, 1.5)] {
        let epsilon = match dtype {
            DType::F64 => f64::EPSILON,
            DType::F32 => f64::from(f32::EPSILON),
            _ => 2_f64.powi(-10),
        };
        // Subnormal numbers of a type may count as zero.
        let least = if dtype == DType::F64 { 0.0 } else { 1e-5 };
        let is_odd = points.abs().less(least);
        let points = is_odd.select(0.0, &points).cast(dtype);
        let known = values(&points, &stream);
        let angles = points.unsqueeze(1).atan2(points.unsqueeze(0));
        for (index, got) in values(&angles, &stream).into_iter().enumerate() {
            let (y, x) = (known[index / count] + 0.0, known[index % count] + 0.0);
            let want = match () {
                () if y == 0.0 && x == 0.0 => 0.0,
                () => y.atan2(x),
            };
            let same = got.is_nan() && want.is_nan()
                || (got - want).abs() <= units * epsilon * want.abs() + f64::MIN_POSITIVE;
            assert!(
                same,
                "angle of ({x}, {y}), {dtype}: expected {want}, got {got}"
            );
        }
    }
    let whole = graph.buffer(&stream.create(&[1_i32]).unwrap(), [1]);
    assert!(whole.atan2(&whole).error().is_some());
    assert!(points.atan2(points.cast(DType::F32)).error().is_some());
}

/// The fuzzer's graphs have the operations that move elements.
#[apply(every_device)]
fn dropped_axes_and_einsum_agree_with_numpy(on: On) {
    let (_rig, _, stream) = on.start();
    let graph = Graph::new();
    let x = graph.iota(6).reshape([2, -1]);
    let wide = x.cast(DType::F32);
    assert_eq!(x.shape().known(), Some(vec![2, 3]));
    for over in [Over::from(1), Over::All] {
        let dropped = || over.clone().dropped();
        for (kept, dropped) in [
            (x.sum(over.clone()), x.sum(dropped())),
            (x.argmax(over.clone()), x.argmax(dropped())),
            (wide.mean(over.clone()), wide.mean(dropped())),
            (wide.variance(over.clone()), wide.variance(dropped())),
            (x.any(over.clone()), x.any(dropped())),
        ] {
            let rank = if matches!(over, Over::All) { 0 } else { 1 };
            assert_eq!(dropped.rank(), rank);
            assert_eq!(values(&dropped, &stream), values(&kept, &stream));
        }
    }
    assert!(x.sum(Over::from(2).dropped()).check().is_err());
    let n = graph.length("n", 4);
    let pairs = graph.iota(Size::from(&n)).repeat(0, 2).reshape([-1, 2]);
    assert_eq!(pairs.shape().to_string(), "[n, 2]");
    let einsum = |terms: &str, all: &[&LazyBuffer]| LazyBuffer::einsum(terms, all.iter().copied());
    assert_eq!(
        values(&einsum("ij,kj->ik", &[&x, &x]), &stream),
        [5.0, 14.0, 14.0, 50.0]
    );
    assert_eq!(values(&einsum("ij->j", &[&x]), &stream), [3.0, 5.0, 7.0]);
    assert_eq!(
        values(&einsum("ij->ji", &[&x]), &stream),
        [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    );
    assert_eq!(
        values(
            &einsum("i,j->ij", &[&graph.iota(2), &graph.iota(3)]),
            &stream
        ),
        [0.0, 0.0, 0.0, 0.0, 1.0, 2.0]
    );
    assert_eq!(values(&einsum("ij,ij->", &[&x, &x]), &stream), [55.0]);
    assert_eq!(
        values(
            &einsum("ij,jk,k->i", &[&x, &x.t(), &graph.iota(2)]),
            &stream
        ),
        [14.0, 50.0]
    );
    for odd in ["ij", "ij,jk->ik", "ii->i", "ij->k", "i->i", "i1->i"] {
        let refused = einsum(odd, &[&x]);
        assert!(refused.check().is_err(), "{odd}");
    }
}

#[test]
fn random_normal_numbers_have_the_moments_of_the_distribution() {
    let (_rig, _, stream) = ONE.start();
    let (_, x) = Graph::new().normal([100, 1000], 7);
    let all = values(&x, &stream);
    let count = all.len() as f64;
    let moment = |power: i32| all.iter().map(|it| it.powi(power)).sum::<f64>() / count;
    // Within five standard errors of 0, 1, 0 and 3.
    assert!(moment(1).abs() < 0.016 && (moment(2) - 1.0).abs() < 0.023);
    assert!(moment(3).abs() < 0.062 && (moment(4) - 3.0).abs() < 0.16);
    assert!(all.iter().all(|it| it.is_finite()));
}

#[test]
fn schedule_lists_its_scalars_lengths_and_outputs() {
    let (_rig, _, stream) = ONE.start();
    let graph = Graph::new();
    let (n, m) = (graph.length("n", 4), graph.length("m", 3));
    let x = graph.input("x", DType::F32, [Size::from(&n)]);
    let w = graph.input("w", DType::F32, [2]);
    let (rate, by) = graph.scalar("rate", DType::F32, 0.5);
    let (_, unused) = graph.scalar("unused", DType::F32, 0.5);
    let roots = [&x * &by, w.set(&(&w * by)), graph.iota(Size::from(&m))];
    drop(unused);
    let schedule = Schedule::create(&roots.iter().collect::<Vec<_>>()).unwrap();
    let names: Vec<String> = schedule
        .scalars()
        .iter()
        .map(|it| it.name().to_owned())
        .collect();
    assert_eq!(names, [rate.name()]);
    let mut lengths: Vec<String> = schedule
        .lengths()
        .iter()
        .map(|it| it.name().to_owned())
        .collect();
    lengths.sort();
    assert_eq!(lengths, ["m", "n"]);
    let outputs: Vec<(String, Option<String>)> = schedule
        .outputs()
        .map(|it| (format!("{} {}", it.dtype, it.shape), it.input))
        .collect();
    let want = [("f32 [n]", None), ("f32 [2]", Some("w")), ("i64 [m]", None)];
    let want = want.map(|(shape, input)| (shape.to_owned(), input.map(str::to_owned)));
    assert_eq!(outputs, want);
    let refused = roots[0].eval(&stream).unwrap_err();
    assert!(refused.to_string().contains("is not bound"), "{refused}");
}
