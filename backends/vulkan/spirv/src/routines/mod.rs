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
//! | `random` | Philox4x32-10 |
//!
//! Within a routine, quotients and square roots are the plain instructions, which may be wrong by 2.5 units in the last
//! place: routines give the same guarantees for any such instruction.

mod angle;
mod divide;
mod error;
mod exponential;
mod fused;
mod halves;
mod math;
mod power;
mod random;

use std::collections::HashMap;

use math::Math;
use millstream_ir::ssa::{Builder, Function};
use millstream_ir::{BinaryOp, DType, UnaryOp};
use spirv::Word;

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
    /// A half as `f32`.
    Widen(DType),
    /// A number of 32 or 64 bits as a half, rounded once.
    Narrow(DType, DType),
    /// A random `u32` from a seed and a counter.
    Random,
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
    /// Returns `true` if an operation of floats is a routine.
    pub(crate) fn has_unary(op: UnaryOp) -> bool {
        use UnaryOp::{Cos, Erf, Exp, Log, Sin, Sqrt, Tanh};
        matches!(op, Sqrt | Exp | Log | Sin | Cos | Tanh | Erf)
    }

    /// Returns `true` if an operation of two floats is a routine.
    pub(crate) fn has_binary(op: BinaryOp) -> bool {
        matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::Pow)
    }

    /// Returns the types of the arguments.
    pub(crate) fn parameters(self) -> Vec<DType> {
        match self {
            Routine::Unary(_, dtype) => vec![dtype],
            Routine::Binary(_, dtype) => vec![dtype; 2],
            Routine::Fma(dtype) => vec![dtype; 3],
            Routine::Widen(_) => vec![DType::U16],
            Routine::Narrow(from, _) => vec![from],
            Routine::Random => vec![DType::U64, DType::I64],
        }
    }

    /// Returns the type of the result.
    pub(crate) fn result(self) -> DType {
        match self {
            Routine::Unary(_, dtype) | Routine::Binary(_, dtype) | Routine::Fma(dtype) => dtype,
            Routine::Widen(_) => DType::F32,
            Routine::Narrow(..) => DType::U16,
            Routine::Random => DType::U32,
        }
    }

    /// Returns the routine as a function: its launch words are the arguments, and its one store is the result.
    pub(crate) fn function(self, has_f64: bool) -> Function {
        let k = Builder::new("routine", [1; 3]);
        let parameters = self.parameters().into_iter().enumerate();
        let arguments = parameters.map(|(index, dtype)| k.scalar(format!("a{index}"), dtype));
        let arguments: Vec<_> = arguments.collect();
        let result = k.write("result", self.result());
        let argument = |index: usize| arguments[index];
        let math = |float| Math { k: &k, float };
        let value = match self {
            Routine::Unary(op, dtype) => {
                let (math, a) = (math(dtype), argument(0));
                match op {
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
                let (math, a, b) = (math(dtype), argument(0), argument(1));
                match op {
                    BinaryOp::Div => math.divide(a, b),
                    BinaryOp::Rem => math.remainder(a, b),
                    _ => math.power(a, b),
                }
            }
            Routine::Fma(dtype) => {
                let operands = [0, 1, 2].map(argument);
                match dtype == DType::F32 && has_f64 {
                    true => math(DType::F64).fused_f32(operands),
                    false => math(dtype).fused(operands),
                }
            }
            Routine::Widen(half) => math(DType::F32).widen(half, argument(0)),
            Routine::Narrow(from, half) => math(DType::F32).narrow(from, half, argument(0)),
            Routine::Random => random::random(&k, argument(0), argument(1)),
        };
        result.set(0, value);
        drop(arguments);
        match k.build() {
            Ok(function) => function,
            Err(error) => unreachable!("routine {self:?}: {error}"),
        }
    }
}
