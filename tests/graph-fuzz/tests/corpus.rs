//! The committed cases, in every mode: `corpus.jsonl` is of random graphs that pass, `named.jsonl` has one for each thing that graph
//! compilers are known to get wrong. Neither needs Python.
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping"
)]

use millstream_graph_fuzz::{Bench, Case, Mode};
use rstest::rstest;

fn cases(text: &str) -> impl Iterator<Item = Case> + '_ {
    text.lines().map(|line| Case::parse(line).unwrap())
}

fn named() -> impl Iterator<Item = Case> {
    cases(include_str!("../named.jsonl"))
}

/// What is wrong with some cases, a line each.
fn wrong(cases: impl Iterator<Item = Case>, modes: &[Mode]) -> Vec<String> {
    let mut bench = Bench::default();
    let mut wrong = Vec::new();
    for case in cases {
        for finding in bench.run(&case, modes).unwrap() {
            wrong.push(format!("{} [{}] {}", case.name, finding.mode, finding.what));
        }
    }
    wrong
}

#[rstest]
#[case::cpu(Mode::Cpu, 1)]
#[case::sim(Mode::Sim, 1)]
#[case::bound(Mode::Bound, 3)]
#[case::short(Mode::Short, 2)]
#[case::short_sim(Mode::ShortSim, 3)]
#[case::parts(Mode::Parts, 1)]
#[case::held(Mode::Held, 1)]
#[case::tuned(Mode::Tuned, 3)]
#[case::failing(Mode::Failing, 2)]
#[case::failing_sim(Mode::FailingSim, 2)]
#[case::failing_held(Mode::FailingHeld, 4)]
#[case::threads(Mode::Threads, 4)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
#[case::cuda(Mode::Cuda, 12)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
#[case::short_cuda(Mode::ShortCuda, 24)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
#[case::failing_cuda(Mode::FailingCuda, 24)]
fn random_graphs_of_the_corpus_compute_what_numpy_does_i1_i4_i7(
    #[case] mode: Mode,
    #[case] each: usize,
) {
    let cases = cases(include_str!("../corpus.jsonl")).step_by(each);
    let wrong = wrong(cases, &[mode]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[rstest]
#[case::without_gpu(&Mode::WITHOUT_GPU)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
#[case::of_gpu(&Mode::OF_GPU)]
fn named_graphs_compute_what_numpy_does_in_every_mode_i1_i4_i7(#[case] modes: &[Mode]) {
    let wrong = wrong(named(), modes);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[rstest]
#[case::without_gpu(&Mode::WITHOUT_GPU)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
#[case::of_gpu(&Mode::OF_GPU)]
fn a_case_with_another_result_is_found_in_every_mode(#[case] modes: &[Mode]) {
    let mut case = named().find(|case| case.name == "several_reductions_are_of_one_input");
    let root = &mut case.as_mut().unwrap().runs[0].roots[0];
    let was = root.exact.take().unwrap();
    root.exact = Some(format!("{}0000c041", &was[..was.len() - 8]));
    for &mode in modes {
        let wrong = wrong(case.iter().cloned(), &[mode]);
        assert_eq!(wrong.len(), 1, "{mode:?}: {wrong:?}");
    }
}
