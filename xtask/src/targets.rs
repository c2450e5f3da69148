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
/// The packages whose test programs all run on a Vulkan driver. Those of other packages are named `on_vulkan`.
const VULKAN_PACKAGES: [&str; 2] = ["millstream-vulkan-conformance", "millstream-vulkan-faults"];
/// The arguments that select all libraries.
const LIBRARIES: &str = "--workspace --lib";

/// Returns the arguments for the programs that `cargo test` omits.
pub(crate) fn beyond_cargo_test(cargo: &Cargo) -> Result<String, String> {
    let programs = select(cargo, |package, _| !DEFAULT_PACKAGES.contains(&package))?;
    Ok(format!("{LIBRARIES}{programs}"))
}

/// Returns the arguments for the programs that run on a Vulkan driver.
pub(crate) fn on_vulkan(cargo: &Cargo) -> Result<String, String> {
    let programs = select(cargo, |package, path| {
        VULKAN_PACKAGES.contains(&package) || path.ends_with("tests/on_vulkan.rs")
    })?;
    Ok(format!("--workspace{programs}"))
}

/// Returns the arguments for these programs and for all programs with ignored tests.
pub(crate) fn with_ignored_tests(cargo: &Cargo) -> Result<String, String> {
    let programs = select(cargo, |package, path| {
        !DEFAULT_PACKAGES.contains(&package) || has_ignored_tests(path)
    })?;
    Ok(format!("{LIBRARIES}{programs}"))
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

/// Returns the arguments that select these programs, each after a blank. Libraries are not programs.
fn select(cargo: &Cargo, is_selected: impl Fn(&str, &Path) -> bool) -> Result<String, String> {
    let listed = output(&mut cargo.command("metadata --no-deps --format-version 1"))?;
    let listed: Value = serde_json::from_str(&listed).map_err(|error| error.to_string())?;
    let mut arguments = String::new();
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
