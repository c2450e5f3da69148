//! Texts of functions and nests: parsing a function returns what was displayed.

use std::cell::Cell;

use millstream_ir::ssa::{Builder, Function, Shuffle, Val};
use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};
use proptest::prelude::*;

/// A random choice of the next statement: its kind, operands and bits.
type Choice = (u8, u16, u16, u64);

/// Whether some threads may have returned.
type Returned<'r> = &'r Cell<bool>;

/// Writes statements according to the choices. The result is valid by construction.
fn write<'k>(
    k: &'k Builder,
    choices: &[Choice],
    known: &mut Vec<Val<'k>>,
    returned: Returned<'_>,
    depth: usize,
) {
    let mut rest = choices;
    while let [(kind, a, b, bits), more @ ..] = rest {
        rest = more;
        let pick = |known: &[Val<'k>], at: u16| known[usize::from(at) % known.len()];
        let (a, b) = (pick(known, *a), pick(known, *b));
        let of = a.of();
        let b = if b.of() == of { b } else { a };
        let made = match kind % 15 {
            0 => {
                let dtype = DType::ALL[*bits as usize % DType::ALL.len()];
                let mask = match dtype {
                    DType::Bool => 1,
                    dtype if dtype.size() == 8 => u64::MAX,
                    dtype => (1 << (8 * dtype.size())) - 1,
                };
                let bits = bits.rotate_left(17) & mask;
                k.bits(dtype, bits)
            }
            1 => {
                let op = UnaryOp::ALL[*bits as usize % UnaryOp::ALL.len()];
                if !op.takes(of.dtype) {
                    continue;
                }
                a.unary(op)
            }
            2 => {
                let op = BinaryOp::ALL[*bits as usize % BinaryOp::ALL.len()];
                if !op.takes(of.dtype) {
                    continue;
                }
                a.binary(op, b)
            }
            3 => a.compare(CompareOp::ALL[*bits as usize % CompareOp::ALL.len()], b),
            4 if of.dtype == DType::I64 => a.bits(DType::F64),
            4 => a.cast(DType::ALL[*bits as usize % DType::ALL.len()]),
            5 => a.compare(CompareOp::Ne, b).select(a, b),
            6 if of.lanes == 1 => a.splat(4),
            6 => a.lane(*bits as u8 % of.lanes),
            7 if of.lanes == 1 => k.pack(&[a, b]),
            8 if of.lanes == 1 => {
                let place = k.local(format!("v{}", a.id()), of.dtype, 1 + *bits as u32 % 9);
                place.set(k.thread(), a);
                place.get(0)
            }
            9 if depth < 3 && of.lanes == 1 => {
                let (inside, after) = more.split_at(more.len() / 2);
                rest = after;
                let condition = a.compare(CompareOp::Eq, b);
                let scope = &*known;
                let both = bits % 2 == 0;
                k.either(
                    condition,
                    || write(k, inside, &mut scope.clone(), returned, depth + 1),
                    || {
                        if both {
                            write(k, inside, &mut scope.clone(), returned, depth + 1);
                        }
                    },
                );
                continue;
            }
            10 if depth < 3 => {
                let (inside, after) = more.split_at(more.len() / 2);
                rest = after;
                let mut scope = known.clone();
                let body = |i| {
                    scope.push(i);
                    write(k, inside, &mut scope, returned, depth + 1);
                };
                if bits % 2 == 0 {
                    k.range(k.index(), 100, 1 + (*bits >> 40) as i64, body);
                } else {
                    k.unrolled(*bits as u32, body);
                }
                continue;
            }
            11 if depth == 0
                && !returned.get()
                && of.lanes == 1
                && ReduceOp::Sum.takes(of.dtype) =>
            {
                k.barrier();
                match bits % 3 {
                    0 => a.reduce(ReduceOp::Sum),
                    1 => a.reduce_subgroup(8, ReduceOp::Max),
                    _ => {
                        let from = Shuffle::ALL[(*bits >> 40) as usize % 4];
                        a.shuffle(from, 4, (*bits >> 42) as i64 % 6)
                    }
                }
            }
            12 if depth < 3 && of.lanes == 1 => {
                let (inside, after) = more.split_at(more.len() / 2);
                rest = after;
                let mut scope = known.clone();
                k.loop_(|| {
                    write(k, inside, &mut scope, returned, depth + 1);
                    k.when(a.compare(CompareOp::Lt, b), || match bits % 3 {
                        0 => k.continue_(),
                        1 => {
                            returned.set(true);
                            k.return_();
                        }
                        _ => k.break_(),
                    });
                    k.break_();
                });
                continue;
            }
            13 => {
                k.line(*bits as u32);
                continue;
            }
            14 if depth > 0 && bits % 4 == 0 => {
                returned.set(true);
                k.return_();
                continue;
            }
            _ => continue,
        };
        known.push(made);
    }
}

fn function(choices: &[Choice]) -> Function {
    let k = Builder::new("random", [16, 2, 1]);
    let x = k.read("x", DType::F32);
    let y = k.update("y", DType::I64);
    let shared = k.shared("tile", DType::F32, 64);
    let n = k.scalar("n", DType::I64);
    let i = k.index();
    let wide = x.get_wide(i * 4, 4);
    shared.set(i * 4, wide);
    k.when(i.lt(n), || {
        y.set(i, i + 1);
        y.add(0, 7);
    });
    let seed = k.scalar("seed", DType::U64);
    let mut known = vec![i, n, wide, x.get(i), k.random(seed, i)];
    write(&k, choices, &mut known, &Cell::new(false), 0);
    match choices.len() % 4 {
        0 => k.check_bounds(),
        2 => k.contract(),
        1 => k.file("src/\"a\\b\".rs"),
        _ => _ = k.len(y),
    }
    k.build().expect("the function is valid by construction")
}

proptest! {
    #[test]
    fn parsing_a_displayed_function_returns_it(choices in prop::collection::vec(any::<Choice>(), 0..60)) {
        let function = function(&choices);
        let text = function.to_string();
        let read = match millstream_ir::ssa::parse(&text) {
            Ok(read) => read,
            Err(error) => panic!("{error}\n{text}"),
        };
        prop_assert_eq!(read, function, "\n{}", text);
    }

    #[test]
    fn broken_text_is_an_error_with_a_place_or_parses_and_never_panics(
        choices in prop::collection::vec(any::<Choice>(), 0..20),
        cut in any::<prop::sample::Index>(),
        letter in any::<char>(),
    ) {
        let text = function(&choices).to_string();
        let at = cut.index(text.len());
        prop_assume!(text.is_char_boundary(at));
        let broken = format!("{}{letter}{}", &text[..at], &text[at..]);
        if let Err(error) = millstream_ir::ssa::parse(&broken) {
            prop_assert!(error.line >= 1 && error.line <= broken.lines().count() + 1);
        }
        prop_assert!(text[..at].trim_end() == text.trim_end() || millstream_ir::ssa::parse(&text[..at]).is_err());
    }
}

#[test]
fn nests_are_parsed_line_by_line() {
    let text = "\
nest outer 1 inner 1 words 7
  buffer 0 f32 read
  buffer 1 f32 write
  buffer 2 i64 update
  access 0 = buffer 0 + w4 [w2 1]
  access 1 = buffer 1 [w3 1]
  access 2 = buffer 2 [0 w3]
  %0 f32 = load 0
  %1 f32 = reduce max %0
  %2 f32 = sub %0 %1
  %3 f32 = exp %2
  %4 f32 = const 0x3f800000
  %5 i64 = index 1
  %6 f32 = gather 0 %5 w2 w5
  %7 bool = lt %3 %4
  %8 f32 = select %7 %6 %4
  %9 i64 = cast %8
  %10 u32 = random w6 %5
  %11 i64 = word w6
  store inner 1 %8
  store inner 2 %9 scatter add %5 1 w5
";
    let nest = millstream_ir_text::nest(text).expect("the text is valid");
    assert_eq!(nest.check(), Ok(()));
    let numbered = text.replace("%4 f32", "%5 f32");
    let error = millstream_ir_text::nest(&numbered).expect_err("a number is missing");
    assert_eq!(
        error.to_string(),
        "line 12, column 4: 5 is out of order, expected 4"
    );
}

#[test]
fn unknown_operation_is_an_error_with_its_place() {
    let text = "kernel k threads 32 1 1\n  read x: f32\n{\n  %0: f32 = lod x[%1]\n}\n";
    let error = millstream_ir::ssa::parse(text).expect_err("there is no `lod`");
    assert_eq!(
        error.to_string(),
        "line 4, column 13: expected an operation, found `lod`"
    );
}
