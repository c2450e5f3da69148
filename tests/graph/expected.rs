//! Lazy buffers with their expected values.

use std::borrow::Borrow;

use millstream::graph::{
    CompiledSchedule, Graph, LazyBuffer, Output, Outputs, Parts, Run, Schedule,
};
use millstream::ir::scalar::Number;
use millstream::ir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use millstream::{ComputeClient, DType, Handle, Stream};

use super::oracle::{Array, indices};

/// A lazy buffer with its expected value.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) lazy: LazyBuffer,
    pub(crate) want: Array,
}

/// A graph with the data of its inputs.
#[derive(Default)]
pub(crate) struct TestGraph {
    pub(crate) graph: Graph,
    pub(crate) inputs: Vec<Expected>,
    /// How reductions are split.
    pub(crate) parts: Parts,
}

impl TestGraph {
    /// Adds an input with this data.
    pub(crate) fn input(&mut self, dtype: DType, shape: &[usize], data: Vec<Number>) -> Expected {
        let want = Array::new(dtype, shape, data);
        let name = format!("x{}", self.inputs.len());
        let lazy = self.graph.input(name, dtype, shape.to_vec());
        let both = Expected { lazy, want };
        self.inputs.push(both.clone());
        both
    }

    /// Adds an input of floats that are neither round nor large.
    pub(crate) fn floats(&mut self, dtype: DType, shape: &[usize]) -> Expected {
        let salt = self.inputs.len() as f64;
        let number = |index: usize| {
            let x = (index as f64 * 0.618_033_988_7 + salt * 0.37).fract();
            Number::Float(4.0 * x - 2.0)
        };
        let data = (0..shape.iter().product()).map(number).collect();
        self.input(dtype, shape, data)
    }

    /// Adds an input of small integers, of both signs for signed types.
    pub(crate) fn ints(&mut self, dtype: DType, shape: &[usize]) -> Expected {
        let salt = self.inputs.len();
        let number = |index: usize| {
            let x = ((index * 2_654_435_761 + salt * 97) >> 7) % 23;
            let signed = matches!(dtype, DType::I32 | DType::I64);
            Number::Whole(x as i128 - if signed { 11 } else { 0 })
        };
        let data = (0..shape.iter().product()).map(number).collect();
        self.input(dtype, shape, data)
    }

    /// Adds an input of numbers of any type.
    pub(crate) fn numbers(&mut self, dtype: DType, shape: &[usize]) -> Expected {
        if dtype.is_float() {
            self.floats(dtype, shape)
        } else {
            self.ints(dtype, shape)
        }
    }

    /// Runs the roots, and compares each with its expected value.
    pub(crate) fn check(&self, client: &ComputeClient, roots: &[impl Borrow<Expected>]) {
        let got = self.run(client, roots);
        for (index, (got, root)) in got.iter().zip(roots).enumerate() {
            assert_same(got, &root.borrow().want, &format!("root {index}"));
        }
    }

    /// Returns the values of the roots on a device, from the last of several runs: from the second on a driver replays
    /// them as a graph of its own.
    pub(crate) fn run(
        &self,
        client: &ComputeClient,
        roots: &[impl Borrow<Expected>],
    ) -> Vec<Array> {
        let roots: Vec<&Expected> = roots.iter().map(Borrow::borrow).collect();
        let lazy: Vec<&LazyBuffer> = roots.iter().map(|root| &root.lazy).collect();
        let schedule = Schedule::create_split(&lazy, self.parts);
        let schedule = schedule.expect("the roots are valid");
        for item in schedule.items() {
            if let Some(program) = item.program() {
                program.check().expect("programs of schedules are valid");
            }
        }
        let compiled = schedule.compile(client).expect("the schedule compiles");
        let stream = client.new_stream();
        let run = || self.bind(compiled.run(), &stream).submit(&stream);
        run().expect("all inputs are bound");
        run().expect("the second run is valid");
        let outputs = run().expect("the third run is valid");
        read_all(&stream, &outputs, &roots, &schedule)
    }

