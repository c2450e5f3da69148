//! What a nest means, by definition: index by index, with values in `f64` and `i128`. Slow, and small enough to be read at
//! once: tests compare everything else with it.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;

use millstream_ir::nest::{Access, Level, Op, Stride};
use millstream_ir::{BinaryOp, CompareOp, DType, Nest, ReduceOp, UnaryOp};

use crate::half::{Bf16, F16, integer_to_odd, to_odd};
use crate::kernels::random::philox;

/// A value: floats as `f64`, rounded to their type after every operation; all others as `i128`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Datum {
    /// Of a float type.
    Float(f64),
    /// Of any other.
    Whole(i128),
}

use Datum::{Float, Whole};

impl Datum {
    fn whole(self) -> i128 {
        match self {
            Whole(value) => value,
            Float(value) => value as i128,
        }
    }

    fn float(self) -> f64 {
        match self {
            Float(value) => value,
            Whole(value) => value as f64,
        }
    }
}

/// Reads an element.
pub fn read(dtype: DType, bytes: &[u8]) -> Datum {
    let mut low = [0; 8];
    low[..dtype.size()].copy_from_slice(&bytes[..dtype.size()]);
    of_bits(dtype, u64::from_le_bytes(low))
}

/// The value that the low bits are of a type.
pub fn of_bits(dtype: DType, bits: u64) -> Datum {
    match dtype {
        DType::F64 => Float(f64::from_bits(bits)),
        DType::F32 => Float(f64::from(f32::from_bits(bits as u32))),
        DType::F16 => Float(f64::from(F16(bits as u16).to_f32())),
        DType::Bf16 => Float(f64::from(Bf16(bits as u16).to_f32())),
        DType::Bool => Whole(i128::from(bits as u8 != 0)),
        dtype => wrapped(dtype, i128::from(bits)),
    }
}

/// The bits of a value of a type.
pub fn to_bits(dtype: DType, value: Datum) -> u64 {
    match dtype {
        DType::F64 => value.float().to_bits(),
        DType::F32 => u64::from((value.float() as f32).to_bits()),
        DType::F16 => u64::from(F16::of_f32(to_odd(value.float())).0),
        DType::Bf16 => u64::from(Bf16::of_f32(to_odd(value.float())).0),
        _ => value.whole() as u64,
    }
}

/// Integers wrap, floats are rounded.
fn wrapped(dtype: DType, value: i128) -> Datum {
    Whole(match dtype {
        DType::I64 => i128::from(value as i64),
        DType::U64 => i128::from(value as u64),
        DType::I32 => i128::from(value as i32),
        DType::U32 => i128::from(value as u32),
        DType::I16 => i128::from(value as i16),
        DType::U16 => i128::from(value as u16),
        DType::I8 => i128::from(value as i8),
        DType::U8 => i128::from(value as u8),
        _ => value & 1,
    })
}

fn rounded(dtype: DType, value: f64) -> Datum {
    match dtype {
        DType::F32 => Float(f64::from(value as f32)),
        _ => Float(value),
    }
}

fn range(dtype: DType) -> (Datum, Datum) {
    let whole = |least: i128, greatest: i128| (Whole(least), Whole(greatest));
    match dtype {
        DType::I64 => whole(i64::MIN.into(), i64::MAX.into()),
        DType::U64 => whole(0, u64::MAX.into()),
        DType::I32 => whole(i32::MIN.into(), i32::MAX.into()),
        DType::U32 => whole(0, u32::MAX.into()),
        DType::I16 => whole(i16::MIN.into(), i16::MAX.into()),
        DType::U16 => whole(0, u16::MAX.into()),
        DType::I8 => whole(i8::MIN.into(), i8::MAX.into()),
        DType::U8 => whole(0, u8::MAX.into()),
        DType::Bool => whole(0, 1),
        _ => (Float(f64::NEG_INFINITY), Float(f64::INFINITY)),
    }
}

fn unary(op: UnaryOp, dtype: DType, a: Datum) -> Datum {
    match a {
        Whole(a) => match op {
            UnaryOp::Neg => wrapped(dtype, -a),
            UnaryOp::Abs => wrapped(dtype, a.abs()),
            UnaryOp::Not => wrapped(dtype, !a),
            op => panic!("{op} of {dtype}"),
        },
        Float(a) => rounded(
            dtype,
            match op {
                UnaryOp::Neg => -a,
                UnaryOp::Abs => a.abs(),
                UnaryOp::Sqrt => a.sqrt(),
                UnaryOp::Exp => a.exp(),
                UnaryOp::Log => a.ln(),
                UnaryOp::Sin => a.sin(),
                UnaryOp::Cos => a.cos(),
                UnaryOp::Tanh => a.tanh(),
                UnaryOp::Erf => libm::erf(a),
                UnaryOp::Floor => a.floor(),
                UnaryOp::Ceil => a.ceil(),
                op => panic!("{op} of {dtype}"),
            },
        ),
    }
}

