//! Sums of products: factors from columns, scalars and memory of any kind, of all threads and of some.

use millstream_ir::ssa::{Axis, Builder, MemoryRef, Position, Val};
use millstream_ir::{CompareOp, DType};

use crate::edges::{Draws, same};

/// The number of random functions if `MILLSTREAM_SEEDS` is not set.
const FUNCTIONS: u64 = 60;
/// The iterations of the loop around the sum.
const TURNS: i64 = 3;

const SHAPES: [[u32; 3]; 9] = [
    [16, 16, 1],
    [8, 4, 1],
    [32, 2, 1],
    [5, 3, 1],
    [64, 1, 1],
    [16, 1, 1],
    [7, 1, 1],
    [4, 4, 2],
    [48, 6, 1],
];

#[test]
fn sums_of_products_have_the_results_of_the_reference() {
    let given = std::env::var("MILLSTREAM_SEEDS").ok();
    let seeds = given.and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(FUNCTIONS) {
        one(seed);
    }
}

/// What factors are made of.
struct Scope<'k> {
    width: i64,
    axes: [Val<'k>; 3],
    me: Val<'k>,
    cube: Val<'k>,
    word: Val<'k>,
    data: MemoryRef<'k>,
    shared: MemoryRef<'k>,
    out: MemoryRef<'k>,
    table: MemoryRef<'k>,
}

impl<'k> Scope<'k> {
    /// Returns a random factor. `k` is the index of the loop.
    fn factor(&self, draws: &mut Draws, k: Val<'k>) -> Val<'k> {
        let ([x, y, _], width) = (self.axes, self.width);
        match draws.draw(12) {
            0 => self.shared.get(y * width + k),
            1 => self.shared.get(k * width + x),
            2 => self.shared.get(x * width + y + k),
            3 => self.data.get(self.me + self.cube + k),
            4 => self.data.get(k),
            5 => self.data.get(self.cube + k),
            // Rows whose distance is a launch word: those of threads that are not active may be out of bounds.
            6 => self.data.get(y * self.word + x),
            7 => self.data.get(self.me * 2 + k),
            8 => self.out.get(self.me),
            9 => self.table.get((self.me + k) % 5),
            10 => self.me.cast(DType::F32),
            _ => self.data.get(y * width) + 1.0,
        }
    }
}

fn one(seed: u64) {
    let mut draws = Draws(seed + 815);
    let shape = draws.one_of(&SHAPES);
    let threads: i64 = shape.iter().map(|axis| i64::from(*axis)).product();
    let cubes = 1 + draws.draw(5) as u32;
    let k = Builder::new("k", shape);
    let (data, out) = (k.read("data", DType::F32), k.update("out", DType::F32));
    let word = k.scalar("word", DType::I64);
    let axes = Axis::ALL.map(|axis| k.position(Position::Thread, axis));
    let [width, height, _] = shape.map(i64::from);
    let me = axes[0] + (axes[1] + axes[2] * height) * width;
    let bits = (0..5_u16).map(|at| f32::from(at).sqrt().to_bits().into());
    let cube = k.cube();
    let scope = Scope {
        width,
        axes,
        me,
        cube,
        word,
        data,
        shared: k.shared(
            "shared",
            DType::F32,
            (threads + TURNS * width + width * width) as u32,
        ),
        out,
        table: k.table("table", DType::F32, bits.collect()),
    };
    // Each thread stores several elements: all of them before a barrier.
    for part in 0..1 + (TURNS * width + width * width).div_euclid(threads) {
        scope
            .shared
            .set(me + part * threads, data.get(me + part + cube));
    }
    k.barrier();
    let sum = k.var("sum", 0.25_f32);
    // The rows of the active threads alone lie within the data.
    let rows = 1 + draws.draw(height as u64) as i64;
    let word_of_rows = 1 + draws.draw(40) as i64;
    let add = |draws: &mut Draws| {
        k.range(0, TURNS, 1, |turn| {
            let [a, b] = [(), ()].map(|()| scope.factor(draws, turn));
            let product = a * b;
            match draws.draw(4) {
                0 => sum.set(product + sum.get()),
                1 => sum.set(sum.get() + product * 1.0 + product),
                _ => sum.set(sum.get() + product),
            }
        });
    };
    match draws.draw(4) {
        0 => k.when(axes[1].lt(rows), || add(&mut draws)),
        1 => k.when((me % 3).lt(2), || add(&mut draws)),
        2 => k.when((cube % 2).lt(1), || add(&mut draws)),
        _ => add(&mut draws),
    }
    let home = me + cube * threads;
    k.barrier();
    out.set(home + threads, sum.get());
    let function = k.build().unwrap_or_else(|error| panic!("{seed}: {error}"));
    let all = threads * i64::from(cubes + 2);
    let len = (2 * threads + width * width + 16).max(height * word_of_rows + width);
    let float = |draws: &mut Draws| (draws.draw(1 << 24) as f32).sqrt().sin();
    let mut bytes = |len: i64| {
        (0..len)
            .flat_map(|_| float(&mut draws).to_le_bytes())
            .collect()
    };
    let buffers = [bytes(len + i64::from(cubes)), bytes(all)];
    same(&function, cubes, &buffers, &[word_of_rows as u64]);
}

/// The elements that a loop reads in place are those of the active threads: those of others lie before and behind the buffer.
#[test]
fn products_of_some_threads_read_nothing_beyond_a_buffer() {
    const ACTIVE: i64 = 100;
    for before in [0, 21] {
        let k = Builder::new("some", [16, 16, 1]);
        let (data, out) = (k.read("data", DType::F32), k.update("out", DType::F32));
        let [x, y] = [Axis::X, Axis::Y].map(|axis| k.position(Position::Thread, axis));
        let (me, cube) = (y * 16 + x, k.cube());
        let shared = k.shared("shared", DType::F32, 256);
        shared.set(me, me.cast(DType::F32));
        k.barrier();
        let home = cube * 256 + me;
        // Of each cube, or, with a mask, of some of the first and of the last one.
        let first = home.compare(CompareOp::Ge, before);
        let last = home.lt(256 + ACTIVE);
        k.when(first & last & me.lt(ACTIVE), || {
            let element = data.get(home - before);
            let product = shared.get(y * 16) * shared.get(x);
            out.set(home, element + product + element * shared.get(y * 16));
        });
        let function = k.build().unwrap();
        let data = (0..256 + ACTIVE - before).flat_map(|at| (at as f32).to_le_bytes());
        same(&function, 2, &[data.collect(), vec![0; 4 * 512]], &[]);
    }
}
