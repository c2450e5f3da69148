//! What a nest means, by definition: index by index, with values in `f64` and `i128`. Slow, and small enough to be read at
//! once: tests compare everything else with it.

use std::cell::RefCell;
use std::collections::HashMap;

use millstream_ir::nest::{Access, Level, Op, Stride};
use millstream_ir::{BinaryOp, DType, Nest};

use crate::kernels::random::philox;

mod datum;

use datum::Datum::{Float, Whole};
pub use datum::{Datum, of_bits, read, to_bits};
use datum::{binary, cast, compare, reduce, unary};

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
