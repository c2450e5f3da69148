//! Functions at the edges: conditions that their branch changes, indices that wrap around, masks.

use millstream_ir::ssa::{Axis, Builder, Function, Position, Shuffle, Val};
use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp};
use millstream_ir_text::threads;
use rstest::rstest;

use crate::run;

/// Runs a function, and compares with the reference.
pub(crate) fn same(function: &Function, cubes: u32, buffers: &[Vec<u8>], words: &[u64]) {
    let mut expected = buffers.to_vec();
    let strays = threads::run(function, cubes, &mut expected, words);
    assert!(!strays, "{function}");
    let after = run(function, [cubes, 1, 1], buffers, words);
    assert!(after == expected, "{function}\n{after:?}\n{expected:?}");
}

#[test]
fn a_branch_may_change_its_condition() {
    for threads in [64, 40] {
        let k = Builder::new("k", [threads, 1, 1]);
        let (x, out) = (k.read("x", DType::Bool), k.write("out", DType::I64));
        let me = k.thread();
        let flag = k.unset("flag", DType::Bool);
        flag.set(x.get(me));
        let n = k.var("n", 0);
        k.either(
            flag.get(),
            || {
                flag.set(k.bits(DType::Bool, 0));
                n.set(n.get() + 1);
            },
            || n.set(n.get() + 100),
        );
        out.set(me, n.get());
        let x = (0..threads)
            .map(|thread| u8::from(thread % 3 == 0))
            .collect();
        let out = vec![0; 8 * threads as usize];
        same(&k.build().unwrap(), 1, &[x, out], &[]);
    }
}

/// Comparisons of affine values, those of rows and columns among them, that wrap around or end at the ends of their type.
#[rstest]
#[case(0, 1, 5)]
#[case(0, 3, 20)]
#[case(i64::MAX - 10, 1, i64::MAX - 3)]
#[case(i64::MIN, -1, 0)]
#[case(7, -2, -40)]
#[case(0, i64::MAX / 40, 1 << 62)]
#[case(0, i64::MIN, 0)]
#[case(5, 1 << 58, 7)]
#[case(i64::MIN, 1, i64::MIN)]
#[case(i64::MAX, -1, i64::MAX)]
#[case(0, 0, 0)]
#[case(0, i64::MIN + 1, 1)]
#[case(1, 1 << 62, i64::MIN)]
fn comparisons_at_the_ends_are_those_of_the_reference(
    #[case] start: i64,
    #[case] by: i64,
    #[case] with: i64,
    #[values(DType::I64, DType::U64)] dtype: DType,
) {
    let words = [start, by, with].map(|word| word as u64);
    for shape in [[40, 1, 1], [320, 1, 1], [8, 4, 1], [3, 5, 2]] {
        let k = Builder::new("k", shape);
        let [a, b, w] = ["start", "by", "with"].map(|name| k.scalar(name, DType::I64));
        let out = k.write("out", DType::I64);
        let Threads { axes, me, count } = Threads::of(&k, shape);
        let [x, y, z] = axes;
        let rows = [me / 8 * b + me % 8 * a + w, me % 8 * b + a, me / 8 * b + a];
        let values = [me * b + a, x * b + y * a + z, x * b + a - y * w];
        let n = k.var("n", 0);
        for value in values.into_iter().chain(rows) {
            let (value, with) = (value.cast(dtype), w.cast(dtype));
            for (nth, op) in (0..).zip(CompareOp::ALL) {
                let count = || {
                    let [then, otherwise] = [n.get() * 3 + nth, n.get() * 5 + 1];
                    n.set(value.compare(op, with).select(then, otherwise));
                    k.either(
                        value.compare(op, with),
                        || n.set(n.get() * 3 + nth),
                        || n.set(n.get() * 5 + 1),
                    );
                };
                count();
                k.when((me % 3).eq(0), count);
            }
        }
        out.set(me, n.get());
        same(&k.build().unwrap(), 1, &[vec![0; 8 * count]], &words);
    }
}

/// The threads of a cube.
struct Threads<'k> {
    axes: [Val<'k>; 3],
    me: Val<'k>,
    count: usize,
}

impl<'k> Threads<'k> {
    fn of(k: &'k Builder, shape: [u32; 3]) -> Self {
        let axes = Axis::ALL.map(|axis| k.position(Position::Thread, axis));
        let [width, height, _] = shape.map(i64::from);
        Self {
            axes,
            me: axes[0] + (axes[1] + axes[2] * height) * width,
            count: shape.iter().product::<u32>() as usize,
        }
    }
}