fn binary(op: BinaryOp, dtype: DType, a: Datum, b: Datum) -> Datum {
    match (a, b) {
        (Whole(a), Whole(b)) => wrapped(
            dtype,
            match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a.wrapping_mul(b),
                BinaryOp::Div => a.checked_div(b).unwrap_or(0),
                BinaryOp::Rem => a.checked_rem(b).unwrap_or(0),
                BinaryOp::Min => a.min(b),
                BinaryOp::Max => a.max(b),
                BinaryOp::And => a & b,
                BinaryOp::Or => a | b,
                BinaryOp::Xor => a ^ b,
                op => panic!("{op} of {dtype}"),
            },
        ),
        (a, b) => {
            let (a, b) = (a.float(), b.float());
            let either = if a.is_nan() { a } else { b };
            let is_nan = a.is_nan() || b.is_nan();
            rounded(
                dtype,
                match op {
                    BinaryOp::Add => a + b,
                    BinaryOp::Sub => a - b,
                    BinaryOp::Mul => a * b,
                    BinaryOp::Div => a / b,
                    BinaryOp::Rem => a % b,
                    BinaryOp::Min if is_nan => either,
                    BinaryOp::Max if is_nan => either,
                    BinaryOp::Min => a.min(b),
                    BinaryOp::Max => a.max(b),
                    BinaryOp::Pow => a.powf(b),
                    op => panic!("{op} of {dtype}"),
                },
            )
        }
    }
}

fn compare(op: CompareOp, a: Datum, b: Datum) -> Datum {
    let order = match (a, b) {
        (Whole(a), Whole(b)) => Some(a.cmp(&b)),
        (a, b) => a.float().partial_cmp(&b.float()),
    };
    Whole(i128::from(match op {
        CompareOp::Eq => order.is_some_and(Ordering::is_eq),
        CompareOp::Ne => order.is_none_or(Ordering::is_ne),
        CompareOp::Lt => order.is_some_and(Ordering::is_lt),
        CompareOp::Le => order.is_some_and(Ordering::is_le),
        CompareOp::Gt => order.is_some_and(Ordering::is_gt),
        CompareOp::Ge => order.is_some_and(Ordering::is_ge),
        op => panic!("{op}"),
    }))
}

fn cast(from: Datum, to: DType) -> Datum {
    match (from, to) {
        (Float(value), DType::Bool) => Whole(i128::from(value != 0.0)),
        (Whole(value), DType::Bool) => Whole(i128::from(value != 0)),
        (Float(value), to) if to.is_float() => of_bits(to, to_bits(to, Float(value))),
        (Whole(value), DType::F64) => Float(value as f64),
        (Whole(value), DType::F32) => Float(f64::from(value as f32)),
        (Whole(value), to) if to.is_float() => {
            of_bits(to, to_bits(to, Float(integer_to_odd(value))))
        }
        (Whole(value), to) => wrapped(to, value),
        (Float(value), to) => {
            let (Whole(least), Whole(greatest)) = range(to) else {
                return from;
            };
            Whole((value as i128).clamp(least, greatest))
        }
    }
}

fn reduce(op: ReduceOp, dtype: DType, all: &[Datum]) -> Datum {
    let (least, greatest) = range(dtype);
    let is_nan = |a: &Datum| matches!(a, Float(a) if a.is_nan());
    let sum = |start: Datum, op: BinaryOp| match start {
        // Exactly, as far as `f64` goes.
        Float(_) => all.iter().fold(start, |a, b| binary(op, DType::F64, a, *b)),
        Whole(_) => all.iter().fold(start, |a, b| binary(op, dtype, a, *b)),
    };
    let number = |value: i128| {
        if dtype.is_float() {
            Float(value as f64)
        } else {
            Whole(value)
        }
    };
    let best = |op: CompareOp| {
        let mut best: Option<(usize, Datum)> = None;
        for (index, value) in all.iter().enumerate() {
            let takes = best.is_none_or(|(_, best)| {
                !is_nan(&best) && (is_nan(value) || compare(op, *value, best) == Whole(1))
            });
            if takes {
                best = Some((index, *value));
            }
        }
        Whole(best.map_or(0, |(index, _)| index as i128))
    };
    match op {
        ReduceOp::Sum => rounded(dtype, 0.0).pick(dtype, sum(number(0), BinaryOp::Add)),
        ReduceOp::Prod => rounded(dtype, 0.0).pick(dtype, sum(number(1), BinaryOp::Mul)),
        ReduceOp::Min => all
            .iter()
            .fold(greatest, |a, b| binary(BinaryOp::Min, dtype, a, *b)),
        ReduceOp::Max => all
            .iter()
            .fold(least, |a, b| binary(BinaryOp::Max, dtype, a, *b)),
        ReduceOp::ArgMin => best(CompareOp::Lt),
        ReduceOp::ArgMax => best(CompareOp::Gt),
        op => panic!("{op}"),
    }
}

