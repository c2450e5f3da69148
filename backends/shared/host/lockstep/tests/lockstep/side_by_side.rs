//! Cubes side by side: random functions whose control flow, bounds, indices and variables differ from cube to cube, with
//! barriers and reductions below them.

use millstream_ir::ssa::{Axis, Builder, MemoryRef, Position, Shuffle, Val, Var};
use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp};

use millstream_ir_text::threads;
use millstream_lockstep::Columns;

use crate::edges::{Draws, same};
use crate::run_columns;

/// The number of random functions if `MILLSTREAM_SEEDS` is not set.
const FUNCTIONS: u64 = 60;
/// The elements of each cube and of each thread in the buffers.
const OF_CUBE: i64 = 8;
const DEPTH_MAX: usize = 3;

#[test]
fn random_functions_of_cubes_that_differ_have_the_results_of_the_reference() {
    let given = std::env::var("MILLSTREAM_SEEDS").ok();
    let seeds = given.and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(FUNCTIONS) {
        one(seed);
    }
}

/// Rows of threads that follow each other in memory, as a launch word says, from where each of the active cubes begins.
#[test]
fn rows_of_some_cubes_begin_where_these_begin() {
    let k = Builder::new("rows", [8, 4, 1]);
    let (data, begins) = (k.read("data", DType::F32), k.read("begins", DType::I64));
    let (out, width) = (k.update("out", DType::F32), k.scalar("width", DType::I64));
    let [column, row] = [Axis::X, Axis::Y].map(|axis| k.position(Position::Thread, axis));
    let cube = k.cube();
    let first = begins.get(cube);
    k.when(cube.compare(CompareOp::Ge, 2), || {
        let at = first + row * width + column;
        out.set(at, data.get(at) + 1.0);
    });
    let function = k.build().unwrap();
    let data = (0..256_u16).flat_map(|at| f32::from(at).to_le_bytes());
    let begins = [96_i64, 0, 192, 32, 160].map(i64::to_le_bytes).concat();
    let buffers = [data.collect(), begins, vec![0; 4 * 256]];
    for cubes in 3..=5 {
        same(&function, cubes, &buffers, &[8]);
    }
}

/// What statements use.
struct Scope<'k> {
    k: &'k Builder,
    threads: i64,
    /// The threads along x.
    width: u32,
    me: Val<'k>,
    /// The same by a launch word, and the place of the cube among those of `out`.
    rows: Val<'k>,
    home: Val<'k>,
    /// Values that are the same for all threads of a cube.
    of_cube: Vec<Val<'k>>,
    /// Any values.
    known: Vec<Val<'k>>,
    shared: MemoryRef<'k>,
    data: MemoryRef<'k>,
    table: MemoryRef<'k>,
    out: MemoryRef<'k>,
    sums: MemoryRef<'k>,
    local: MemoryRef<'k>,
    /// The same for all threads of a cube, and of a thread alone.
    common: Vec<Var<'k>>,
    own: Vec<Var<'k>>,
}

