//! The committed cases, in every mode: `corpus.jsonl` has random graphs that pass, `named.jsonl` a case for each known
//! error of graph compilers. Neither needs Python.
#![allow(clippy::unwrap_used, reason = "tests unwrap values that they expect")]

use millstream_graph_fuzz::{Case, Mode, Runner};
use rstest::rstest;

fn named() -> impl Iterator<Item = Case> {
    millstream_graph_fuzz::named().map(Result::unwrap)
}

fn wrong(cases: impl Iterator<Item = Case>, modes: &[Mode]) -> Vec<String> {
    Runner::findings(cases, modes).unwrap()
}

#[rstest]
#[case::cpu("cpu", 1)]
#[case::sim("sim", 1)]
#[case::bound("bound", 3)]
#[case::short("short", 2)]
#[case::short_sim("short-sim", 3)]
#[case::parts("parts", 1)]
#[case::tuned("tuned", 3)]
#[case::failing("failing", 2)]
#[case::failing_sim("failing-sim", 2)]
#[case::threads("threads", 4)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
#[case::cuda("cuda", 12)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
#[case::short_cuda("short-cuda", 24)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
#[case::failing_cuda("failing-cuda", 24)]
fn random_graphs_of_the_corpus_agree_with_numpy_i1_i4_i7(#[case] mode: &str, #[case] each: usize) {
    let cases = millstream_graph_fuzz::corpus().map(Result::unwrap);
    let wrong = wrong(cases.step_by(each), &[Mode::of(mode).unwrap()]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[rstest]
#[case::without_gpu(&Mode::WITHOUT_GPU)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
#[case::of_gpu(&Mode::OF_GPU)]
fn named_graphs_agree_with_numpy_in_every_mode_i1_i4_i7(#[case] modes: &[Mode]) {
    let wrong = wrong(named(), modes);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[rstest]
#[case::without_gpu(&Mode::WITHOUT_GPU)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
#[case::of_gpu(&Mode::OF_GPU)]
fn case_with_a_wrong_expectation_is_found_in_every_mode(#[case] modes: &[Mode]) {
    let mut case = named().find(|case| case.name == "several_reductions_of_one_input");
    let root = &mut case.as_mut().unwrap().runs[0].roots[0];
    let was = root.exact.take().unwrap();
    root.exact = Some(format!("{}0000c041", &was[..was.len() - 8]));
    for &mode in modes {
        let wrong = wrong(case.iter().cloned(), &[mode]);
        assert_eq!(wrong.len(), 1, "{mode:?}: {wrong:?}");
    }
}
