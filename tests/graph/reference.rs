//! Results of NumPy: the arrays are in `reference/`, with the script that makes them.

use std::collections::HashMap;

use millstream::DType;
use millstream::graph::{Graph, LazyBuffer};
use millstream::ir::scalar::Number;
use rstest::rstest;
use rstest_reuse::apply;

use super::every_device;
use super::expected::{Expected, TestGraph};
use super::oracle::Array;
use super::support::On;

const INDEX: &str = include_str!("reference/index.txt");
const ARRAYS: &[u8] = include_bytes!("reference/arrays.bin");

/// A line of the index, with its array.
struct Line<'a> {
    case: &'a str,
    name: &'a str,
    array: Array,
}

fn lines() -> impl Iterator<Item = Line<'static>> {
    INDEX.lines().map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [case, name, dtype, shape, start] = fields[..] else {
            panic!("`{line}` does not have 5 fields");
        };
        let dtype = DType::ALL.into_iter().find(|it| it.to_string() == dtype);
        let dtype = dtype.unwrap_or_else(|| panic!("`{line}` has an unknown type"));
        let lengths = shape.split('x').filter(|length| *length != "-");
        let shape: Vec<usize> = lengths.map(|length| length.parse().unwrap()).collect();
        let (start, count) = (start.parse::<usize>().unwrap(), shape.iter().product());
        let numbers = ARRAYS.chunks_exact(8).skip(start).take(count);
        let number = |bytes: &[u8]| {
            let bytes = bytes.try_into().unwrap();
            match dtype.is_float() {
                true => Number::Float(f64::from_le_bytes(bytes)),
                false => Number::Whole(i128::from(i64::from_le_bytes(bytes))),
            }
        };
        let array = Array::new(dtype, &shape, numbers.map(number).collect());
        Line { case, name, array }
    })
}

/// The arrays of a case, by name.
struct Given<'a> {
    graph: &'a Graph,
    arrays: HashMap<&'a str, LazyBuffer>,
}

impl Given<'_> {
    fn get<const N: usize>(&self, names: [&str; N]) -> [&LazyBuffer; N] {
        names.map(|name| &self.arrays[name])
    }

    fn x(&self) -> &LazyBuffer {
        self.get(["x"])[0]
    }

    /// Returns, for each column of `x`, the columns up to it, and `other` behind it.
    fn so_far(&self, other: impl Into<millstream::graph::Operand>) -> LazyBuffer {
        let (x, n) = (self.x(), self.x().shape()[1].clone());
        let square = [n.clone(), n];
        let (row, column) = (
            self.graph.index(square.clone(), 0),
            self.graph.index(square, 1),
        );
        let columns = x.unsqueeze(1);
        column.less_equal(&row).select(&columns, other)
    }
}

/// Returns the computation of a case as a lazy buffer.
fn computed(case: &str, given: &Given) -> LazyBuffer {
    let x = || given.x();
    match case {
        "softmax" => x().softmax(-1),
        "log_softmax" => x().log_softmax(0),
        "layer_norm" => {
            let [gain, bias] = given.get(["gain", "bias"]);
            x().normalize(-1, 1e-5) * gain + bias
        }
        "gelu" => x().gelu(),
        "gelu_tanh" => x().gelu_tanh(),
        "mean_variance" => x().mean([0, 2]) + x().variance([0, 2]),
        "matmul_t" => {
            let [a, b, bias] = given.get(["a", "b", "bias"]);
            (a.matmul_t(b) + bias).relu()
        }
        "matmul_wraps" => {
            let [a, b] = given.get(["a", "b"]);
            a.matmul(b)
        }
        "attention" => {
            let [q, k, v] = given.get(["q", "k", "v"]);
            let scores = q.matmul_t(k) * (1.0 / 8.0_f64.sqrt());
            let (row, column) = (given.graph.index([9, 9], 0), given.graph.index([9, 9], 1));
            let seen = column.less_equal(&row).select(&scores, f64::NEG_INFINITY);
            seen.softmax(-1).matmul(v)
        }
        "cat" => {
            let [a, b] = given.get(["a", "b"]);
            LazyBuffer::cat([&a.t(), &b.narrow(1, 1, 2), &a.t()], 1)
        }
        "gather" => x().gather(1, given.get(["at"])[0]),
        "take" => x().take(0, given.get(["at"])[0]),
        "scatter" | "scatter_add" => {
            let [at, values] = given.get(["at", "values"]);
            match case {
                "scatter" => x().scatter(0, at, values),
                _ => x().scatter_add(0, at, values),
            }
        }
        "argmax" => x().argmax(1),
        "argmin" => x().argmin(0),
        "max" => x().max(1),
        "minimum" => x().minimum(given.get(["other"])[0]),
        "equals" => x().equals(given.get(["other"])[0]),
        "trunc_divide" => x() / given.get(["by"])[0],
        "floor_divide" | "shift_right" => {
            let by = given.get([if case == "shift_right" { "power" } else { "by" }])[0];
            let rest = x() % by;
            // One less if there is a remainder and the signs differ.
            let is_less = rest.differs(0) & (rest.less(0) ^ by.less(0));
            x() / by - is_less.cast(x().dtype())
        }
        "remainder" | "remainder_of_floats" => x() % given.get(["by"])[0],
        "shift_left" => x() * given.get(["power"])[0],
        "shift_right_unsigned" => x() / given.get(["power"])[0],
        "bits" => ((x() ^ given.get(["other"])[0]) & 0xF0_u8) | (!x() & 0x0F_u8),
        "cumulative_sum" => given.so_far(0).sum(-1).squeeze(-1),
        "cumulative_max" => given.so_far(f64::NEG_INFINITY).max(-1).squeeze(-1),
        "cumulative_product" => given.so_far(1).product(-1).squeeze(-1),
        "cast_to_i32" | "cast_narrows" => x().cast(DType::I32),
        "cast_to_u8" => x().cast(DType::U8),
        "cast_to_bool" => x().cast(DType::Bool),
        "halves" => {
            let [a, b] = given.get(["a", "b"]);
            (a * b).sum(-1)
        }
        "random_bits" => given.graph.random_bits([5, 8], 0xDEAD_BEEF_1234_5678).1,
        other => panic!("`{other}` is an unknown case"),
    }
}

#[apply(every_device)]
fn graphs_agree_with_numpy(on: On) {
    let rig = on.open();
    let client = rig.client();
    let mut test = TestGraph::default();
    let mut given: HashMap<&str, LazyBuffer> = HashMap::new();
    let mut cases = 0;
    for line in lines() {
        let Array { shape, dtype, data } = line.array;
        if line.name != "y" {
            let input = test.input(dtype, &shape, data);
            given.insert(line.name, input.lazy);
            continue;
        }
        let graph = test.graph.clone();
        let arrays = std::mem::take(&mut given);
        let lazy = computed(
            line.case,
            &Given {
                graph: &graph,
                arrays,
            },
        );
        lazy.check()
            .unwrap_or_else(|error| panic!("{}: {error}", line.case));
        let want = Array::new(dtype, &shape, data);
        let got = test.run(
            &client,
            &[&Expected {
                lazy,
                want: want.clone(),
            }],
        );
        super::expected::assert_same(&got[0], &want, line.case);
        test = TestGraph::default();
        cases += 1;
    }
    assert_eq!(
        cases,
        INDEX.lines().filter(|line| line.contains(" y ")).count()
    );
}
