//! Results of nests, for every entry point and blocking that a launch may use.

use millstream_ir::lower::{self, Kind};
use millstream_ir::{Blocking, Program};
use millstream_ir_text::naive;

use crate::Runs;
use crate::data::elements;
use crate::nests::Case;
use crate::tolerance::{assert_close, assert_same};

/// Runs a case by each of its thread functions that support its lengths, and as a nest with each blocking. Compares all
/// results with the naive interpreter.
pub fn compare(case: &Case, special: bool, device: &impl Runs) {
    let nest = millstream_ir_text::nest(&case.text).unwrap_or_else(|error| panic!("{error}"));
    nest.check().unwrap();
    let buffers = nest.buffers.iter().zip(&case.lens).enumerate();
    let before: Vec<Vec<u8>> = buffers
        .map(|(index, (buffer, len))| elements(buffer.dtype, *len, 1 + index as u64, special))
        .collect();
    let mut expected = before.clone();
    naive::run(&nest, &mut expected, &case.words);
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
        let after = device.run(Program::Ssa(function), 2, &before, &case.words);
        check(&format!("{kind:?}"), after);
    }
    let program = Program::Nest(nest.clone());
    let blockings = [Blocking::DEFAULT].into_iter();
    for blocking in blockings.chain(lower::blockings(&program)) {
        let after = device.run_blocked(program.clone(), blocking, 1, &before, &case.words);
        check(&format!("nest, {blocking}"), after);
    }
}
