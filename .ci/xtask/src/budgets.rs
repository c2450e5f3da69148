//! The budgets of the crates: the most lines of code that each may have, without comments, blank lines and tests.
//!
//! `.ci/xtask/budgets.txt` has one line for each crate of the product: its folder and its lines. A crate that has more fails
//! the suite, and so does one that has become smaller by more than [`SLACK`] lines: lower its budget, so that it only
//! shrinks. A new feature that needs more says so in the commit that raises a budget.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{Cargo, Outcome, output, root};

/// The lines by which a crate may be below its budget.
const SLACK: usize = 40;

/// Folders whose files are tests, or programs for measurements.
const TESTS: [&str; 5] = ["tests", "benches", "examples", "loom-tests", "mutants"];

/// Compares the lines of each crate with its budget.
pub(crate) fn run(_: &Cargo) -> Outcome {
    let path = root().join(".ci/xtask/budgets.txt");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let budgets = parse(&text)?;
    let counted = count_crates()?;
    let mut wrong = String::new();
    for (folder, lines) in &counted {
        let budget = budgets.get(folder).copied().unwrap_or(0);
        if *lines > budget {
            let _ = writeln!(
                wrong,
                "{folder} has {lines} lines of code, its budget is {budget}"
            );
        } else if lines + SLACK < budget {
            let _ = writeln!(
                wrong,
                "{folder} has {lines} lines of code: lower its budget, which is {budget}"
            );
        }
    }
    for folder in budgets
        .keys()
        .filter(|folder| !counted.contains_key(*folder))
    {
        let _ = writeln!(wrong, "{folder} has a budget and no code: remove it");
    }
    let (lines, budget) = (
        counted.values().sum::<usize>(),
        budgets.values().sum::<usize>(),
    );
    println!("{lines} lines of code of {budget}");
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("{wrong}the budgets are in {}", path.display())),
    }
}

fn parse(text: &str) -> Result<BTreeMap<String, usize>, String> {
    let parse_line = |line: &str| {
        let (folder, lines) = line.split_once(char::is_whitespace)?;
        Some((folder.to_owned(), lines.trim().parse().ok()?))
    };
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| {
            parse_line(line).ok_or_else(|| format!("expected a folder and a number, got `{line}`"))
        })
        .collect()
}

/// Counts the lines of code of each crate that has any, by its folder.
fn count_crates() -> Result<BTreeMap<String, usize>, String> {
    let mut git = Command::new("git");
    let files = output(git.args(["ls-files", "*.rs"]).current_dir(root()))?;
    let mut crates = BTreeMap::new();
    for file in files.lines().map(Path::new).filter(|file| !is_test(file)) {
        let text = fs::read_to_string(root().join(file))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        *crates.entry(crate_of(file)).or_default() += count(&text);
    }
    crates.retain(|_, lines| *lines > 0);
    Ok(crates)
}

fn is_test(file: &Path) -> bool {
    let is_tests_folder = |part: &std::ffi::OsStr| TESTS.iter().any(|folder| part == *folder);
    let name = file
        .file_stem()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let is_tests_file = ["test", "tests", "model", "models"].contains(&name)
        || name.ends_with("_test")
        || name.ends_with("_tests");
    is_tests_file || file.iter().any(is_tests_folder)
}

/// Returns the folder of the package of a file.
fn crate_of(file: &Path) -> String {
    let has_manifest = |folder: &&Path| root().join(folder).join("Cargo.toml").exists();
    let folder = file.ancestors().skip(1).find(has_manifest);
    match folder.map(PathBuf::from) {
        Some(folder) if folder.as_os_str().is_empty() => ".".to_owned(),
        folder => folder.unwrap_or_default().to_string_lossy().into_owned(),
    }
}

/// Counts lines that are neither blank nor comments, nor part of an item for tests. Such an item ends where `rustfmt` puts
/// its last brace.
fn count(text: &str) -> usize {
    let (mut lines, mut skipped_until) = (0, None);
    for line in text.lines() {
        let code = line.trim();
        match skipped_until {
            None if is_for_tests(code) => skipped_until = Some(";"),
            None => lines += usize::from(!code.is_empty() && !code.starts_with("//")),
            Some(";") if code.ends_with('{') => skipped_until = Some("}"),
            Some(";") if code.ends_with(';') => skipped_until = None,
            Some("}") if line == "}" => skipped_until = None,
            Some(_) => {}
        }
    }
    lines
}

fn is_for_tests(code: &str) -> bool {
    let condition = code.strip_prefix("#[cfg(").unwrap_or_default();
    let condition = condition.strip_prefix("all(").unwrap_or(condition);
    condition
        .strip_prefix("loom, ")
        .unwrap_or(condition)
        .starts_with("test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_do_not_count() {
        let text = "//! Head.\n\nfn f() {\n    // Why.\n    g();\n}\n\n#[cfg(test)]\nmod tests;\n\n#[cfg(all(test, not(loom)))]\nmod tests {\n    fn t() {\n    }\n}\nconst A: u8 = 0;\n";
        assert_eq!(count(text), 4);
        assert_eq!(count("#[cfg(feature = \"x\")]\nfn f() {}\n"), 2);
    }

    #[test]
    fn files_of_tests_are_known_by_their_names_and_folders() {
        for file in [
            "a/tests/b.rs",
            "benches/a.rs",
            "a/tests.rs",
            "a/b_tests.rs",
            "a/model.rs",
        ] {
            assert!(is_test(Path::new(file)), "{file}");
        }
        assert!(!is_test(Path::new("a/src/latest.rs")));
    }

    #[test]
    fn a_budget_is_a_folder_and_a_number() {
        assert_eq!(parse(".  1156\nactors 3241\n").unwrap().len(), 2);
        assert!(parse("actors many\n").is_err());
    }
}