impl Datum {
    /// The other, as its type has it.
    fn pick(self, dtype: DType, other: Datum) -> Datum {
        match other {
            Float(value) => rounded(dtype, value),
            whole => whole,
        }
    }
}

/// A nest over buffers of bytes.
struct Run<'a> {
    nest: &'a Nest,
    buffers: &'a [Vec<u8>],
    words: &'a [u64],
    /// Reductions that are known, by row: others ask for them again and again.
    known: RefCell<HashMap<(u16, Index), Datum>>,
}

/// Where an element is.
type Index = Vec<i64>;

impl Run<'_> {
    fn stride(&self, stride: Stride) -> i64 {
        match stride {
            Stride::Zero => 0,
            Stride::One => 1,
            Stride::Word(word) => self.words[usize::from(word)] as i64,
        }
    }

    fn place(&self, access: &Access, index: &Index) -> i64 {
        let offset = access
            .offset
            .map_or(0, |word| self.words[usize::from(word)] as i64);
        let steps = access.strides.iter().zip(index);
        offset
            + steps
                .map(|(stride, index)| self.stride(*stride) * index)
                .sum::<i64>()
    }

    fn load(&self, access: &Access, place: i64) -> Datum {
        let buffer = usize::from(access.buffer);
        let dtype = self.nest.buffers[buffer].dtype;
        let start = usize::try_from(place).expect("in the buffer") * dtype.size();
        read(dtype, &self.buffers[buffer][start..])
    }

    fn lens(&self) -> Vec<i64> {
        self.words[..self.nest.rank()]
            .iter()
            .map(|len| *len as i64)
            .collect()
    }

    /// All indices of the axes `from..to`, the last fastest.
    fn indices(&self, from: usize, to: usize) -> Vec<Index> {
        self.lens()[from..to].iter().fold(vec![vec![]], |all, len| {
            let longer = |index: &Index| {
                let index = index.clone();
                (0..*len).map(move |next| [&index[..], &[next]].concat())
            };
            all.iter().flat_map(longer).collect()
        })
    }

    /// A value at an index.
    fn value(&self, id: u16, index: &Index) -> Datum {
        let value = &self.nest.values[usize::from(id)];
        let dtype = value.dtype;
        let of = |id: u16| self.value(id, index);
        match &value.op {
            Op::Const(bits) => of_bits(dtype, *bits),
            Op::Word(word) => of_bits(dtype, self.words[usize::from(*word)]),
            Op::Index(axis) => Whole(i128::from(index[usize::from(*axis)])),
            Op::Load(access) => {
                let access = &self.nest.accesses[usize::from(*access)];
                self.load(access, self.place(access, index))
            }
            Op::Gather {
                access,
                index: at,
                stride,
                len,
            } => {
                let access = &self.nest.accesses[usize::from(*access)];
                let (at, len) = (of(*at).whole() as i64, self.words[usize::from(*len)] as i64);
                if !(0..len).contains(&at) {
                    return of_bits(dtype, 0);
                }
                self.load(
                    access,
                    self.place(access, index) + at * self.stride(*stride),
                )
            }
            Op::Unary(op, a) => unary(*op, dtype, of(*a)),
            Op::Binary(op, a, b) => binary(*op, dtype, of(*a), of(*b)),
            Op::Compare(op, a, b) => compare(*op, of(*a), of(*b)),
            Op::Select(condition, a, b) => {
                let taken = if of(*condition) == Whole(0) { b } else { a };
                of(*taken)
            }
            Op::Cast(a) => cast(of(*a), dtype),
            Op::Random { seed, counter } => {
                let seed = self.words[usize::from(*seed)];
                Whole(i128::from(philox(seed, of(*counter).whole() as u64)))
            }
            Op::Reduce(op, a) => {
                let outer = &index[..self.nest.outer];
                if let Some(known) = self.known.borrow().get(&(id, outer.to_vec())) {
                    return *known;
                }
                let inner = self.indices(self.nest.outer, self.nest.rank());
                let all = inner
                    .iter()
                    .map(|inner| self.value(*a, &[outer, &inner[..]].concat()));
                let of = self.nest.values[usize::from(*a)].dtype;
                let result = reduce(*op, of, &all.collect::<Vec<_>>());
                self.known.borrow_mut().insert((id, outer.to_vec()), result);
                result
            }
            op => panic!("{op} is not known"),
        }
    }
}

