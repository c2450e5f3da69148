//! Whole programs lower to valid modules: random functions, and all kinds of nests and products.

use millstream_ir::lower::{matmul, nest};
use millstream_ir::ssa::{Builder, Val};
use millstream_ir::{
    BinaryOp, Blocking, CompareOp, DType, Matmul, Nest, Program, UnaryOp, lower as ir,
};
use millstream_kernel_cases::control;
use proptest::prelude::*;

use super::validity::{check, targets};
use crate::lower;

/// The number of random functions of the cases for all devices.
const RANDOM_FUNCTIONS: u64 = 24;

const NESTS: [&str; 4] = [
    "nest outer 1 inner 1 words 4
     buffer 0 f32 read  buffer 1 f32 write
     access 0 = buffer 0 [w2 1]  access 1 = buffer 1 [w3 1]
     %0 f32 = load 0  %1 f32 = reduce max %0
     %2 f32 = sub %0 %1  %3 f32 = exp %2  %4 f32 = reduce sum %3  %5 f32 = div %3 %4
     store inner 1 %5",
    "nest outer 1 inner 1 words 3
     buffer 0 bf16 read  buffer 1 i64 write
     access 0 = buffer 0 [w2 1]  access 1 = buffer 1 [1 0]
     %0 bf16 = load 0  %1 f32 = cast %0  %2 i64 = reduce argmin %1
     store outer 1 %2",
    "nest outer 1 inner 0 words 2
     buffer 0 f16 read  buffer 1 f16 write
     access 0 = buffer 0 + w1 [1]  access 1 = buffer 1 [1]
     %0 f16 = load 0  %1 f32 = cast %0  %2 f32 = erf %1  %3 f16 = cast %2
     store outer 1 %3",
    "nest outer 2 inner 1 words 6
     buffer 0 u8 read  buffer 1 bool write
     access 0 = buffer 0 [w3 w4 1]  access 1 = buffer 1 [w5 1 0]
     %0 u8 = load 0  %1 bool = cast %0  %2 bool = reduce max %1
     store outer 1 %2",
];

fn parsed(text: &str) -> Nest {
    let nest = millstream_ir_text::nest(text).unwrap_or_else(|error| panic!("{error}"));
    nest.check().unwrap_or_else(|error| panic!("{error}"));
    nest
}

#[test]
fn every_kind_of_nest_is_valid() {
    for text in NESTS {
        let parsed = parsed(text);
        let program = Program::Nest(parsed.clone());
        for blocking in ir::blockings(&program)
            .into_iter()
            .chain([Blocking::DEFAULT])
        {
            for (kind, function) in nest(&parsed, blocking).expect("the nest lowers") {
                check(&format!("{kind:?} of {text}"), &function);
            }
        }
    }
}

#[test]
fn every_blocking_of_a_product_is_valid() {
    for dtype in [DType::F32, DType::F16, DType::I32] {
        let product = Matmul {
            dtype,
            batch: 1,
            partial: false,
            epilogue: None,
        };
        let program = Program::Matmul(product.clone());
        for blocking in ir::blockings(&program)
            .into_iter()
            .step_by(5)
            .chain([Blocking::DEFAULT])
        {
            let function = matmul(&product, blocking).expect("the product lowers");
            check(&format!("product of {dtype}, {blocking}"), &function);
        }
    }
}

/// A random choice of the next statement: its kind, operands and bits.
type Choice = (u8, u16, u16, u64);

/// Writes statements according to the choices. The result is valid by construction.
fn write<'k>(k: &'k Builder, choices: &[Choice], known: &mut Vec<Val<'k>>, depth: usize) {
    let mut rest = choices;
    while let [(kind, a, b, bits), more @ ..] = rest {
        rest = more;
        let pick = |at: u16| known[usize::from(at) % known.len()];
        let (a, b) = (pick(*a), pick(*b));
        let b = if b.of() == a.of() { b } else { a };
        let (of, nth) = (a.of(), *bits as usize);
        let dtype = DType::ALL[nth % DType::ALL.len()];
        let made = match kind % 12 {
            0 => k.bits(
                dtype,
                millstream_ir::scalar::of_word(dtype, bits.rotate_left(17)),
            ),
            1 => {
                let ops = UnaryOp::ALL.iter().filter(|op| op.takes(of.dtype));
                let op = ops.cycle().nth(nth % 64).copied();
                op.map_or(a, |op| a.unary(op))
            }
            2 => {
                let ops = BinaryOp::ALL.iter().filter(|op| op.takes(of.dtype));
                let op = ops.cycle().nth(nth % 64).copied();
                op.map_or(a, |op| a.binary(op, b))
            }
            3 => a.compare(CompareOp::ALL[nth % CompareOp::ALL.len()], b),
            4 => a.cast(dtype),
            5 => a.compare(CompareOp::Ne, b).select(a, b),
            6 if of.lanes == 1 => a.splat(4),
            6 => a.lane(*bits as u8 % of.lanes),
            7 if of.lanes == 1 => k.pack(&[a, b]),
            8 if of.lanes == 1 => {
                let place = k.local("v", of.dtype, 1 + *bits as u32 % 9);
                place.set(0, a);
                place.get(k.thread())
            }
            9 | 10 if depth < 3 && of.lanes == 1 => {
                let (inside, after) = more.split_at(more.len() / 2);
                rest = after;
                let (yes, no) = inside.split_at(inside.len() / 2);
                let scope = known.clone();
                let inner = |choices| write(k, choices, &mut scope.clone(), depth + 1);
                match kind % 12 {
                    9 => k.either(a.compare(CompareOp::Eq, b), || inner(yes), || inner(no)),
                    _ if nth % 2 == 0 => k.unrolled(3, |_| inner(inside)),
                    _ => k.range(k.thread(), 9, 2, |_| inner(inside)),
                }
                continue;
            }
            _ => continue,
        };
        known.push(made);
    }
}

/// Loops that are left, and checked accesses. Their results are compared on devices.
#[test]
fn functions_with_every_control_flow_are_valid() {
    for case in [control::collatz(), control::halves()] {
        check(&case.function.name, &case.function);
    }
    for dtype in DType::ALL {
        check(
            &format!("clipped {dtype}"),
            &control::clipped(dtype).function,
        );
    }
    for seed in 0..RANDOM_FUNCTIONS {
        check(
            &format!("random function {seed}"),
            &control::random(seed).case.function,
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_functions_are_valid(choices in proptest::collection::vec(any::<Choice>(), 1..60)) {
        let k = Builder::new("random", [32, 2, 1]);
        let out = k.update("out", DType::I64);
        let mut known = vec![k.thread(), k.scalar("word", DType::F32)];
        write(&k, &choices, &mut known, 0);
        out.set(k.thread(), known[0]);
        let function = k.build().expect("the function is valid");
        check("a random function", &function);
    }
}

#[test]
fn equal_functions_have_equal_words() {
    let nest_of = parsed(NESTS[0]);
    for (_, function) in nest(&nest_of, Blocking::DEFAULT).expect("the nest lowers") {
        let [first, second] = [0; 2].map(|_| lower(&function, &targets()[0].1));
        assert!(first.is_ok() && first == second);
    }
}