fn one(seed: u64) {
    const SHAPES: [[u32; 3]; 10] = [
        [8, 1, 1],
        [64, 1, 1],
        [16, 4, 1],
        [5, 3, 2],
        [1, 6, 1],
        [1, 1, 1],
        [96, 1, 1],
        [128, 1, 1],
        [8, 4, 1],
        [512, 1, 1],
    ];
    let mut draws = Draws(seed + 4711);
    let shape = draws.one_of(&SHAPES);
    let threads: i64 = shape.iter().map(|axis| i64::from(*axis)).product();
    // Of large ones, more than run side by side.
    let cubes = 1 + draws.draw(7) as u32;
    let k = Builder::new("k", shape);
    let data = k.read("data", DType::I64);
    let (out, sums) = (k.update("out", DType::I64), k.update("sums", DType::I64));
    let shared = k.shared("shared", DType::I64, (threads + OF_CUBE) as u32);
    let (word, columns) = (
        k.scalar("word", DType::I64),
        k.scalar("columns", DType::I64),
    );
    let axes = Axis::ALL.map(|axis| k.position(Position::Thread, axis));
    let [width, height, _] = shape.map(i64::from);
    let me = axes[0] + (axes[1] + axes[2] * height) * width;
    let cube = k.cube();
    let rows = axes[0] + (axes[1] + axes[2] * height) * columns;
    let home = cube.binary(BinaryOp::Xor, draws.draw(4) as i64);
    let by = draws.one_of(&[2_i64, 4, 16]);
    let mut scope = Scope {
        k: &k,
        threads,
        width: shape[0],
        me,
        rows,
        home,
        of_cube: vec![cube, word, k.constant(3), cube % 2, cube * 3 + word],
        known: vec![
            me,
            me + cube * threads,
            me % by,
            me / by,
            axes[1],
            cube - me,
        ],
        shared,
        data,
        table: k.table("table", DType::I64, (5..13).collect()),
        out,
        sums,
        local: k.local("local", DType::I64, 4),
        common: (0..2).map(|nth| k.var(format!("c{nth}"), nth)).collect(),
        own: (0..2).map(|nth| k.var(format!("o{nth}"), nth)).collect(),
    };
    shared.set(me, me * 3 + cube);
    k.barrier();
    block(&mut scope, &mut draws, 8, DEPTH_MAX, true);
    let all = scope.own.iter().chain(&scope.common);
    let total = all.fold(me, |sum, var| sum * 31 + var.get());
    out.set((me + cube * threads) * OF_CUBE, total + shared.get(me));
    let len = threads * i64::from(cubes);
    let data = (0..len + 2 * OF_CUBE).flat_map(|_| (draws.draw(50) as i64 - 10).to_le_bytes());
    let buffers = [
        data.collect(),
        vec![0; (8 * threads * i64::from(cubes.next_multiple_of(4)) * OF_CUBE) as usize],
        vec![0; 8 * OF_CUBE as usize],
    ];
    let words = [draws.draw(4), width.cast_unsigned()];
    drop(scope);
    let function = k.build().unwrap_or_else(|error| panic!("{seed}: {error}"));
    let mut expected = buffers.to_vec();
    assert!(!threads::run(&function, cubes, &mut expected, &words));
    // With what another launch has left.
    let columns = Columns::new(&function).unwrap();
    for (cubes, words) in [
        (cubes, [words[0] + 1, words[1]]),
        (1, words),
        (cubes, words),
    ] {
        let mut others = buffers.clone();
        others[0].rotate_left(8);
        run_columns(&columns, &function, [cubes, 1, 1], &others, &words);
    }
    let after = run_columns(&columns, &function, [cubes, 1, 1], &buffers, &words);
    assert!(after == expected, "{seed}: {function}");
}

/// Returns a value below `len`, and not below 0.
fn within<'k>(value: Val<'k>, len: i64) -> Val<'k> {
    (value & i64::MAX) % len
}

/// Writes statements. `meets`: all threads of a cube execute them together, or none does.
fn block(scope: &mut Scope<'_>, draws: &mut Draws, count: u64, depth: usize, meets: bool) {
    let (known, of_cube) = (scope.known.len(), scope.of_cube.len());
    for _ in 0..1 + draws.draw(count) {
        statement(scope, draws, depth, meets);
    }
    scope.known.truncate(known);
    scope.of_cube.truncate(of_cube);
}