/// Runs a nest over its buffers, as bytes in little endian. What it reads is what was there before it began.
pub fn run(nest: &Nest, buffers: &mut [Vec<u8>], words: &[u64]) {
    let before = buffers.to_vec();
    let run = Run {
        nest,
        buffers: &before,
        words,
        known: RefCell::default(),
    };
    for outer in run.indices(0, nest.outer) {
        for inner in run.indices(nest.outer, nest.rank()) {
            let index = [&outer[..], &inner[..]].concat();
            for store in nest
                .stores
                .iter()
                .filter(|store| store.level == Level::Inner)
            {
                keep(&run, store, &index, buffers);
            }
        }
        let index = [&outer[..], &vec![0; nest.inner][..]].concat();
        for store in nest
            .stores
            .iter()
            .filter(|store| store.level == Level::Outer)
        {
            keep(&run, store, &index, buffers);
        }
    }
}

fn keep(run: &Run<'_>, store: &millstream_ir::nest::Store, index: &Index, buffers: &mut [Vec<u8>]) {
    let access = &run.nest.accesses[usize::from(store.access)];
    let buffer = usize::from(access.buffer);
    let dtype = run.nest.buffers[buffer].dtype;
    let mut value = run.value(store.value, index);
    let mut place = run.place(access, index);
    if let Some(scatter) = &store.scatter {
        let at = run.value(scatter.index, index).whole() as i64;
        if !(0..run.words[usize::from(scatter.len)] as i64).contains(&at) {
            return;
        }
        place += at * run.stride(scatter.stride);
        if scatter.adds {
            let start = place as usize * dtype.size();
            value = binary(
                BinaryOp::Add,
                dtype,
                read(dtype, &buffers[buffer][start..]),
                value,
            );
        }
    }
    let start = usize::try_from(place).expect("in the buffer") * dtype.size();
    let bytes = to_bits(dtype, value).to_le_bytes();
    buffers[buffer][start..start + dtype.size()].copy_from_slice(&bytes[..dtype.size()]);
}

/// Runs a product over its buffers. Floats are summed in `f64`.
pub fn run_matmul(matmul: &millstream_ir::Matmul, buffers: &mut [Vec<u8>], words: &[u64]) {
    let (axes, dtype) = (matmul.batch, matmul.dtype);
    let lens: Vec<i64> = words[..axes + 3].iter().map(|word| *word as i64).collect();
    let rest = &words[axes + 3..];
    let place = |side: usize, batch: i64, row: i64, column: i64| {
        let strides = &rest[side * (axes + 2)..][..axes + 2];
        let mut place = rest[3 * (axes + 2) + side] as i64;
        let mut left = batch;
        for axis in (0..axes).rev() {
            place += left % lens[axis] * strides[axis] as i64;
            left /= lens[axis];
        }
        place += row * strides[axes] as i64 + column * strides[axes + 1] as i64;
        usize::try_from(place).expect("in the buffer") * dtype.size()
    };
    let wide = if dtype.is_float() { DType::F64 } else { dtype };
    for batch in 0..lens[..axes].iter().product() {
        for (row, column) in
            (0..lens[axes]).flat_map(|row| (0..lens[axes + 1]).map(move |column| (row, column)))
        {
            let mut sum = if dtype.is_float() {
                Float(0.0)
            } else {
                Whole(0)
            };
            for depth in 0..lens[axes + 2] {
                let left = read(dtype, &buffers[0][place(0, batch, row, depth)..]);
                let right = read(dtype, &buffers[1][place(1, batch, depth, column)..]);
                let product = binary(BinaryOp::Mul, wide, left, right);
                sum = binary(BinaryOp::Add, wide, sum, product);
            }
            let start = place(2, batch, row, column);
            let bytes = to_bits(dtype, sum).to_le_bytes();
            buffers[2][start..start + dtype.size()].copy_from_slice(&bytes[..dtype.size()]);
        }
    }
    if let Some(epilogue) = &matmul.epilogue {
        run(
            epilogue,
            &mut buffers[2..],
            &words[matmul.epilogue_words()..],
        );
    }
}
