//! The committed cases, in every mode: `corpus.jsonl` is of random graphs that pass, `named.jsonl` has one for each thing that graph
//! compilers are known to get wrong. Neither needs Python.
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping"
)]

use millstream_graph_fuzz::{Bench, Case, Mode};
use rstest::rstest;

/// Named cases that are known to be wrong still. What is mended goes from here.
const OPEN: &[&str] = &[
    "a_broadcast_to_the_same_shape_is_not_its_input",
    "a_buffer_is_overwritten",
    "a_cast_to_the_same_type_is_not_its_input",
    "a_mean_of_nothing_is_no_number",
    "a_mean_of_ones_is_one",
    "a_product_is_a_part_of_a_cat",
    "a_range_is_stored_to_and_another_over_it_is_read",
    "a_reshape_to_the_same_shape_is_not_its_input",
    "a_softmax_of_nothing_is_transposed",
    "a_store_that_nothing_is_read_of_is_made",
    "a_sum_over_an_axis_of_one_is_not_its_input",
    "a_version_is_scattered_into_with_the_old_one",
    "nothing_is_summed_across",
    "nothing_is_summed_over_two_axes",
    "rows_of_a_cat_are_a_softmax",
    "two_buffers_are_swapped",
    "two_versions_are_asked_for_the_other_way_round",
    "what_fails_does_not_reach_what_lies_there_next",
];

/// The same, where it is by chance that they are: tuning decides.
const OPEN_BY_CHANCE: &[&str] = &["nothing_is_reduced_where_a_run_says_so"];

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
#[case::parts(Mode::Parts, 1)]
#[case::held(Mode::Held, 1)]
#[case::tuned(Mode::Tuned, 3)]
#[case::failing(Mode::Failing, 2)]
#[case::failing_sim(Mode::FailingSim, 2)]
#[case::failing_held(Mode::FailingHeld, 4)]
fn random_graphs_of_the_corpus_compute_what_numpy_does_i1_i4_i7(
    #[case] mode: Mode,
    #[case] each: usize,
) {
    let cases = cases(include_str!("../corpus.jsonl")).step_by(each);
    let wrong = wrong(cases, &[mode]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn named_graphs_compute_what_numpy_does_in_every_mode_i1_i4_i7() {
    let is_open = |name: &str| OPEN.contains(&name) || OPEN_BY_CHANCE.contains(&name);
    let closed = named().filter(|case| !is_open(&case.name));
    let wrong = wrong(closed, &Mode::ALL);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whoever mends one is told to take it off the list.
#[test]
fn named_graphs_that_are_open_are_wrong_still() {
    for name in OPEN {
        let mut found = named().filter(|case| case.name == *name).peekable();
        assert!(found.peek().is_some(), "there is no case `{name}`");
        let wrong = wrong(found, &Mode::ALL);
        assert!(!wrong.is_empty(), "`{name}` is mended: take it off `OPEN`");
    }
}

#[test]
fn a_case_with_another_result_is_found_in_every_mode() {
    let mut case = named().find(|case| case.name == "several_reductions_are_of_one_input");
    let root = &mut case.as_mut().unwrap().runs[0].roots[0];
    let was = root.exact.take().unwrap();
    root.exact = Some(format!("{}0000c041", &was[..was.len() - 8]));
    for mode in Mode::ALL {
        let wrong = wrong(case.iter().cloned(), &[mode]);
        assert_eq!(wrong.len(), 1, "{mode:?}: {wrong:?}");
    }
}