/// SplitMix64.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn draw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.draw(all.len() as u64) as usize]
    }
}

/// Returns random bytes of elements of a type.
fn random_bytes(dtype: DType, seed: u64, bytes: usize) -> Vec<u8> {
    let mut draws = Draws(seed);
    let below = if dtype == DType::Bool { 2 } else { 256 };
    (0..bytes).map(|_| draws.draw(below) as u8).collect()
}

/// Accesses whose indices are in bounds of active threads only.
#[test]
fn random_guarded_accesses_are_those_of_the_reference() {
    let given = std::env::var("MILLSTREAM_SEEDS").ok();
    let seeds = given.and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(60) {
        guarded_accesses(seed);
    }
}

/// Runs a random function of guarded accesses.
fn guarded_accesses(seed: u64) {
    const SHAPES: [[u32; 3]; 11] = [
        [40, 1, 1],
        [8, 4, 1],
        [3, 5, 2],
        [1, 16, 1],
        [320, 1, 1],
        [32, 3, 1],
        [96, 2, 1],
        [24, 9, 1],
        [8, 3, 3],
        [512, 1, 1],
        [32, 10, 1],
    ];
    const WORDS: [u64; 13] = [
        0,
        1,
        2,
        3,
        4,
        u64::MAX,
        u64::MAX - 2,
        8,
        16,
        32,
        7,
        1 << 63,
        1 << 61,
    ];
    const TYPES: [DType; 5] = [DType::I64, DType::U32, DType::U8, DType::U16, DType::Bool];
    let mut draws = Draws(seed);
    let (shape, dtype) = (draws.one_of(&SHAPES), draws.one_of(&TYPES));
    let k = Builder::new("k", shape);
    let len = 64 + draws.draw(200);
    let (read, to) = (k.read("read", dtype), k.update("to", dtype));
    let shared = (draws.draw(3) == 0).then(|| k.shared("s", dtype, len as u32));
    let out = k.write("out", DType::I64);
    let words: Vec<u64> = (0..4).map(|_| draws.one_of(&WORDS)).collect();
    let scalars: Vec<_> = (0..4)
        .map(|nth| k.scalar(format!("w{nth}"), DType::I64))
        .collect();
    let Threads { axes, me, count } = Threads::of(&k, shape);
    let by = draws.one_of(&[4_i64, 8, 10, 16, 32]);
    let [row, column] = [me / by, me % by];
    // Many columns make chunks short.
    let more = 20 * draws.draw(3) as i64;
    let more: Vec<_> = (0..more)
        .map(|nth| {
            let var = k.unset(format!("more{nth}"), DType::I64);
            var.set(me * nth + read.get(0).cast(DType::I64));
            var
        })
        .collect();
    let n = k.var("n", 0);
    for _ in 0..6 {
        let mut term = || match draws.draw(6) {
            0 => draws.draw(4) as usize,
            _ => 4 + draws.draw(9) as usize,
        };
        let factor = |nth: usize| match nth {
            0..4 => scalars[nth],
            _ => k.constant([0_i64, 1, 1, 2, -1, 3, 4, -2, 8][nth - 4]),
        };
        let parts = [axes[0], axes[1], axes[2], row, column, me].map(|of| of * factor(term()));
        let first = [0_i64, 0, 1, 5, -3, 40, 60, i64::MAX - 5, i64::MIN + 2];
        let mut index = k.constant(draws.one_of(&first));
        for _ in 0..1 + draws.draw(2) {
            let part = draws.one_of(&parts);
            index = if draws.draw(4) == 0 {
                index - part
            } else {
                index + part
            };
        }
        if draws.draw(4) == 0 {
            // A column.
            index = index.binary(BinaryOp::Xor, 1);
        }
        let lanes_max = (16 / dtype.size()).min(if dtype == DType::Bool { 1 } else { 4 });
        let lanes = i64::from(draws.one_of(&[1_u8, 1, 1, 2, 4])).min(lanes_max as i64);
        if lanes > 1 && draws.draw(2) == 0 {
            index = index * lanes;
        }
        let last = len as i64 - lanes;
        let [above, below] = [(CompareOp::Ge, 0), (CompareOp::Le, last)];
        let [above, below] = [above, below].map(|(op, with)| index.compare(op, with));
        let aligned = (index & (lanes - 1)).eq(0);
        let other = match draws.draw(6) {
            0 => (me % 3).eq(0),
            1 => column.lt(3),
            2 => row.lt(2),
            3 => axes[0].compare(CompareOp::Gt, 2),
            4 => (me % 5).compare(CompareOp::Ne, 0),
            _ => k.bits(DType::Bool, 1),
        };
        let kind = draws.draw(4);
        let access = || {
            if kind < 2 {
                let found = read.get_wide(index, lanes as u8);
                let lanes = (0..lanes as u8).map(|lane| found.lane(lane).cast(DType::I64));
                return n.set(lanes.fold(n.get() * 31 + 1, |sum, lane| sum * 3 + lane));
            }
            // Threads that store to one element store the same.
            let lane = |nth: i64| {
                let value = (index + nth) * 7 + 3;
                match dtype {
                    DType::Bool => (value & 1).eq(0),
                    _ => value.cast(dtype),
                }
            };
            let value = match lanes {
                1 => lane(0),
                _ => k.pack(&(0..lanes).map(lane).collect::<Vec<_>>()),
            };
            shared.filter(|_| kind == 2).unwrap_or(to).set(index, value);
        };
        match draws.draw(3) {
            0 => k.when(above & below & aligned & other, access),
            1 => k.when(other, || k.when(above & below & aligned, access)),
            _ => k.when(above, || {
                k.when(other, || k.when(below, || k.when(aligned, access)));
            }),
        }
    }
    if let Some(shared) = shared {
        k.barrier();
        let found = shared.get(me % len as i64).cast(DType::I64);
        n.set(n.get() * 31 + found);
    }
    let sum = more.iter().fold(n.get(), |sum, var| sum * 3 + var.get());
    out.set(me + k.cube() * count as i64, sum);
    let bytes = len as usize * dtype.size();
    let [read, to] = [1, 2].map(|nth| random_bytes(dtype, seed + nth, bytes));
    let function = k.build().unwrap_or_else(|error| panic!("{seed}: {error}"));
    same(&function, 2, &[read, to, vec![0; 16 * count]], &words);
}

