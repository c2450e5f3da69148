//! Nests lowered for GPUs, run on the CPU: every way to run a launch gives the nest's result.

use millstream_ir::lower::{self, Kind};
use millstream_ir::nest::Op;
use millstream_ir::{Blocking, DType, Program};
use millstream_ir_text::naive;
use millstream_kernel_cases::data::elements;
use millstream_kernel_cases::nests::{self, Case};
use millstream_kernel_cases::tolerance::{assert_close, assert_same};
use rstest::rstest;

use crate::run;

#[rstest]
#[case::wide(nests::elements(2_048, 4))]
#[case::odd(nests::elements(31, 3))]
#[case::permuted(nests::permuted(33, 20))]
#[case::indexed(nests::indexed(7, 24))]
#[case::halves(nests::halves(1_000))]
#[case::casts(nests::casts(1_000))]
#[case::integers(nests::integers(1_024))]
#[case::functions(nests::functions(512))]
#[case::singles(nests::every_function(DType::F32, 512))]
#[case::doubles(nests::every_function(DType::F64, 512))]
#[case::random(nests::random(300))]
#[case::gather(nests::gather(20, 12))]
#[case::scatter(nests::scatter(12, 30))]
#[case::columns(nests::columns(36, 50))]
#[case::totals(nests::totals(9, 40))]
#[case::counted(nests::counted(2, 5, [3, 7]))]
#[case::nothing_of_a_row(nests::counted(2, 3, [0, 5]))]
#[case::no_rows(nests::counted(0, 3, [2, 5]))]
#[case::one(nests::softmax(3, 1))]
#[case::more_than_a_warp(nests::softmax(3, 33))]
#[case::in_warps(nests::softmax(9, 64))]
fn every_lowering_computes_the_nest(#[case] case: Case) {
    let nest = millstream_ir_text::nest(&case.text).unwrap_or_else(|error| panic!("{error}"));
    let buffers = nest.buffers.iter().zip(&case.lens).enumerate();
    let before: Vec<Vec<u8>> = buffers
        .map(|(index, (buffer, len))| elements(buffer.dtype, *len, 1 + index as u64, true))
        .collect();
    let mut expected = before.clone();
    naive::run(&nest, &mut expected, &case.words);
    let is_function = |op: &Op| match op {
        Op::Unary(op, _) => op.units() > 0,
        Op::Binary(op, ..) => op.units() > 0,
        _ => false,
    };
    // Whose results may differ from the reference.
    let has_functions = nest.values.iter().any(|value| is_function(&value.op));
    let program = Program::Nest(nest.clone());
    let blockings = [Blocking::DEFAULT].into_iter();
    let blockings = blockings.chain(lower::blockings(&program));
    let lowerings = blockings.flat_map(|blocking| lower::nest(&nest, blocking).unwrap());
    for (kind, function) in lowerings {
        if let Kind::Thread { lanes } = kind
            && nest.outer > 0
            && !case.words[nest.outer - 1].is_multiple_of(u64::from(lanes))
        {
            continue;
        }
        let after = run(&function, [2, 1, 1], &before, &case.words);
        for ((buffer, after), expected) in nest.buffers.iter().zip(&after).zip(&expected) {
            let what = format!("{kind:?}");
            match case.exact || (nest.inner == 0 && !has_functions) {
                true => assert_same(&what, buffer.dtype, after, expected),
                false => assert_close(&what, buffer.dtype, after, expected),
            }
        }
    }
}