fn statement(scope: &mut Scope<'_>, draws: &mut Draws, depth: usize, meets: bool) {
    let k = scope.k;
    let same = draws.one_of(&scope.of_cube);
    let other = draws.one_of(&scope.of_cube);
    let any = match draws.draw(3) {
        0 => same,
        _ => draws.one_of(&scope.known),
    };
    let op = draws.one_of(&CompareOp::ALL);
    match draws.draw(18) {
        0 => scope.of_cube.push(same * 2 + other),
        1 => scope
            .of_cube
            .push(same.compare(op, other).select(same, other + 1)),
        2 => scope.known.push(any + same * draws.draw(4) as i64),
        3 => scope.known.push(any.compare(op, same).select(any, other)),
        4 => {
            let var = draws.one_of(&scope.own);
            var.set(var.get() * 3 + any);
            scope.known.push(var.get());
        }
        5 if meets => {
            let var = draws.one_of(&scope.common);
            var.set(var.get() * 3 + same);
            scope.of_cube.push(var.get());
        }
        6 => {
            let len = scope.threads + OF_CUBE;
            let at = match draws.draw(6) {
                4 => scope.rows,
                5 => scope.rows + within(same, OF_CUBE),
                0 => within(any, len),
                1 => within(same, OF_CUBE),
                2 => scope.me + within(same, OF_CUBE),
                _ => scope.me,
            };
            scope.known.push(scope.data.get(at));
            if meets {
                scope.known.push(scope.shared.get(at));
            }
        }
        7 => {
            let thread = draws.one_of(&[scope.me, scope.rows]);
            let at = (thread + scope.home * scope.threads) * OF_CUBE;
            let at = at + 1 + draws.draw(OF_CUBE as u64 - 1) as i64;
            scope.out.set(at, any);
            scope.known.push(scope.out.get(at));
        }
        8 => {
            scope.sums.add(within(any, OF_CUBE), same);
            scope.sums.add(within(same, OF_CUBE), any);
        }
        9 => {
            let at = match draws.draw(2) {
                0 => within(any, 4),
                _ => within(same, 4),
            };
            scope.local.set(at, any);
            scope.known.push(scope.local.get(within(same, 4)));
        }
        10 if meets => {
            // Each thread has an element, or all of them store the same.
            k.barrier();
            match draws.draw(3) {
                0 => scope.shared.set(within(same, scope.threads), other),
                1 => k.when(scope.me.compare(op, same), || {
                    scope.shared.set(scope.me, any);
                }),
                _ => scope.shared.set(-scope.me + (scope.threads - 1), any),
            }
            k.barrier();
            let found = scope.shared.get(within(same, scope.threads));
            scope.known.push(found);
            k.barrier();
        }
        15 if meets => {
            let is_width = |width: &u32| scope.width.is_multiple_of(*width);
            let widths: Vec<u32> = [2, 4, 8, 16, 32].into_iter().filter(is_width).collect();
            if widths.is_empty() {
                return;
            }
            let width = draws.one_of(&widths);
            let op = draws.one_of(&[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min]);
            let from = draws.one_of(&[Shuffle::Lane, Shuffle::Xor, Shuffle::Down, Shuffle::Up]);
            scope.known.push(match draws.draw(3) {
                0 => any.reduce_subgroup(width, op),
                1 => any.shuffle(from, width, same),
                _ => any.shuffle(from, width, draws.one_of(&scope.known)),
            });
        }
        16 => {
            let at = within(draws.one_of(&[any, same, scope.rows]), 8);
            let pair = scope.data.get_wide(at * 2, 2);
            scope.known.push(pair.lane(0) - pair.lane(1));
            scope.known.push(scope.table.get(at));
        }
        17 => {
            let flag = k.var("flag", any.compare(op, same));
            k.when(other.compare(op, same), || flag.set(same.compare(op, any)));
            let small = any.cast(DType::U8) + scope.me.cast(DType::U8);
            scope
                .known
                .push(flag.get().select(small.cast(DType::I64), any));
        }
        11 if meets => {
            let op = draws.one_of(&[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Prod]);
            scope.of_cube.push(any.reduce(op));
        }
        12 if depth > 0 => {
            let is_same = draws.draw(2) == 0;
            let condition = if is_same { same } else { any }.compare(op, other);
            let ways = std::cell::RefCell::new((&mut *scope, draws));
            let way = |count| {
                let (scope, draws) = &mut *ways.borrow_mut();
                block(scope, draws, count, depth - 1, meets && is_same);
            };
            k.either(condition, || way(4), || way(2));
        }
        13 if depth > 0 => {
            let is_same = draws.draw(2) == 0;
            let start = if is_same {
                within(same, 3)
            } else {
                within(any, 9)
            };
            let start = match draws.draw(3) {
                0 if is_same => same,
                0 => any,
                _ => start,
            };
            let end = match draws.draw(3) {
                0 => start + draws.draw(4) as i64,
                _ => within(other, 12),
            };
            let step = match draws.draw(3) {
                0 => within(other, 4) + 3,
                _ => k.constant(draws.draw(4) as i64 + 2),
            };
            let turns = scope.own[0];
            k.range(start, end, step, |index| {
                turns.set(turns.get() + index);
                // Not for long.
                k.when(turns.get().compare(CompareOp::Gt, 1_i64 << 40), || {
                    turns.set(0);
                });
                let scope = &mut *scope;
                match is_same {
                    true => scope.of_cube.push(index),
                    false => scope.known.push(index),
                }
                block(scope, draws, 3, depth - 1, meets && is_same);
                if draws.draw(3) == 0 {
                    let condition = if is_same { index } else { any };
                    k.when(condition.compare(op, other), || match draws.draw(2) {
                        0 => k.break_(),
                        _ => k.continue_(),
                    });
                }
                match is_same {
                    true => scope.of_cube.pop(),
                    false => scope.known.pop(),
                };
            });
        }
        14 if depth > 0 => {
            let turns = k.var("turns", within(same, 4));
            let is_same = draws.draw(2) == 0;
            if !is_same {
                turns.set(within(any, 5));
            }
            k.loop_(|| {
                turns.set(turns.get() - 1);
                k.when(turns.get().compare(CompareOp::Lt, 0), || k.break_());
                block(scope, draws, 3, depth - 1, meets && is_same);
            });
        }
        _ => {}
    }
}
