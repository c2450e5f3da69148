//! The test programs of the workspace, by the arguments that choose them.
//!
//! The features of the chosen packages decide how Cargo builds what they depend on. So a suite that chose fewer packages than
//! `cargo test` would build most of the workspace again. It chooses the whole workspace, and of that the programs that it runs.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cargo::{Cargo, output};

/// The packages whose tests `cargo test` runs.
const FACE: [&str; 2] = ["millstream", "millstream-cli"];

/// The arguments that choose the programs that `cargo test` leaves out.
pub(crate) fn beyond_cargo_test(cargo: &Cargo) -> Result<String, String> {
    chosen(cargo, |package, _| !FACE.contains(&package))
}

/// The same, and the programs that ignore tests there.
pub(crate) fn with_ignored_tests(cargo: &Cargo) -> Result<String, String> {
    chosen(cargo, |package, path| {
        !FACE.contains(&package) || ignores_tests(path)
    })
}

/// Whether a program has tests that are ignored. Its other files are in the folder of its `main.rs`.
fn ignores_tests(path: &Path) -> bool {
    let says_so =
        |file: &Path| fs::read_to_string(file).is_ok_and(|text| text.contains("#[ignore"));
    match path.parent() {
        Some(folder) if path.ends_with("main.rs") => any_source(folder, &says_so),
        _ => says_so(path),
    }
}

fn any_source(folder: &Path, is_it: &dyn Fn(&Path) -> bool) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| match path.is_dir() {
            true => any_source(&path, is_it),
            false => path.extension().is_some_and(|end| end == "rs") && is_it(&path),
        })
}

fn chosen(cargo: &Cargo, is_chosen: impl Fn(&str, &Path) -> bool) -> Result<String, String> {
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
                    "Cargo describes a target that is not known: {target}"
                ));
            };
            // All libraries are chosen by one word.
            if matches!(kind, "bin" | "test" | "example") && is_chosen(owner, Path::new(path)) {
                arguments += &format!(" --{kind} {name}");
            }
        }
    }
    Ok(arguments)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
