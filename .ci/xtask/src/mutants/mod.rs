//! Mutation tests: patches that plant mistakes, each with the checks that must find it.
//!
//! The first line of a patch in `tests/mutants/` describes the mistake, and its `found-by:` lines name the checks
//! ([`Mutant`]). The suite copies the workspace, applies one patch after the other to the copy, and requires that each
//! check fails. Every change checks that all patches apply, and runs a few, chosen by the commit. `--all` runs all
//! patches, `--only` some; both write a table of what they ran to `target/mutants.md`.

mod finder;
mod mutant;
mod tree;

use std::fs;
use std::process::Command;

use crate::cargo::{Cargo, Outcome, output, root};
use finder::{Finder, Found};
use mutant::Mutant;
use tree::Tree;

/// The number of mutants that every change runs.
const FEW: usize = 2;

/// The head of the table of mutants.
const HEAD: &str =
    "| mutant | what it breaks | | found by | how soon |\n| --- | --- | --- | --- | --- |\n";

/// Checks that all patches apply, and runs the chosen ones.
pub(crate) fn run(cargo: &Cargo) -> Outcome {
    let mutants = Mutant::all(&root().join("tests/mutants"))?;
    let tree = Tree::copy()?;
    let stale = mutants.iter().filter_map(|mutant| {
        let error = tree.apply(&mutant.path, &["--check"]).err()?;
        Some(format!("{}: {error}", mutant.name))
    });
    let stale: Vec<_> = stale.collect();
    if !stale.is_empty() {
        return Err(format!(
            "patches do not apply; adjust their context lines:\n{}",
            stale.join("\n")
        ));
    }
    println!("{} patches apply", mutants.len());
    let chosen = chosen(cargo, &mutants)?;
    let (mut table, mut missed) = (HEAD.to_owned(), Vec::new());
    for mutant in chosen {
        tree.apply(&mutant.path, &[])?;
        let found = found_by_all(cargo, &tree, mutant);
        tree.apply(&mutant.path, &["--reverse"])?;
        match found {
            Ok(rows) => table += &rows,
            Err(reason) => {
                println!("MISSED {}: {reason}", mutant.name);
                missed.push(mutant.name.as_str());
            }
        }
    }
    if !missed.is_empty() {
        return Err(format!("not found: {}", missed.join(", ")));
    }
    if cargo.all || cargo.only.is_some() {
        let page = root().join("target/mutants.md");
        fs::write(&page, table).map_err(|error| error.to_string())?;
        println!("the table is in {}", page.display());
    }
    Ok(())
}

/// Runs all checks that must find a mutant, and returns a row of the table for each. A check that does not is an error.
fn found_by_all(cargo: &Cargo, tree: &Tree, mutant: &Mutant) -> Result<String, String> {
    let (name, breaks, invariant) = (&mutant.name, &mutant.breaks, &mutant.invariant);
    let one = |finder: &Finder| {
        let Found { after, message } = finder.run(cargo, tree)?;
        println!("found  {name:<40} by {finder} {after}: {message}");
        Ok(format!(
            "| `{name}` | {breaks} | {invariant} | `{finder}` | {after} |\n"
        ))
    };
    mutant.finders.iter().map(one).collect()
}

/// Returns the mutants that the options choose, or a few that the commit chooses.
fn chosen<'m>(cargo: &Cargo, mutants: &'m [Mutant]) -> Result<Vec<&'m Mutant>, String> {
    if let Some(only) = &cargo.only {
        let chosen: Vec<_> = mutants
            .iter()
            .filter(|mutant| mutant.name.contains(only))
            .collect();
        return match chosen.is_empty() {
            true => Err(format!("no mutant's name contains `{only}`")),
            false => Ok(chosen),
        };
    }
    if cargo.all {
        return Ok(mutants.iter().collect());
    }
    // `--only vulkan` runs those that need a driver, `--only mpi` those that need MPI.
    let needs_more = |finder: &Finder| finder.needs_vulkan() || finder.needs_mpi();
    let mutants: Vec<_> = mutants
        .iter()
        .filter(|mutant| !mutant.finders.iter().any(needs_more))
        .collect();
    let mut git = Command::new("git");
    let commit = output(git.args(["rev-parse", "HEAD"]).current_dir(root()))?;
    let first = usize::from_str_radix(&commit[..commit.len().min(8)], 16)
        .map_err(|_| format!("`{commit}` is not a commit"))?;
    // The chosen mutants are far apart in the list, since neighbours concern the same part.
    let apart = mutants.len().div_ceil(FEW).max(1);
    let few =
        (0..FEW.min(mutants.len())).map(|turn| mutants[(first + turn * apart) % mutants.len()]);
    Ok(few.collect())
}
