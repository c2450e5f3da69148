//! Random graphs of the fuzzer's corpus, its graphs for known errors of graph compilers, and every operation, compared
//! with NumPy.

use millstream_graph_fuzz::{Case, Mode, Runner, corpus, named, operations};
use rstest::rstest;

use crate::subject::unavailable;

fn assert_right(cases: impl Iterator<Item = Case>, modes: &[Mode]) {
    if let Some(reason) = unavailable() {
        println!("skipped: {reason}");
        return;
    }
    let wrong = Runner::findings(cases, modes).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[rstest]
#[case::plain("vulkan", 0)]
#[case::short("short-vulkan", 1)]
#[case::failing("failing-vulkan", 2)]
#[case::tuned("tuned-vulkan", 3)]
#[case::threads("threads-vulkan", 4)]
fn random_graphs_of_the_corpus_agree_with_numpy_i1_i4_i7(#[case] mode: &str, #[case] first: usize) {
    /// Each mode has other graphs.
    const EACH: usize = 24;
    let cases = corpus().map(Result::unwrap).skip(first).step_by(EACH);
    assert_right(cases, &[Mode::of(mode).unwrap()]);
}

#[test]
fn named_graphs_agree_with_numpy_i1_i4_i7() {
    let modes = ["vulkan", "failing-vulkan"].map(|mode| Mode::of(mode).unwrap());
    assert_right(named().map(Result::unwrap), &modes);
}

#[test]
fn every_operation_agrees_with_numpy_for_every_type() {
    let cases = operations().map(Result::unwrap);
    assert_right(cases, &[Mode::of("parts-vulkan").unwrap()]);
}
