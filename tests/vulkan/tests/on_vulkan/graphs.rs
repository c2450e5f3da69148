//! Random graphs of the fuzzer's corpus, and its graphs for known errors of graph compilers, compared with NumPy.

use millstream_graph_fuzz::{Case, Mode, Runner, corpus, named};
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
#[case::plain(Mode::Vulkan, 0)]
#[case::short(Mode::ShortVulkan, 1)]
#[case::failing(Mode::FailingVulkan, 2)]
#[case::tuned(Mode::TunedVulkan, 3)]
#[case::threads(Mode::ThreadsVulkan, 4)]
fn random_graphs_of_the_corpus_agree_with_numpy_i1_i4_i7(#[case] mode: Mode, #[case] first: usize) {
    /// Each mode has other graphs.
    const EACH: usize = 24;
    let cases = corpus().map(Result::unwrap).skip(first).step_by(EACH);
    assert_right(cases, &[mode]);
}

#[test]
fn named_graphs_agree_with_numpy_i1_i4_i7() {
    assert_right(named().map(Result::unwrap), &[Mode::Vulkan]);
}
