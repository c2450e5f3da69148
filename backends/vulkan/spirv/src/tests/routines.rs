//! Routines compute what the reference does, whatever the device does in quotients and roots.

use millstream_ir::{DType, UnaryOp};
use millstream_kernel_cases::operations::{Case, distance};

use super::machine::Machine;
use crate::Features;
use crate::routines::Routine;

/// The operands of each routine.
const COUNT: usize = 5_000;

/// Returns the routine of a case.
fn routine(case: Case) -> Option<Routine> {
    let found = match case {
        Case::Unary(op, dtype) => return Routine::of_unary(op, dtype),
        Case::Binary(op, dtype) => return Routine::of_binary(op, dtype),
        Case::Fma(dtype) => Routine::Fma(dtype),
        Case::Cast(from, to)
            if from.is_float() && from.size() >= 4 && !to.is_float() && to != DType::Bool =>
        {
            Routine::Truncate(from, to)
        }
        Case::Cast(half @ (DType::F16 | DType::Bf16), DType::F32) => Routine::Widen(half),
        Case::Cast(from, half @ (DType::F16 | DType::Bf16))
            if from.size() >= 4 && from != DType::Bool =>
        {
            Routine::Narrow(from, half)
        }
        Case::Random => Routine::Random,
        _ => return None,
    };
    Some(found)
}

/// Returns the units of a case if plain quotients may be wrong.
fn units(case: Case, error: i64) -> u64 {
    match case {
        // Its result is the difference of 1 and a quotient.
        Case::Unary(UnaryOp::Tanh, DType::F64) if error != 0 => 3,
        case => case.units(),
    }
}

#[test]
fn routines_are_within_their_units() {
    // Whether the device has f64, and by how much its quotients are wrong.
    let devices = [(true, 0), (true, 2), (true, -2), (false, 0)];
    for case in Case::all() {
        let Some(routine) = routine(case) else {
            continue;
        };
        for (has_f64, error) in devices {
            let features = Features {
                f64: has_f64,
                ..Features::default()
            };
            let function = routine.function([1; 3], &features);
            let mut machine = Machine::new(&function, error);
            for inputs in case.inputs(COUNT) {
                let (found, expected) = (machine.run(&inputs), case.reference(&inputs));
                let apart = distance(case.result(), found, expected);
                assert!(
                    apart <= units(case, error),
                    "{case:?} of {inputs:x?} is {found:x}, {apart} units from {expected:x}; \
                     quotients are wrong by {error}"
                );
            }
        }
    }
}
