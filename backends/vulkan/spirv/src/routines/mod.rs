//! Routines: operations that SPIR-V lacks, or that Vulkan lets devices round badly. They are functions of the IR, so a
//! CPU can run them too, and each becomes one function of the module, which drivers inline.
//!
//! | file | operations |
//! | --- | --- |
//! | `divide` | quotients, remainders and square roots, rounded once |
//! | `fused` | `a * b + c`, rounded once, without an instruction for it |
//! | `halves` | halves as their bits |
//! | `exponential` | `exp`, `log`, `tanh` |
//! | `power` | powers |
//! | `angle` | `sin`, `cos`, of any angle |
//! | `error` | `erf` |
//! | `defined` | operations whose instructions are undefined for some operands |
//! | `random` | Philox4x32-10 |
//! | `reduce` | reductions of the threads of a cube or subgroup, and shuffles |
//! | `subgroup` | the same of subgroups by those of the device |
//!
//! `math` has the terms that several of them share. A routine may use its own operation, which is then the plain
//! instruction. Quotients and square roots of floats are plain instructions in all routines. Vulkan lets them be wrong by
//! 2.5 units in the last place, and routines give the same guarantees for any such instruction.

mod angle;
mod defined;
mod divide;
mod error;
mod exponential;
mod fused;
mod halves;
mod math;
mod power;
mod random;
mod reduce;
mod subgroup;

use std::collections::HashMap;

use math::Math;
use millstream_ir::ssa::{Builder, Function, Scope, Shuffle};
use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp};
use spirv::Word;

use crate::Features;
use crate::emit::Emit;

/// A routine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Routine {
    /// A function of a float.
    Unary(UnaryOp, DType),
    /// A function of two floats.
    Binary(BinaryOp, DType),
    /// `a * b + c`, rounded once.
    Fma(DType),
    /// A float as an integer.
    Truncate(DType, DType),
    /// A half as `f32`.
    Widen(DType),
    /// A number of 32 or 64 bits as a half, rounded once.
    Narrow(DType, DType),
    /// A random `u32` from a seed and a counter.
    Random,
    /// The values of the threads of a cube or subgroup, combined by an operation.
    Reduce(Scope, BinaryOp, DType),
    /// The value of another thread of a subgroup of this many threads.
    Shuffle(Shuffle, u32, DType),
}

/// The routines that a module calls.
#[derive(Default)]
pub(crate) struct Routines {
    ids: HashMap<Routine, Word>,
    missing: Vec<Routine>,
}

impl Routines {
    /// Returns the function of a routine, which the module may not yet have.
    pub(crate) fn id(&mut self, routine: Routine, emit: &mut Emit) -> Word {
        *self.ids.entry(routine).or_insert_with(|| {
            self.missing.push(routine);
            emit.id()
        })
    }

    /// Returns a routine that the module calls and does not yet have.
    pub(crate) fn take_missing(&mut self) -> Option<(Routine, Word)> {
        let routine = self.missing.pop()?;
        Some((routine, self.ids[&routine]))
    }
}

impl Routine {
    /// Returns the routine of an operation, if it has one.
    pub(crate) fn of_unary(op: UnaryOp, dtype: DType) -> Option<Self> {
        use UnaryOp::{Abs, Cos, Erf, Exp, Log, Sin, Sqrt, Tanh};
        let has = match op {
            Abs => dtype.is_signed(),
            op => matches!(op, Sqrt | Exp | Log | Sin | Cos | Tanh | Erf),
        };
        has.then_some(Routine::Unary(op, dtype))
    }

    /// Returns the routine of an operation on two values, if it has one.
    pub(crate) fn of_binary(op: BinaryOp, dtype: DType) -> Option<Self> {
        use BinaryOp::{Div, Max, Min, Pow, Rem, Shl, Shr};
        let has = match op {
            Min | Max => dtype != DType::Bool,
            op => matches!(op, Div | Rem | Pow | Shl | Shr),
        };
        has.then_some(Routine::Binary(op, dtype))
    }

    /// Returns the routine as a function for cubes of `threads` threads: its launch words are the arguments, and its one
    /// store to a buffer is the result.
    pub(crate) fn function(self, threads: [u32; 3], features: &Features) -> Function {
        let k = Builder::new("routine", threads);
        let argument = |name: &str, dtype| k.scalar(name, dtype);
        let math = |float| Math { k: &k, float };
        let value = match self {
            Routine::Unary(op, dtype) => {
                let (math, a) = (math(dtype), argument("a", dtype));
                match op {
                    UnaryOp::Abs => a.lt(0).select(-a, a),
                    UnaryOp::Sqrt => math.sqrt(a),
                    UnaryOp::Exp => math.exp(a),
                    UnaryOp::Log => math.log(a),
                    UnaryOp::Sin => math.sine(a, false),
                    UnaryOp::Cos => math.sine(a, true),
                    UnaryOp::Tanh => math.tanh(a),
                    _ => math.erf(a),
                }
            }
            Routine::Binary(op, dtype) => {
                let (math, [a, b]) = (math(dtype), ["a", "b"].map(|name| argument(name, dtype)));
                match op {
                    BinaryOp::Pow => math.power(a, b),
                    BinaryOp::Min => defined::best(CompareOp::Lt, a, b),
                    BinaryOp::Max => defined::best(CompareOp::Gt, a, b),
                    BinaryOp::Div if dtype.is_float() => math.divide(a, b),
                    BinaryOp::Rem if dtype.is_float() => math.remainder(a, b),
                    BinaryOp::Div | BinaryOp::Rem => defined::quotient(op, a, b),
                    _ => defined::shift(op, a, b),
                }
            }
            Routine::Fma(dtype) => {
                let operands = ["a", "b", "c"].map(|name| argument(name, dtype));
                match dtype == DType::F32 && features.f64 {
                    true => math(DType::F64).fused_f32(operands),
                    false => math(dtype).fused(operands),
                }
            }
            Routine::Truncate(from, to) => defined::truncated(&k, argument("a", from), to),
            Routine::Widen(half) => math(DType::F32).widen(half, argument("bits", DType::U16)),
            Routine::Narrow(from, half) => math(DType::F32).narrow(from, half, argument("a", from)),
            Routine::Random => {
                let seed = argument("seed", DType::U64);
                random::random(&k, seed, argument("counter", DType::I64))
            }
            Routine::Reduce(Scope::Subgroup(width), by, dtype)
                if features.shuffles(width, dtype) =>
            {
                let value = argument("value", dtype);
                subgroup::reduce(&k, (width, features.subgroup_width), by, value)
            }
            Routine::Reduce(scope, by, dtype) => {
                reduce::reduce(&k, scope, by, argument("value", dtype), threads)
            }
            Routine::Shuffle(from, width, dtype) => {
                let (value, by) = (argument("value", dtype), argument("by", DType::I64));
                match features.shuffles(width, dtype) {
                    true => {
                        let widths = (width, features.subgroup_width);
                        subgroup::shuffle(&k, from, widths, [value, by])
                    }
                    false => reduce::shuffle(&k, from, width, [value, by], threads),
                }
            }
        };
        k.write("result", value.of().dtype).set(0, value);
        match k.build() {
            Ok(function) => function,
            Err(error) => unreachable!("routine {self:?}: {error}"),
        }
    }
}
