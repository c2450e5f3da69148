//! The reference evaluator: evaluates a nest by definition, index by index, with the
//! [reference](millstream_ir::scalar) of each operation. Slow, and small enough to verify by reading: tests compare
//! everything else with it. Values are bits.

use std::cell::RefCell;
use std::collections::HashMap;

use millstream_ir::nest::{Access, Level, Op, Store, Stride};
use millstream_ir::{BinaryOp, CompareOp, DType, Matmul, Nest, ReduceOp, scalar};

/// Why the operation exists for its type.
const CHECKED: &str = "the nest is checked";

/// A nest over buffers of bytes.
struct Run<'a> {
    nest: &'a Nest,
    buffers: &'a [Vec<u8>],
    words: &'a [u64],
    /// Results of reductions, by row: other values read them repeatedly.
    reductions: RefCell<HashMap<(u16, Index), u64>>,
}

/// The index of an element.
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

    fn load(&self, access: &Access, place: i64) -> u64 {
        let buffer = usize::from(access.buffer);
        let dtype = self.nest.buffers[buffer].dtype;
        let start = usize::try_from(place).expect("the place is in the buffer") * dtype.size();
        scalar::load(dtype, &self.buffers[buffer][start..])
    }

    fn lens(&self) -> Vec<i64> {
        self.words[..self.nest.rank()]
            .iter()
            .map(|len| *len as i64)
            .collect()
    }

    /// Returns all indices of the axes `from..to`, the last fastest.
    fn indices(&self, from: usize, to: usize) -> Vec<Index> {
        self.lens()[from..to].iter().fold(vec![vec![]], |all, len| {
            let longer = |index: &Index| {
                let index = index.clone();
                (0..*len).map(move |next| [&index[..], &[next]].concat())
            };
            all.iter().flat_map(longer).collect()
        })
    }

    fn dtype(&self, id: u16) -> DType {
        self.nest.values[usize::from(id)].dtype
    }

    /// Evaluates a value at an index.
    fn value(&self, id: u16, index: &Index) -> u64 {
        let dtype = self.dtype(id);
        let of = |id: u16| self.value(id, index);
        match &self.nest.values[usize::from(id)].op {
            Op::Const(bits) => scalar::of_word(dtype, *bits),
            Op::Word(word) => scalar::of_word(dtype, self.words[usize::from(*word)]),
            Op::Index(axis) => index[usize::from(*axis)] as u64,
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
                let (at, len) = (of(*at) as i64, self.words[usize::from(*len)] as i64);
                if !(0..len).contains(&at) {
                    return 0;
                }
                self.load(
                    access,
                    self.place(access, index) + at * self.stride(*stride),
                )
            }
            Op::Unary(op, a) => scalar::unary(*op, dtype).expect(CHECKED)(of(*a)),
            Op::Binary(op, a, b) => scalar::binary(*op, dtype).expect(CHECKED)(of(*a), of(*b)),
            Op::Compare(op, a, b) => scalar::compare(*op, self.dtype(*a))(of(*a), of(*b)),
            Op::Select(condition, a, b) => of(if of(*condition) == 0 { *b } else { *a }),
            Op::Cast(a) => scalar::cast(self.dtype(*a), dtype)(of(*a)),
            Op::Random { seed, counter } => {
                scalar::random(self.words[usize::from(*seed)], of(*counter))
            }
            Op::Reduce(op, a) => {
                let outer = &index[..self.nest.outer];
                if let Some(reductions) = self.reductions.borrow().get(&(id, outer.to_vec())) {
                    return *reductions;
                }
                let inner = self.indices(self.nest.outer, self.nest.rank());
                let all = inner
                    .iter()
                    .map(|inner| self.value(*a, &[outer, &inner[..]].concat()));
                let result = reduce(*op, self.dtype(*a), all);
                self.reductions
                    .borrow_mut()
                    .insert((id, outer.to_vec()), result);
                result
            }
            op => panic!("{op:?} is not supported"),
        }
    }
}

/// Runs a nest over its buffers, as little-endian bytes. It reads the buffers as they were before it began.
pub fn run(nest: &Nest, buffers: &mut [Vec<u8>], words: &[u64]) {
    let before = buffers.to_vec();
    let run = Run {
        nest,
        buffers: &before,
        words,
        reductions: RefCell::default(),
    };
    for outer in run.indices(0, nest.outer) {
        for inner in run.indices(nest.outer, nest.rank()) {
            let index = [&outer[..], &inner[..]].concat();
            for store in nest
                .stores
                .iter()
                .filter(|store| store.level == Level::Inner)
            {
                write_store(&run, store, &index, buffers);
            }
        }
        let index = [&outer[..], &vec![0; nest.inner][..]].concat();
        for store in nest
            .stores
            .iter()
            .filter(|store| store.level == Level::Outer)
        {
            write_store(&run, store, &index, buffers);
        }
    }
}