    fn bind<'a>(&self, mut run: Run<'a>, stream: &Stream) -> Run<'a> {
        for input in &self.inputs {
            if run.takes(&input.lazy) {
                run = run.input(&input.lazy, &upload(stream, &input.want));
            }
        }
        run
    }
}

/// Reads the outputs of a run, whose types and shapes must be those of the roots.
fn read_all(
    stream: &Stream,
    outputs: &Outputs,
    roots: &[&Expected],
    schedule: &dyn std::fmt::Display,
) -> Vec<Array> {
    let read = |(output, root): (&Output, &&Expected)| {
        assert_eq!(output.dtype(), root.want.dtype);
        let shape: Vec<usize> = output
            .shape()
            .iter()
            .map(|length| *length as usize)
            .collect();
        assert_eq!(shape, root.want.shape);
        let bytes = stream.read(output.bytes()).wait().unwrap_or_else(|error| {
            panic!("{error}\n{schedule}");
        });
        decode(&bytes, output.dtype(), &shape)
    };
    outputs.iter().zip(roots).map(read).collect()
}

/// Compiles the schedule of one root.
pub(crate) fn compile(client: &ComputeClient, root: &LazyBuffer) -> CompiledSchedule {
    let schedule = Schedule::create_one(root).expect("the root is valid");
    schedule.compile(client).expect("the schedule compiles")
}

/// Uploads an array.
pub(crate) fn upload(stream: &Stream, array: &Array) -> Handle<u8> {
    let bytes: Vec<u8> = array
        .data
        .iter()
        .flat_map(|number| {
            let bits = number.bits(array.dtype).to_le_bytes();
            bits.into_iter().take(array.dtype.size())
        })
        .collect();
    stream.create(&bytes).expect("the device has enough memory")
}

fn decode(bytes: &[u8], dtype: DType, shape: &[usize]) -> Array {
    let elements = bytes.chunks_exact(dtype.size());
    let data = elements.map(|element| Number::load(dtype, element));
    Array {
        shape: shape.to_vec(),
        dtype,
        data: data.collect(),
    }
}

/// Asserts that two arrays are equal: integers exactly, floats within the error of their type and a few operations.
pub(crate) fn assert_same(got: &Array, want: &Array, what: &str) {
    assert_eq!(got.shape, want.shape, "{what}");
    let (relative, absolute) = match want.dtype {
        DType::F64 => (1e-12, 1e-13),
        DType::F32 => (2e-5, 1e-5),
        DType::F16 => (2e-3, 1e-3),
        _ => (1.6e-2, 1e-2),
    };
    let places = indices(&want.shape);
    for ((got, want), place) in got.data.iter().zip(&want.data).zip(places) {
        let same = match (got, want) {
            (Number::Float(got), Number::Float(want)) => {
                (got.is_nan() && want.is_nan())
                    || got == want
                    || (got - want).abs() <= relative * want.abs() + absolute
            }
            (got, want) => got == want,
        };
        assert!(same, "{what} at {place:?}: expected {want:?}, got {got:?}");
    }
}

impl Expected {
    fn new(lazy: LazyBuffer, want: Array) -> Self {
        lazy.check().expect("the operation is valid");
        let shape: Vec<u64> = want.shape.iter().map(|length| *length as u64).collect();
        assert_eq!(lazy.shape().known(), Some(shape));
        Self { lazy, want }
    }

    pub(crate) fn unary(&self, op: UnaryOp) -> Expected {
        Expected::new(self.lazy.unary(op), self.want.unary(op))
    }

    pub(crate) fn binary(&self, op: BinaryOp, other: &Expected) -> Expected {
        let (a, b) = (&self.lazy, &other.lazy);
        let lazy = match op {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a * b,
            BinaryOp::Div => a / b,
            BinaryOp::Rem => a % b,
            BinaryOp::Min => a.minimum(b),
            BinaryOp::Max => a.maximum(b),
            BinaryOp::Pow => a.pow(b),
            BinaryOp::And => a & b,
            BinaryOp::Or => a | b,
            BinaryOp::Xor => a ^ b,
            BinaryOp::Shl => a << b,
            BinaryOp::Shr => a >> b,
            other => unreachable!("{other}"),
        };
        Expected::new(lazy, self.want.binary(op, &other.want))
    }

