//! The table of mutants, as Markdown.

use std::fmt::Write;

use super::finder::Found;
use super::mutant::Mutant;

const HEAD: &str =
    "| mutant | what it breaks | | found by | how soon |\n| --- | --- | --- | --- | --- |\n";

/// Returns a table with a row for each check that found a mutant.
pub(super) fn table(mutants: &[(&Mutant, Vec<Found>)]) -> String {
    let mut table = HEAD.to_owned();
    for (mutant, found) in mutants {
        for (finder, found) in mutant.finders.iter().zip(found) {
            let (name, breaks, invariant) = (&mutant.name, &mutant.breaks, &mutant.invariant);
            let after = &found.after;
            let _ = writeln!(
                table,
                "| `{name}` | {breaks} | {invariant} | `{finder}` | {after} |"
            );
        }
    }
    table
}
