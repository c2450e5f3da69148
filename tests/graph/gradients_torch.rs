//! Gradients at the corners of each function, compared with those of PyTorch, in every float type: at zeros, tiny
//! numbers, both sides of the overflow of each inner function, infinities and NaN. The values are in `reference/`, with
//! the script that makes them.

use millstream::graph::{DType, Graph, LazyBuffer, Schedule};
use millstream::ir::scalar::Number;
use millstream::{Cpu, Device, Stream};
use rstest::rstest;
use rstest_reuse::apply;

use super::every_device;
use super::support::On;

const TORCH: &str = include_str!("reference/gradients.txt");

/// The elements of a row of the functions of rows.
const ROW: usize = 3;

type Of = fn(&[LazyBuffer]) -> LazyBuffer;

/// The functions, by their names in the reference.
const FUNCTIONS: [(&str, Of); 49] = [
    ("neg", |x| -&x[0]),
    ("abs", |x| x[0].abs()),
    ("sqrt", |x| x[0].sqrt()),
    ("exp", |x| x[0].exp()),
    ("log", |x| x[0].log()),
    ("sin", |x| x[0].sin()),
    ("cos", |x| x[0].cos()),
    ("tanh", |x| x[0].tanh()),
    ("erf", |x| x[0].erf()),
    ("floor", |x| x[0].floor()),
    ("ceil", |x| x[0].ceil()),
    ("round", |x| x[0].round()),
    ("sign", |x| x[0].sign()),
    ("log1p", |x| x[0].log1p()),
    ("expm1", |x| x[0].expm1()),
    ("square", |x| x[0].square()),
    ("recip", |x| x[0].recip()),
    ("relu", |x| x[0].relu()),
    ("clamp", |x| x[0].clamp(0, 1)),
    ("sigmoid", |x| x[0].sigmoid()),
    ("silu", |x| x[0].silu()),
    ("gelu", |x| x[0].gelu()),
    ("gelu_tanh", |x| x[0].gelu_tanh()),
    ("pow 0", |x| x[0].pow(0)),
    ("pow 1", |x| x[0].pow(1)),
    ("pow 2", |x| x[0].pow(2)),
    ("pow 0.5", |x| x[0].pow(0.5)),
    ("pow -1", |x| x[0].pow(-1)),
    ("2 pow", |x| x[0].full_of(2).pow(&x[0])),
    ("0 pow", |x| x[0].full_of(0).pow(&x[0])),
    ("add", |x| &x[0] + &x[1]),
    ("sub", |x| &x[0] - &x[1]),
    ("mul", |x| &x[0] * &x[1]),
    ("div", |x| &x[0] / &x[1]),
    ("rem", |x| &x[0] % &x[1]),
    ("pow", |x| x[0].pow(&x[1])),
    ("atan2", |x| x[0].atan2(&x[1])),
    ("maximum", |x| x[0].maximum(&x[1])),
    ("minimum", |x| x[0].minimum(&x[1])),
    ("select", |x| x[0].less(&x[1]).select(&x[0], &x[1])),
    ("sum", |x| weighted(x, |x| x.sum(-1))),
    ("mean", |x| weighted(x, |x| x.mean(-1))),
    ("variance", |x| weighted(x, |x| x.variance(-1))),
    ("product", |x| weighted(x, |x| x.product(-1))),
    ("max", |x| weighted(x, |x| x.max(-1))),
    ("min", |x| weighted(x, |x| x.min(-1))),
    ("softmax", |x| weighted(x, |x| x.softmax(-1))),
    ("log_softmax", |x| weighted(x, |x| x.log_softmax(-1))),
    ("cumsum", |x| weighted(x, |x| x.cumsum(-1))),
];

trait FullOf {
    fn full_of(&self, value: i64) -> LazyBuffer;
}

impl FullOf for LazyBuffer {
    /// Returns a number as a buffer of this type.
    fn full_of(&self, value: i64) -> LazyBuffer {
        self.graph().unwrap().constant(self.dtype(), value)
    }
}

/// Applies a function to rows. The elements of a result of several columns have the weights 1 and 2 in turn.
fn weighted(x: &[LazyBuffer], of: fn(&LazyBuffer) -> LazyBuffer) -> LazyBuffer {
    let y = of(&x[0].reshape([-1, ROW as i64]));
    if y.shape()[1].is(1) {
        return y;
    }
    let weight = (y.graph().unwrap().iota(ROW as u64) % 2 + 1).cast(y.dtype());
    y * weight
}

/// A line of the reference.
struct Line {
    name: &'static str,
    dtype: DType,
    arguments: Vec<Vec<f64>>,
    gradients: Vec<Vec<f64>>,
}

