//! Returns the Cargo arguments that select test programs of the workspace.
//!
//! The features of the selected packages decide how Cargo builds their dependencies. A suite that selected fewer
//! packages than `cargo test` would rebuild most of the workspace, so it selects the whole workspace and then single
//! programs.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cargo::{Cargo, output};

/// The packages whose tests `cargo test` runs.
const DEFAULT_PACKAGES: [&str; 2] = ["millstream", "millstream-cli"];

/// Returns the arguments for the programs that `cargo test` omits.
pub(crate) fn beyond_cargo_test(cargo: &Cargo) -> Result<String, String> {
    select(cargo, |package, _| !DEFAULT_PACKAGES.contains(&package))
}

/// Returns the arguments for these programs and for all programs with ignored tests.
pub(crate) fn with_ignored_tests(cargo: &Cargo) -> Result<String, String> {
    select(cargo, |package, path| {
        !DEFAULT_PACKAGES.contains(&package) || has_ignored_tests(path)
    })
}

/// Whether a program has ignored tests. A program with a `main.rs` also has the other files of that folder.
fn has_ignored_tests(path: &Path) -> bool {
    let ignores =
        |file: &Path| fs::read_to_string(file).is_ok_and(|text| text.contains("#[ignore"));
    match path.parent() {
        Some(folder) if path.ends_with("main.rs") => any_source(folder, &ignores),
        _ => ignores(path),
    }
}

fn any_source(folder: &Path, matches: &dyn Fn(&Path) -> bool) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| match path.is_dir() {
            true => any_source(&path, matches),
            false => path.extension().is_some_and(|end| end == "rs") && matches(&path),
        })
}

fn select(cargo: &Cargo, is_selected: impl Fn(&str, &Path) -> bool) -> Result<String, String> {
    let listed = output(&mut cargo.command("metadata --no-deps --format-version 1"))?;
    let listed: Value = serde_json::from_str(&listed).map_err(|error| error.to_string())?;
    let mut arguments = String::from("--workspace --lib");
    for package in items(&listed["packages"]) {
        for target in items(&package["targets"]).filter(|target| target["test"] == true) {
            let (Some(owner), Some(name), Some(path), Some(kind)) = (
                package["name"].as_str(),
                target["name"].as_str(),
                target["src_path"].as_str(),
                target["kind"][0].as_str(),
            ) else {
                return Err(format!(
                    "`cargo metadata` returned an unexpected target: {target}"
                ));
            };
            // `--lib` selects all libraries.
            if matches!(kind, "bin" | "test" | "example") && is_selected(owner, Path::new(path)) {
                arguments += &format!(" --{kind} {name}");
            }
        }
    }
    Ok(arguments)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