fn write_store(run: &Run<'_>, store: &Store, index: &Index, buffers: &mut [Vec<u8>]) {
    let access = &run.nest.accesses[usize::from(store.access)];
    let buffer = usize::from(access.buffer);
    let dtype = run.nest.buffers[buffer].dtype;
    let mut value = run.value(store.value, index);
    let mut place = run.place(access, index);
    if let Some(scatter) = &store.scatter {
        let at = run.value(scatter.index, index) as i64;
        if !(0..run.words[usize::from(scatter.len)] as i64).contains(&at) {
            return;
        }
        place += at * run.stride(scatter.stride);
        if scatter.adds {
            let start = place as usize * dtype.size();
            let add = scalar::binary(BinaryOp::Add, dtype).expect(CHECKED);
            value = add(scalar::load(dtype, &buffers[buffer][start..]), value);
        }
    }
    let start = usize::try_from(place).expect("the place is in the buffer") * dtype.size();
    scalar::store(dtype, value, &mut buffers[buffer][start..]);
}

/// Runs a product over its buffers. Floats are summed in `f64`.
pub fn run_matmul(matmul: &Matmul, buffers: &mut [Vec<u8>], words: &[u64]) {
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
        usize::try_from(place).expect("the place is in the buffer") * dtype.size()
    };
    for batch in 0..lens[..axes].iter().product() {
        for (row, column) in
            (0..lens[axes]).flat_map(|row| (0..lens[axes + 1]).map(move |column| (row, column)))
        {
            let pairs = (0..lens[axes + 2]).map(|depth| {
                let left = scalar::load(dtype, &buffers[0][place(0, batch, row, depth)..]);
                let right = scalar::load(dtype, &buffers[1][place(1, batch, depth, column)..]);
                (left, right)
            });
            let sum = dot(dtype, pairs);
            scalar::store(dtype, sum, &mut buffers[2][place(2, batch, row, column)..]);
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

/// Reduces values of this type. Sums and products of floats are computed in `f64` and rounded once.
///
/// # Panics
/// If [`ReduceOp::takes`] refuses the type.
pub fn reduce(op: ReduceOp, dtype: DType, values: impl Iterator<Item = u64>) -> u64 {
    assert!(op.takes(dtype), "{op} of {dtype}");
    let Some(by) = scalar::combines(op) else {
        return first_best(op, dtype, values);
    };
    let is_added = matches!(op, ReduceOp::Sum | ReduceOp::Prod);
    let wide = if is_added { widest(dtype) } else { dtype };
    let (widen, narrow) = (scalar::cast(dtype, wide), scalar::cast(wide, dtype));
    let of_none = scalar::neutral(op, wide);
    let by =
        scalar::binary(by, wide).expect("the operation supports the type that it is computed in");
    narrow(values.map(widen).fold(of_none, by))
}

/// Returns the index of the first best value, or of the first NaN; 0 without values.
fn first_best(op: ReduceOp, dtype: DType, values: impl Iterator<Item = u64>) -> u64 {
    let is_better = match op {
        ReduceOp::ArgMin => scalar::compare(CompareOp::Lt, dtype),
        _ => scalar::compare(CompareOp::Gt, dtype),
    };
    let differs = scalar::compare(CompareOp::Ne, dtype);
    let is_nan = |bits| differs(bits, bits) == 1;
    let better = |best: (usize, u64), next: (usize, u64)| {
        let is_taken = !is_nan(best.1) && (is_nan(next.1) || is_better(next.1, best.1) == 1);
        if is_taken { next } else { best }
    };
    let best = values.enumerate().reduce(better);
    best.map_or(0, |(index, _)| index as u64)
}

/// Returns the sum of products of pairs, as in a matrix product. Floats are computed in `f64` and rounded once.
///
/// # Panics
/// For bools.
pub fn dot(dtype: DType, pairs: impl Iterator<Item = (u64, u64)>) -> u64 {
    let wide = widest(dtype);
    let (widen, narrow) = (scalar::cast(dtype, wide), scalar::cast(wide, dtype));
    let [times, plus] = [BinaryOp::Mul, BinaryOp::Add]
        .map(|op| scalar::binary(op, wide).unwrap_or_else(|| panic!("a product of {dtype}")));
    let products = pairs.map(|(a, b)| times(widen(a), widen(b)));
    narrow(products.fold(0, plus))
}

/// Returns the type that sums of this type are computed in.
const fn widest(dtype: DType) -> DType {
    if dtype.is_float() { DType::F64 } else { dtype }
}
