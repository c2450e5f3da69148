//! Checks as statements: they do what checked accesses do, for every index and length, access nothing out of bounds
//! themselves, and are left out where they are known to hold.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

use millstream_ir::ssa::{Builder, Function, MemoryRef, Stmt, Val, Var, parse, statements};
use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp};
use millstream_ir_text::threads;
use proptest::prelude::*;
use rstest::rstest;

/// Random numbers.
struct Draws(u64);

impl Draws {
    /// Returns a number below a limit.
    fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Numbers near which indices wrap.
const HOSTILE: [i64; 14] = [
    0,
    1,
    2,
    3,
    7,
    -1,
    -2,
    1 << 31,
    (1 << 31) - 1,
    (1 << 32) - 1,
    i64::MAX,
    i64::MAX - 1,
    i64::MIN,
    i64::MIN + 1,
];
const INTEGERS: [DType; 7] = [
    DType::I64,
    DType::U64,
    DType::I32,
    DType::U32,
    DType::U8,
    DType::I16,
    DType::I8,
];
const X_LEN: u64 = 23;
const LOCAL_LEN: u32 = 12;

/// What the statements of a random function use.
struct Scope<'k> {
    /// The indices of the loops around.
    indices: Vec<Val<'k>>,
    words: [Val<'k>; 2],
    /// The second and third are written.
    memory: [MemoryRef<'k>; 4],
    sum: Var<'k>,
    moved: Var<'k>,
    falling: Var<'k>,
}

/// Returns a function with loops whose indices are mostly even.
fn function(draws: &mut Draws) -> Function {
    let k = Builder::new("even", [1, 1, 1]);
    k.check_bounds();
    let words = ["a", "b"].map(|name| k.scalar(name, DType::I64));
    let (x, y) = (k.read("x", DType::U32), k.update("y", DType::U32));
    let mut scope = Scope {
        indices: vec![],
        words,
        memory: [
            x,
            y,
            k.local("own", DType::U32, LOCAL_LEN),
            k.table("table", DType::U32, (3..20).collect()),
        ],
        sum: k.var("sum", 1_u32),
        moved: k.var("moved", words[0]),
        falling: k.var("falling", draws.of(&[11_i64, 30])),
    };
    for _ in 0..2 {
        repeat(&k, draws, &mut scope, 2);
    }
    y.set(0, scope.sum.get());
    k.build().unwrap()
}

fn repeat<'k>(k: &'k Builder, draws: &mut Draws, scope: &mut Scope<'k>, depth: u32) {
    let start = match draws.below(3) {
        0 => k.constant(0),
        1 => k.constant(draws.of(&HOSTILE)),
        _ => scope.words[1],
    };
    let step = draws.of(&[1_i64, 1, 1, 2, 3, 128, 1 << 40, 1 << 62]);
    let count = draws.below(12) as i64;
    let end = match draws.below(4) {
        0 if step == 1 => k
            .len(draws.of(&scope.memory))
            .bits(DType::I64)
            .min(start + count),
        // No iteration if the sum wraps.
        _ => start + count.wrapping_mul(step),
    };
    let step = match draws.below(3) {
        0 => scope.words[0].max(1).min(1) * step,
        _ => k.constant(step),
    };
    k.range(start, end, step, |i| {
        scope.indices.push(i);
        for _ in 0..1 + draws.below(4) {
            statement(k, draws, scope);
        }
        if depth > 0 && draws.below(3) == 0 {
            repeat(k, draws, scope, depth - 1);
        }
        scope.indices.pop();
    });
}

fn statement<'k>(k: &'k Builder, draws: &mut Draws, scope: &Scope<'k>) {
    let at = index(k, draws, scope, 3).cast(DType::I64);
    let memory = draws.of(&scope.memory);
    let len = k.len(memory);
    let (sum, lanes) = (scope.sum, draws.of(&[1, 1, 1, 2]));
    match draws.below(14) {
        // A variable that only falls, most of the time, and a difference of what is not less.
        11 => {
            let by = draws.of(&[0_i64, 1, 2, 3]);
            let op = draws.of(&[BinaryOp::Div, BinaryOp::Shr]);
            scope.falling.set(scope.falling.get().binary(op, by));
        }
        12 if draws.below(4) == 0 => {
            scope
                .falling
                .set(draws.of(&[at, k.constant(9), k.constant(-1)]));
        }
        12 => {
            let falling = scope.falling.get();
            k.when(
                falling.compare(draws.of(&[CompareOp::Le, CompareOp::Lt, CompareOp::Ge]), at),
                || {
                    let of = draws.of(&[at - falling, falling, falling + 3]);
                    sum.set(sum.get() * 31 + memory.get(of));
                },
            );
        }
        0 => memory_of(scope, draws).set(at, sum.get()),
        // A word of a struct, of an array in one, and of one of which the length is compared.
        7 => {
            let word = at * 3 + draws.below(3) as i64;
            memory_of(scope, draws).set(word, memory.get(word) + sum.get());
        }
        8 => {
            let inside = index(k, draws, scope, 2).cast(DType::I64);
            let inside = inside.bits(DType::U64).lt(3).select(inside, 1_i64 << 60);
            let word = at * 3 + inside;
            memory_of(scope, draws).set(word, memory.get(word) + sum.get());
        }
        9 => {
            let word = at * 3 + draws.below(4) as i64;
            k.when(at.bits(DType::U64).lt(len / 3), || {
                sum.set(sum.get() * 31 + memory.get(word));
            });
        }
        1 if lanes == 2 => memory_of(scope, draws).set(at * 2, sum.get().splat(2)),
        2 => {
            let is_within = match draws.below(3) {
                0 => at.bits(DType::U64).lt(len),
                1 => at.lt(len.bits(DType::I64)),
                _ => !at.bits(DType::U64).compare(CompareOp::Ge, len),
            };
            k.when(is_within, || sum.set(sum.get() * 31 + memory.get(at)));
        }
        3 => scope.moved.set(at),
        4 => k.when(sum.get().lt(1_u32 << 20), || k.continue_()),
        5 => {
            scope.memory[1].add(at, sum.get());
        }
        6 if lanes == 2 => {
            let pair = memory.get_wide(at * 2, 2);
            sum.set(sum.get() * 31 + pair.lane(0) - pair.lane(1));
        }
        _ => sum.set(sum.get() * 31 + memory.get(at)),
    }
}

