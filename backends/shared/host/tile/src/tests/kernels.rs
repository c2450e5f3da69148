//! The nests that every device runs, at each level of the processor.

use millstream_ir_text::nest;
use millstream_kernel_cases::data::elements;
use millstream_kernel_cases::nests::{self, Case, every_nest};
use millstream_kernel_cases::tolerance::{assert_close, assert_same};
use rstest::rstest;
use rstest_reuse::apply;

use super::check_by;

fn matches_the_reference(case: &Case, special: bool) {
    let nest = nest(&case.text).expect("the text is a nest");
    let buffers = nest.buffers.iter().zip(&case.lens).zip(1..);
    let buffers = buffers.map(|((buffer, len), seed)| elements(buffer.dtype, *len, seed, special));
    let buffers: Vec<Vec<u8>> = buffers.collect();
    check_by(
        &nest,
        &buffers,
        &[],
        &case.words,
        |what, dtype, found, expected| match case.exact {
            true => assert_same(what, dtype, found, expected),
            false => assert_close(what, dtype, found, expected),
        },
    );
}

#[apply(every_nest)]
fn every_nest_matches_the_reference(#[case] case: Case, special: bool) {
    matches_the_reference(&case, special);
}

/// The lanes are along the scattered rows, or across them.
#[rstest]
#[case::along(nests::scatter(1, 100))]
#[case::across(nests::scatter(600, 30))]
#[case::few(nests::scatter(7, 9))]
#[case::short_rows(nests::layer_norm(70, 3))]
#[case::rows(nests::layer_norm(2, 100))]
#[case::many_gathered(nests::gather(8, 200))]
fn nests_of_other_lengths_match_the_reference(#[case] case: Case) {
    matches_the_reference(&case, false);
}