    pub(crate) fn compare(&self, op: CompareOp, other: &Expected) -> Expected {
        let (a, b) = (&self.lazy, &other.lazy);
        let lazy = match op {
            CompareOp::Eq => a.equals(b),
            CompareOp::Ne => a.differs(b),
            CompareOp::Lt => a.less(b),
            CompareOp::Le => a.less_equal(b),
            CompareOp::Gt => a.greater(b),
            CompareOp::Ge => a.greater_equal(b),
            other => unreachable!("{other}"),
        };
        Expected::new(lazy, self.want.compare(op, &other.want))
    }

    pub(crate) fn cast(&self, dtype: DType) -> Expected {
        Expected::new(self.lazy.cast(dtype), self.want.cast(dtype))
    }

    pub(crate) fn reduce(&self, op: ReduceOp, axes: &[usize]) -> Expected {
        let over: Vec<isize> = axes.iter().map(|axis| *axis as isize).collect();
        let x = &self.lazy;
        let lazy = match op {
            ReduceOp::Sum => x.sum(&over[..]),
            ReduceOp::Prod => x.product(&over[..]),
            ReduceOp::Min => x.min(&over[..]),
            ReduceOp::Max => x.max(&over[..]),
            ReduceOp::ArgMin => x.argmin(&over[..]),
            ReduceOp::ArgMax => x.argmax(&over[..]),
            other => unreachable!("{other}"),
        };
        Expected::new(lazy, self.want.reduce(op, axes))
    }

    pub(crate) fn broadcast_to(&self, shape: &[usize]) -> Expected {
        Expected::new(
            self.lazy.broadcast_to(shape.to_vec()),
            self.want.broadcast_to(shape),
        )
    }

    pub(crate) fn permute(&self, axes: &[usize]) -> Expected {
        let order: Vec<isize> = axes.iter().map(|axis| *axis as isize).collect();
        Expected::new(self.lazy.permute(order), self.want.permute(axes))
    }

    pub(crate) fn narrow(&self, axis: usize, start: usize, len: usize) -> Expected {
        let lazy = self.lazy.narrow(axis as isize, start, len);
        Expected::new(lazy, self.want.narrow(axis, start, len))
    }

    pub(crate) fn reshape(&self, shape: &[usize]) -> Expected {
        Expected::new(self.lazy.reshape(shape.to_vec()), self.want.reshape(shape))
    }

    pub(crate) fn gather(&self, axis: usize, index: &Expected) -> Expected {
        let lazy = self.lazy.gather(axis as isize, &index.lazy);
        Expected::new(lazy, self.want.gather(axis, &index.want))
    }

    pub(crate) fn scatter(
        &self,
        axis: usize,
        index: &Expected,
        values: &Expected,
        adds: bool,
    ) -> Expected {
        let along = axis as isize;
        let lazy = if adds {
            self.lazy.scatter_add(along, &index.lazy, &values.lazy)
        } else {
            self.lazy.scatter(along, &index.lazy, &values.lazy)
        };
        Expected::new(
            lazy,
            self.want.scatter(axis, &index.want, &values.want, adds),
        )
    }

    pub(crate) fn cat(parts: &[&Expected], axis: usize) -> Expected {
        let lazy = LazyBuffer::cat(parts.iter().map(|part| &part.lazy), axis as isize);
        let want: Vec<&Array> = parts.iter().map(|part| &part.want).collect();
        Expected::new(lazy, Array::cat(&want, axis))
    }

    pub(crate) fn matmul(&self, right: &Expected) -> Expected {
        Expected::new(self.lazy.matmul(&right.lazy), self.want.matmul(&right.want))
    }
}