/// Returns memory that is written.
fn memory_of<'k>(scope: &Scope<'k>, draws: &mut Draws) -> MemoryRef<'k> {
    scope.memory[1 + draws.below(2) as usize]
}

/// Returns an integer of any type.
fn index<'k>(k: &'k Builder, draws: &mut Draws, scope: &Scope<'k>, depth: u32) -> Val<'k> {
    if depth == 0 || draws.below(4) == 0 {
        return match draws.below(8) {
            0 => k.constant(draws.of(&HOSTILE)),
            1 => draws.of(&scope.words),
            2 => k.cube(),
            3 => draws.of(&[scope.moved, scope.falling]).get(),
            _ => draws.of(&scope.indices),
        };
    }
    let a = index(k, draws, scope, depth - 1);
    let mut other = |of: Val<'k>| index(k, draws, scope, depth - 2.min(depth)).cast(of.of().dtype);
    let b = other(a);
    match draws.below(14) {
        12 => a.lt(b).select(a, b),
        13 => a.lt(draws.of(&[3_i64, 12])).select(a, b),
        0..=3 => a + b,
        4 | 5 => a - b,
        6 => a * b,
        7 => a * draws.of(&[2_i64, 3, -1, -2]),
        8 => a.cast(draws.of(&INTEGERS)),
        9 => a.binary(
            draws.of(&[BinaryOp::And, BinaryOp::Rem, BinaryOp::Div, BinaryOp::Shr]),
            draws.of(&[7_i64, 15]),
        ),
        10 => a.binary(BinaryOp::Shl, draws.of(&[1_i64, 2])),
        _ => a.min(b).unary(UnaryOp::Neg),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn checks_as_statements_do_the_same_and_stay_within_bounds(seed in any::<u64>()) {
        let draws = &mut Draws(seed);
        let function = function(draws);
        let y_len = draws.of(&[1_u64, 2, 9, 40]);
        // The lengths of the buffers, as `len` and `check_bounds` have added them.
        let words: Vec<u64> = function.scalars.iter().map(|word| match word.name.as_str() {
            "x_len" => X_LEN,
            "y_len" => y_len,
            _ => match draws.below(3) {
                0 => draws.of(&HOSTILE).cast_unsigned(),
                _ => draws.below(12),
            },
        }).collect();
        let of_len = |len: u64| -> Vec<u8> { (0..len as u32 * 4).map(|at| (at * 37 % 251) as u8).collect() };
        let before = vec![of_len(X_LEN), of_len(y_len)];
        let (mut expected, mut given) = (before.clone(), before);
        threads::run(&function, 2, &mut expected, &words);
        let with_checks = function.with_checks();
        prop_assert!(with_checks.check().is_ok(), "{function}\n{with_checks}");
        let strays = threads::run(&with_checks, 2, &mut given, &words);
        prop_assert!(!strays, "{words:?}\n{function}\n{with_checks}");
        prop_assert_eq!(given, expected, "{:?}\n{}\n{}", words, function, with_checks);
    }
}

/// Indices that are within bounds in the first and in the last iteration, but not in all.
#[rstest]
#[case::of_64_bits([0, (1 << 62) + 1, 1 << 61], (DType::I64, 4, 0))]
#[case::of_8_bits([0, 300, 1], (DType::U8, 1, 1))]
#[case::of_7_bits_and_a_sign([0, 200, 1], (DType::I8, 1, 1))]
#[case::down([0, 3, 1], (DType::I64, -(1 << 62), 0))]
fn an_index_that_wraps_is_checked(
    #[case] bounds: [i64; 3],
    #[case] (narrow, slope, other): (DType, i64, i64),
) {
    let [start, end, step] = bounds;
    let k = Builder::new("wraps", [1, 1, 1]);
    k.check_bounds();
    let y = k.update("y", DType::U32);
    k.range(start, end, step, |i| {
        let at = i.cast(narrow).cast(DType::I64) * slope - i * other;
        y.set(at, y.get(at) + 1);
    });
    let function = k.build().unwrap();
    let (mut expected, mut given) = (vec![vec![0; 8]], vec![vec![0; 8]]);
    assert!(threads::run(&function, 1, &mut expected, &[2]));
    assert!(!threads::run(&function.with_checks(), 1, &mut given, &[2]));
    assert_eq!(given, expected);
}

/// In text, a variable is also an array of one element: what a store out of its bounds did not store is not known of it.
#[test]
fn a_store_out_of_bounds_of_a_variable_says_nothing_of_what_it_holds() {
    let text = "
kernel aliased threads 1 1 1 checked
  update y: u32[y_len]
  scalar y_len: u64
  scalar n: i64
  local v: i64
{
  %0: i64 = scalar n
  %1: i64 = const 1
  %2: i64 = const 0
  %3: u64 = scalar y_len
  %4: u64 = const 0
  %5: bool = gt %3 %4
  store v = %0
  store v[%1] = %2
  if %5 {
    %6: i64 = load v
    %7: u32 = const 7
    store y[%6] = %7
  }
}
";
    let function = parse(text).unwrap();
    let (mut expected, mut given) = (vec![vec![0; 8]], vec![vec![0; 8]]);
    assert!(threads::run(&function, 1, &mut expected, &[2, 5]));
    assert!(!threads::run(
        &function.with_checks(),
        1,
        &mut given,
        &[2, 5]
    ));
    assert_eq!(given, expected);
}

/// Adds statements to a function with the read-only buffer `x`, the shared array `s` of 64 elements and the word `n`.
type Writes = for<'k> fn(&'k Builder, [MemoryRef<'k>; 2], Val<'k>);

/// What says that an access is within bounds, and the `if`s that checks add. A loop in two copies adds one, and one for each
/// check in either copy.
const CASES: [(&str, usize, Writes); 26] = [
    ("the condition around", 0, |k, [x, s], _| {
        k.when(k.index().bits(DType::U64).lt(k.len(x)), || {
            s.set(k.thread(), x.get(k.index()));
        });
    }),
    ("the condition before", 0, |k, [x, s], _| {
        k.when(
            k.index().compare(CompareOp::Ge, k.len(x).bits(DType::I64)),
            || k.return_(),
        );
        s.set(k.thread(), x.get(k.index()));
    }),
    ("no condition", 1, |k, [x, s], _| {
        s.set(k.thread(), x.get(k.index()));
    }),
    ("a condition that says nothing", 1, |k, [x, s], n| {
        k.when(n.lt(k.len(x).bits(DType::I64)), || {
            s.set(k.thread(), x.get(n));
        });
    }),
    ("two conditions", 0, |k, [x, s], n| {
        let is_within = n
            .compare(CompareOp::Ge, 0)
            .binary(BinaryOp::And, n.lt(k.len(x).bits(DType::I64)));
        k.when(is_within, || s.set(k.thread(), x.get(n)));
    }),
    ("conditions one after the other", 0, |k, [x, s], n| {
        let both = k.unset("both", DType::Bool);
        let no = k.constant(0).cast(DType::Bool);
        let n = n.bits(DType::U64);
        k.either(n.lt(90), || both.set((n + 1).lt(k.len(x))), || both.set(no));
        k.when(both.get(), || {
            s.set(k.thread(), x.get((n + 1).bits(DType::I64)));
        });
    }),
    ("a mask", 0, |k, [_, s], n| {
        s.set(n.binary(BinaryOp::And, 63), s.get(k.index() % 64));
    }),
    ("a mask that is too wide", 2, |_, [_, s], n| {
        s.set(n.binary(BinaryOp::And, 127), s.get(n % 64));
    }),
    ("the length that a loop ends at", 0, |k, [x, s], _| {
        let end = k.len(x).min(i64::MAX).bits(DType::I64);
        k.range(k.thread(), end, 64, |i| s.set(k.thread(), x.get(i)));
    }),
    ("a part of the length", 0, |k, [x, s], _| {
        k.range(0, (k.len(x) / 3).bits(DType::I64), 1, |i| {
            s.set(k.thread(), x.get(i));
        });
    }),
    ("the condition of a while", 0, |k, [x, s], n| {
        let i = k.var("i", n.bits(DType::U64));
        k.while_(
            || i.get().lt(k.len(x)),
            || {
                s.set(k.thread(), x.get(i.get().bits(DType::I64)));
                i.set(i.get() + 1);
            },
        );
    }),
    ("a variable that has changed", 1, |k, [x, s], n| {
        let i = k.var("i", n.bits(DType::U64));
        k.when(i.get().lt(k.len(x)), || {
            i.set(i.get() + 1);
            s.set(k.thread(), x.get(i.get().bits(DType::I64)));
        });
    }),
    ("a condition on the first of two", 1, |k, [x, s], n| {
        k.when(n.bits(DType::U64).lt(k.len(x)), || {
            s.set(k.thread(), x.get_wide(n, 2).lane(1));
        });
    }),
    ("the lesser of signed numbers", 1, |k, [x, s], n| {
        let end = n.min(k.len(x).bits(DType::I64)).bits(DType::U64);
        k.when(k.index().bits(DType::U64).lt(end), || {
            s.set(k.thread(), x.get(k.index()));
        });
    }),
    ("the quotient of signed numbers", 1, |k, [x, s], n| {
        let end = (k.len(x).bits(DType::I64) / n).bits(DType::U64);
        k.when(k.index().bits(DType::U64).lt(end), || {
            s.set(k.thread(), x.get(k.index()));
        });
    }),
    ("a test before the loop", 3, |k, [x, s], n| {
        k.range(0, n, 1, |i| s.set(k.thread(), x.get(n + i) + x.get(n * i)));
    }),
    ("a selection that is known", 0, |k, [_, s], n| {
        k.range(0, n.binary(BinaryOp::And, 7), 1, |i| {
            k.range(0, 2, 1, |part| {
                let part = part.bits(DType::U64).lt(2).select(part, 1_i64 << 60);
                s.set(i * 2 + part, s.get(part));
            });
        });
    }),
    ("a selection that is not known", 4, |k, [x, s], n| {
        k.range(0, n, 1, |i| {
            let part = i.bits(DType::U64).lt(2).select(i, 1_i64 << 60);
            s.set(k.thread(), x.get(part) + x.get(n + i));
        });
    }),
    ("no test before the loop", 4, |k, [x, s], n| {
        k.range(0, n, 1, |i| {
            s.set(k.thread(), x.get(x.get(i).cast(DType::I64)));
        });
    }),
    ("a variable that halves", 0, |k, [_, s], _| {
        let half = k.var("half", k.constant(32).bits(DType::U64));
        let mine = k.thread().bits(DType::U64);
        k.while_(
            || half.get().compare(CompareOp::Gt, 0),
            || {
                k.when(mine.lt(half.get()), || {
                    let sum = s.get(k.thread()) + s.get((mine + half.get()).bits(DType::I64));
                    s.set(k.thread(), sum);
                });
                half.set(half.get() / 2);
            },
        );
        s.set(half.get().bits(DType::I64), s.get(k.thread()));
    }),
    ("a variable that halves and rises", 1, |k, [_, s], n| {
        let half = k.var("half", 32_i64);
        k.range(0, n, 1, |_| {
            half.set(half.get() / 2);
            k.when(n.lt(8), || half.set(n));
            s.set(half.get(), s.get(k.thread()));
            k.barrier();
        });
    }),
    (
        "a variable that falls from below zero",
        1,
        |k, [_, s], n| {
            let half = k.var("half", n.min(63));
            k.range(0, n, 1, |_| {
                s.set(half.get(), s.get(k.thread()));
                half.set(half.get() / 2);
                k.barrier();
            });
        },
    ),
    ("a difference from what is not less", 0, |k, [_, s], n| {
        let (mine, n) = (k.thread().bits(DType::U64), n.bits(DType::U64));
        k.when(mine.compare(CompareOp::Ge, n), || {
            s.set(k.thread(), s.get((mine - n).bits(DType::I64)));
        });
    }),
    ("a difference from what may be less", 1, |k, [_, s], n| {
        let (mine, n) = (k.thread().bits(DType::U64), n.bits(DType::U64));
        k.when(n.compare(CompareOp::Ge, mine), || {
            s.set(k.thread(), s.get((mine - n).bits(DType::I64)));
        });
    }),
    (
        "a condition on what an index is computed from",
        1,
        |k, [_, s], _| {
            let twice = k.thread() * 2;
            k.when(k.thread().lt(32), || s.set(twice, s.get(twice + 2)));
        },
    ),
    ("no test as threads meet", 1, |k, [x, s], n| {
        k.range(0, n, 1, |i| {
            s.set(k.thread(), x.get(i));
            k.barrier();
        });
    }),
];

#[test]
fn a_check_that_is_known_to_hold_is_left_out() {
    for (what, expected, writes) in CASES {
        assert_eq!(added(writes), expected, "{what}");
    }
}

/// Returns the number of `if`s that checks add to a function.
fn added(writes: Writes) -> usize {
    let k = Builder::new("within", [64, 1, 1]);
    k.check_bounds();
    let (x, s) = (k.read("x", DType::U32), k.shared("s", DType::U32, 64));
    writes(&k, [x, s], k.scalar("n", DType::I64));
    let function = k.build().unwrap();
    let ifs = |function: &Function| {
        let all = statements(&function.body);
        all.filter(|stmt| matches!(stmt, Stmt::If { .. })).count()
    };
    let with_checks = function.with_checks();
    with_checks.check().unwrap();
    ifs(&with_checks) - ifs(&function)
}
