//! SSA functions with every statement of control flow, and accesses out of bounds: by hand and random ones, whose results
//! the [reference](millstream_ir_text::threads) defines.

mod atomics;
mod random;

pub use atomics::atomics;
use millstream_ir::CompareOp;
use millstream_ir::DType;
use millstream_ir::ssa::{Builder, Function};
use millstream_ir_text::threads;
pub use random::{Random, random};

use crate::data::elements;
use crate::functions::Case;

/// Collatz sequences, with each way to leave a block: how many steps a number takes to 1, or -1 if more than `most`.
pub fn collatz() -> Case {
    let k = Builder::new("collatz", [32, 1, 1]);
    let out = k.write("out", DType::I64);
    let (n, most) = (k.len(out).cast(DType::I64), k.scalar("most", DType::I64));
    let i = k.index();
    k.when(!i.lt(n), || k.return_());
    let (x, steps) = (k.var("x", i + 1), k.var("steps", 0));
    k.while_(
        || x.get().compare(CompareOp::Ne, 1),
        || {
            k.when(!steps.get().lt(most), || {
                out.set(i, -1);
                k.return_();
            });
            steps.set(steps.get() + 1);
            k.when((x.get() % 2).eq(0), || {
                x.set(x.get() / 2);
                k.continue_();
            });
            x.set(x.get() * 3 + 1);
        },
    );
    out.set(i, steps.get());
    const MOST: i64 = 100;
    let expected = (1..=75_i64).flat_map(|mut x| {
        let mut steps = 0;
        while x != 1 && steps <= MOST {
            x = if x % 2 == 0 { x / 2 } else { 3 * x + 1 };
            steps += 1;
        }
        (if steps > MOST { -1 } else { steps }).to_le_bytes()
    });
    Case {
        function: k.build().unwrap(),
        cubes: 3,
        buffers: vec![vec![0; 8 * 75]],
        words: vec![75, MOST as u64],
        expected: expected.collect(),
    }
}

/// A sum over a cube by halves: a `while` with a barrier, whose condition is the same for all threads.
pub fn halves() -> Case {
    let k = Builder::new("halves", [64, 1, 1]);
    let (x, out) = (k.read("x", DType::I64), k.write("out", DType::I64));
    let tile = k.shared("tile", DType::I64, 64);
    let i = k.thread();
    tile.set(i, x.get(k.index()));
    k.barrier();
    let width = k.var("width", k.threads());
    k.while_(
        || k.constant(1).lt(width.get()),
        || {
            width.set(width.get() / 2);
            k.when(i.lt(width.get()), || {
                tile.set(i, tile.get(i) + tile.get(i + width.get()));
            });
            k.barrier();
        },
    );
    k.when(i.eq(0), || out.set(k.cube(), tile.get(0)));
    let bytes = |values: &[i64]| values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let values: Vec<i64> = (0..128).map(|i| i * i % 37).collect();
    let sums: Vec<i64> = values.chunks(64).map(|half| half.iter().sum()).collect();
    Case {
        function: k.build().unwrap(),
        cubes: 2,
        buffers: vec![bytes(&values), vec![0; 16]],
        words: Vec::new(),
        expected: bytes(&sums),
    }
}

/// Checked accesses of every kind to memory of this type, in bounds and out of bounds.
pub fn clipped(dtype: DType) -> Case {
    const LEN: i64 = 6;
    /// The elements of a thread's results.
    const OWN: i64 = 8;
    // Odd: the last pair is out of bounds in part.
    const OUT_LEN: i64 = 16 * OWN + 1;
    let k = Builder::new("clipped", [16, 1, 1]);
    k.check_bounds();
    let (x, out) = (k.read("x", dtype), k.update("out", dtype));
    let (shared, local) = (k.shared("shared", dtype, 6), k.local("local", dtype, 6));
    let i = k.thread();
    // Copies 16 elements of memory that has six.
    shared.set(i, x.get(i));
    k.range(0, 16, 1, |at| local.set(at, x.get(at)));
    k.barrier();
    // -2 .. 11, and far away.
    let at = k.var("at", i - 2);
    k.when(i.eq(14), || at.set(i64::MAX));
    k.when(i.eq(15), || at.set(i64::MIN));
    let (at, own) = (at.get(), i * OWN);
    for (nth, memory) in (0..).zip([x, shared, local]) {
        out.set(own + nth, memory.get(at));
    }
    let zero = k.bits(dtype, 0);
    local.set(at, zero);
    out.set(own + 3, local.get(0));
    let pair = i * 2 - 4;
    out.set(own + 4, x.get_wide(pair, 2));
    out.set(own + 6, shared.get_wide(pair, 2));
    out.set(-i - 1, zero);
    out.set(i + OUT_LEN, zero);
    out.set(OUT_LEN - 1, zero.splat(2));
    if dtype.size() >= 4 {
        let one = k.constant(1).cast(dtype);
        out.add(i + OUT_LEN, one);
        k.barrier();
        shared.add(pair, one);
        k.barrier();
        out.set(own + 1, shared.swap(at, one));
    }
    let buffers = [(LEN, 1), (OUT_LEN, 2)];
    let buffers = buffers.map(|(len, seed)| elements(dtype, len as usize, seed, false));
    let words = vec![LEN as u64, OUT_LEN as u64];
    case(k.build().unwrap(), 1, buffers.to_vec(), words).0
}

/// Returns a launch with the results of the reference, and whether it accesses something out of bounds.
fn case(function: Function, cubes: u32, buffers: Vec<Vec<u8>>, words: Vec<u64>) -> (Case, bool) {
    let mut after = buffers.clone();
    let is_out_of_bounds = threads::run(&function, cubes, &mut after, &words);
    let expected = after.pop().unwrap_or_default();
    let case = Case {
        function,
        cubes,
        buffers,
        words,
        expected,
    };
    (case, is_out_of_bounds)
}