/// Shuffles of any type by any number, and reductions of subgroups beside them.
#[test]
fn random_shuffles_are_those_of_the_reference() {
    (0..100).for_each(shuffles);
}

fn shuffles(seed: u64) {
    const SHAPES: [[u32; 3]; 6] = [
        [64, 1, 1],
        [32, 3, 1],
        [6, 5, 1],
        [1, 7, 1],
        [12, 2, 2],
        [40, 1, 1],
    ];
    const NUMBERS: [i64; 12] = [
        0,
        1,
        2,
        3,
        7,
        15,
        31,
        32,
        -1,
        i64::MIN,
        i64::MAX,
        (1 << 32) + 1,
    ];
    let mut draws = Draws(seed + 77);
    let (shape, dtype) = (draws.one_of(&SHAPES), draws.one_of(&DType::ALL));
    let k = Builder::new("k", shape);
    let (x, by, out) = (
        k.read("x", dtype),
        k.read("by", DType::I64),
        k.write("out", dtype),
    );
    let word = k.scalar("word", DType::I64);
    let Threads { axes, me, count } = Threads::of(&k, shape);
    let fits = |width: &u32| shape[0].is_multiple_of(*width);
    let widths: Vec<u32> = [1, 2, 4, 8, 16, 32].into_iter().filter(fits).collect();
    let mut value = x.get(me);
    for nth in 0..6 {
        let (width, from) = (draws.one_of(&widths), draws.one_of(&Shuffle::ALL));
        let by = match draws.draw(5) {
            0 => word,
            1 => by.get(me),
            2 => k.constant(draws.one_of(&NUMBERS)),
            3 => me % 5,
            _ => axes[0] / 2 - 1,
        };
        if draws.draw(5) == 0 {
            // The same for all threads.
            out.set(me * 8 + 7, x.get(0).shuffle(from, width, by));
        }
        value = value.shuffle(from, width, by);
        out.set(me * 8 + nth, value);
        if !dtype.is_float() && draws.draw(2) == 0 {
            value = value.reduce_subgroup(width, ReduceOp::Max);
        }
    }
    let numbers = (0..count).flat_map(|_| draws.one_of(&NUMBERS).to_le_bytes());
    let [x, out] = [
        random_bytes(dtype, seed, count * dtype.size()),
        vec![0; 8 * count * dtype.size()],
    ];
    let buffers = [x, numbers.collect(), out];
    let function = k.build().unwrap_or_else(|error| panic!("{seed}: {error}"));
    same(&function, 1, &buffers, &[seed % 9]);
}
