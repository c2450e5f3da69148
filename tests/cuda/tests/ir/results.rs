//! Results of nests, for every entry point and blocking that a launch may use.

use millstream_ir::lower::{self, Kind};
use millstream_ir::{Blocking, DType, Nest, Program};
use rstest::rstest;

use crate::nests::{self, Case};
use crate::support::{Gpu, elements};
use crate::tolerance::{assert_close, assert_same};
use millstream_tile::naive;

/// Runs a case by each of its thread functions that support its lengths, and as a nest with each blocking. Compares all
/// results with the naive interpreter.
fn compare(case: &Case, special: bool) {
    let nest: Nest = case.text.parse().unwrap_or_else(|error| panic!("{error}"));
    nest.check().unwrap();
    let buffers = nest.buffers.iter().zip(&case.lens).enumerate();
    let before: Vec<Vec<u8>> = buffers
        .map(|(index, (buffer, len))| elements(buffer.dtype, *len, 1 + index as u64, special))
        .collect();
    let mut expected = before.clone();
    naive::run(&nest, &mut expected, &case.words);
    let gpu = Gpu::new(7);
    let check = |what: &str, after: Vec<Vec<u8>>| {
        for ((buffer, after), expected) in nest.buffers.iter().zip(&after).zip(&expected) {
            match case.exact {
                true => assert_same(what, buffer.dtype, after, expected),
                false => assert_close(what, buffer.dtype, after, expected),
            }
        }
    };
    for (kind, function) in lower::nest(&nest, Blocking::DEFAULT).unwrap() {
        if let Kind::Thread { lanes } = kind
            && nest.outer > 0
            && !case.words[nest.outer - 1].is_multiple_of(u64::from(lanes))
        {
            continue;
        }
        // Too few cubes for all elements, so that the grid-stride loops have several iterations.
        let after = gpu.run(Program::Ssa(function), 2, &before, &case.words);
        check(&format!("{kind:?}"), after);
    }
    let program = Program::Nest(nest.clone());
    let blockings = [Blocking::DEFAULT].into_iter();
    for blocking in blockings.chain(lower::blockings(&program)) {
        let after = gpu.run_blocked(program.clone(), blocking, 1, &before, &case.words);
        check(&format!("nest, {blocking}"), after);
    }
    gpu.close();
}

#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn rows_of_any_length_are_reduced_correctly(#[values(1, 2, 31, 32, 33, 64, 100)] len: usize) {
    compare(&nests::softmax(3, len), false);
}

#[rstest]
#[case::one(nests::elements(1, 0))]
#[case::odd(nests::elements(2_047, 0))]
#[case::wide(nests::elements(2_048, 4))]
#[case::permuted(nests::permuted(33, 20))]
#[case::indexed(nests::indexed(7, 24))]
#[case::halves(nests::halves(1_000))]
#[case::casts(nests::casts(1_000))]
#[case::integers(nests::integers(1_024))]
#[case::functions(nests::functions(512))]
#[case::every_function_f32(nests::every_function(DType::F32, 512))]
#[case::every_function_f64(nests::every_function(DType::F64, 512))]
#[case::random(nests::random(300))]
#[case::gather(nests::gather(20, 12))]
#[case::scatter(nests::scatter(12, 30))]
#[case::columns(nests::columns(36, 50))]
#[case::totals(nests::totals(9, 40))]
#[case::counted(nests::counted(2, 5, [3, 7]))]
#[case::long(nests::counted(1, 3, [30, 50]))]
#[case::empty_rows(nests::counted(2, 3, [0, 5]))]
#[case::empty_batch(nests::counted(0, 3, [2, 5]))]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn every_entry_point_and_blocking_matches_the_interpreter(
    #[case] case: Case,
    #[values(false, true)] special: bool,
) {
    compare(&case, special);
}
