//! The committed cases: `corpus.jsonl` has random graphs that pass, `named.jsonl` a case for each known error of graph
//! compilers, `operations.jsonl` every operation on every type. None needs Python.
#![allow(clippy::unwrap_used, reason = "tests unwrap values that they expect")]

use millstream::DType;
use millstream::ir::{BinaryOp, ReduceOp};
use millstream_graph_fuzz::{Case, Mode, Runner, operations};
use rstest::rstest;

fn named() -> impl Iterator<Item = Case> {
    millstream_graph_fuzz::named().map(Result::unwrap)
}

fn wrong(cases: impl Iterator<Item = Case>, modes: &[Mode]) -> Vec<String> {
    Runner::findings(cases, modes).unwrap()
}

#[rstest]
#[case::cpu("cpu", 2)]
#[case::sim("sim", 2)]
#[case::bound("bound", 3)]
#[case::short("short", 2)]
#[case::short_sim("short-sim", 3)]
#[case::parts("parts", 2)]
#[case::tuned("tuned", 4)]
#[case::failing("failing", 4)]
#[case::failing_sim("failing-sim", 4)]
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
#[case::plain(&["cpu", "sim"])]
#[case::parts(&["parts", "parts-sim"])]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
#[case::cuda(&["cuda"])]
fn every_operation_agrees_with_numpy_for_every_type(#[case] modes: &[&str]) {
    let modes = modes.iter().map(|mode| Mode::of(mode).unwrap());
    let wrong = wrong(operations().map(Result::unwrap), &modes.collect::<Vec<_>>());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// So a truncated file does not pass.
#[test]
fn the_files_have_all_of_their_cases() {
    let (random, named) = (millstream_graph_fuzz::corpus().count(), named().count());
    assert!(random >= 431 && named >= 58, "{random} and {named}");
}

/// Operations that move elements of any type.
const MOVES: [&str; 13] = [
    "broadcast_to",
    "cat",
    "flip",
    "gather",
    "narrow",
    "pad",
    "permute",
    "repeat",
    "roll",
    "scatter",
    "select",
    "stack",
    "take",
];

/// For the types that the generators know. `tests/graph/functions.rs` has the operations of one value.
#[test]
fn every_other_operation_has_a_case_for_every_type() {
    let cases: Vec<Case> = operations().map(Result::unwrap).collect();
    let floats = [DType::F64, DType::F32, DType::F16, DType::Bf16];
    let others = [DType::I64, DType::I32, DType::U32, DType::U8, DType::Bool];
    for dtype in floats.into_iter().chain(others) {
        let suffix = format!("_{dtype}");
        let of_type = cases.iter().filter(|case| case.name.ends_with(&suffix));
        // Only roots are compared.
        let compared =
            of_type.flat_map(|case| case.roots.iter().map(|root| &*case.nodes[*root].op));
        let compared: Vec<&str> = compared.collect();
        let wide = dtype.computed();
        let binary = BinaryOp::ALL.iter().filter(|op| op.takes(wide));
        let reductions = ReduceOp::ALL.iter().filter(|op| op.takes(wide));
        let binary = binary.map(|op| match op {
            BinaryOp::Min => "minimum",
            BinaryOp::Max => "maximum",
            op => op.name(),
        });
        let reductions = reductions.map(|op| match op {
            ReduceOp::Prod => "product",
            op => op.name(),
        });
        let adds = dtype == wide && dtype != DType::Bool;
        let of_sums = adds.then_some("scatter_add");
        let running = (dtype != DType::Bool).then_some("cumsum");
        let names = binary.chain(reductions).chain(MOVES);
        let mut names = names.chain(of_sums).chain(running);
        let missing = names.find(|name| !compared.contains(name));
        assert_eq!(missing, None, "of {dtype}");
    }
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