fn lines() -> impl Iterator<Item = Line> {
    TORCH.lines().map(|line| {
        let mut fields = line.split('|');
        let mut next = || fields.next().unwrap();
        let (name, dtype) = (next(), next());
        let dtype = DType::ALL.into_iter().find(|it| it.to_string() == dtype);
        let numbers = |field: &str| -> Vec<f64> {
            field
                .split(' ')
                .map(|number| number.parse().unwrap())
                .collect()
        };
        let mut arguments: Vec<Vec<f64>> = fields.map(numbers).collect();
        let gradients = arguments.split_off(arguments.len() / 2);
        Line {
            name,
            dtype: dtype.unwrap(),
            arguments,
            gradients,
        }
    })
}

/// Returns the distance between 1 and the next number of a type.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F32 => f64::from(f32::EPSILON),
        DType::F16 => 2_f64.powi(-10),
        _ => 2_f64.powi(-7),
    }
}

/// Returns `true` for gradients that differ from PyTorch's on purpose.
fn differs(name: &str, arguments: &[f64], got: f64, torch: f64) -> bool {
    let x = arguments[0];
    match name {
        // PyTorch's formula overflows, for numbers of which the gradient is 0 or 1.
        "gelu_tanh" => torch.is_nan() && got == f64::from(x > 0.0),
        // PyTorch computes a root here.
        "pow 0.5" => x == f64::NEG_INFINITY && got == 0.0,
        // Of rows whose product or variance is not finite either: the product of the others is the product divided by
        // the element, unless that is 0; deviations from an infinite mean have the gradient of that mean.
        "product" | "variance" => {
            arguments.iter().any(|it| !it.is_finite()) && (got.is_nan() || torch.is_nan())
        }
        _ => false,
    }
}

fn check(stream: &Stream, line: &Line) -> Vec<String> {
    let graph = Graph::new();
    let of = FUNCTIONS.iter().find(|(name, _)| *name == line.name);
    let (_, of) = of.unwrap_or_else(|| panic!("`{}` has no function here", line.name));
    let given = |numbers: &Vec<f64>| {
        let handle = stream.create(numbers).unwrap();
        graph.buffer(&handle, [numbers.len()]).cast(line.dtype)
    };
    let arguments: Vec<LazyBuffer> = line.arguments.iter().map(given).collect();
    let y = of(&arguments);
    y.check().unwrap();
    let by: Vec<&LazyBuffer> = arguments.iter().collect();
    let gradients = y.grad_all(&by);
    let wide: Vec<LazyBuffer> = gradients.iter().map(|it| it.cast(DType::F64)).collect();
    let roots: Vec<&LazyBuffer> = wide.iter().collect();
    let compiled = Schedule::create(&roots).unwrap();
    let compiled = compiled.compile(stream.client()).unwrap();
    let outputs = compiled.run().submit(stream).unwrap();
    let mut wrong = Vec::new();
    for (argument, wanted) in line.gradients.iter().enumerate() {
        let got = outputs[argument].read::<f64>(stream).unwrap();
        for (place, (got, want)) in got.wait().unwrap().into_iter().zip(wanted).enumerate() {
            // Graphs round halves only where they are stored.
            let got = Number::of(line.dtype, Number::Float(got).bits(line.dtype)).float();
            // The arguments, and the greatest gradient that this one is computed with.
            let (at, scale) = if is_of_rows(line.name) {
                let row = place / ROW * ROW..place / ROW * ROW + ROW;
                let finite = wanted[row.clone()].iter().filter(|it| it.is_finite());
                let scale = finite.fold(0.0, |most: f64, it| most.max(it.abs()));
                (line.arguments[0][row].to_vec(), scale)
            } else {
                let at = line.arguments.iter().map(|of| of[place]).collect();
                (at, want.abs())
            };
            // PyTorch rounds halves after each step.
            let near = 16.0 * epsilon(line.dtype) * (scale + 1.0);
            let is_equal =
                got == *want || got.is_nan() && want.is_nan() || (got - want).abs() <= near;
            if !is_equal && !differs(line.name, &at, got, *want) {
                wrong.push(format!(
                    "{} of {}, argument {argument} at {at:?}: expected {want}, got {got}",
                    line.name, line.dtype
                ));
            }
        }
    }
    wrong
}

fn is_of_rows(name: &str) -> bool {
    let first = FUNCTIONS.iter().position(|(name, _)| *name == "sum");
    FUNCTIONS[first.unwrap()..]
        .iter()
        .any(|(known, _)| *known == name)
}

fn check_all(stream: &Stream) {
    let wrong: Vec<String> = lines().flat_map(|line| check(stream, &line)).collect();
    assert!(
        wrong.is_empty(),
        "{} gradients:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[apply(every_device)]
fn gradients_at_corners_are_those_of_pytorch(on: On) {
    let rig = on.open();
    check_all(&rig.client().new_stream());
}

#[test]
fn gradients_at_corners_are_those_of_pytorch_without_machine_code() {
    let device = Device::open(Cpu::default().machine_code(false)).unwrap();
    check_all(&device.new_client().new_stream());
}

#[test]
fn reference_has_each_function_in_every_float_type() {
    for (name, _) in FUNCTIONS {
        let types = lines().filter(|line| line.name == name).count();
        assert_eq!(types, 4, "{name}");
    }
}
