//! Returns the Cargo arguments that select test programs of the workspace.
//!
//! The features of the selected packages decide how Cargo builds their dependencies. A suite that selected fewer
//! packages than `cargo test` would rebuild most of the workspace, so it selects the whole workspace and then single
//! programs. `cargo test` has the same features, as [`check_features`] checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cargo::{Cargo, Outcome, output};

/// The packages whose tests `cargo test` runs.
const DEFAULT_PACKAGES: [&str; 2] = ["millstream", "millstream-cli"];
/// The packages whose test programs all run on a Vulkan driver. Those of other packages are named `on_vulkan`.
const VULKAN_PACKAGES: [&str; 2] = ["millstream-vulkan-conformance", "millstream-vulkan-faults"];
/// The arguments that select all libraries.
const LIBRARIES: &str = "--workspace --lib";

/// Returns the arguments for the programs that `cargo test` omits, without those that need a Vulkan driver.
pub(crate) fn beyond_cargo_test(cargo: &Cargo) -> Result<String, String> {
    let programs = select(cargo, |package, _| {
        !DEFAULT_PACKAGES.contains(&package) && !VULKAN_PACKAGES.contains(&package)
    })?;
    Ok(format!("{LIBRARIES}{programs}"))
}

/// Returns the arguments for the programs that run on a Vulkan driver.
pub(crate) fn on_vulkan(cargo: &Cargo) -> Result<String, String> {
    let programs = select(cargo, |package, path| {
        VULKAN_PACKAGES.contains(&package) || path.ends_with("tests/on_vulkan.rs")
    })?;
    // The command line has Vulkan only if asked.
    Ok(format!(
        "--workspace --features millstream-cli/vulkan{programs}"
    ))
}

/// Returns the arguments for these programs and for all programs with tests that the suite `gpu` runs.
pub(crate) fn with_ignored_tests(cargo: &Cargo) -> Result<String, String> {
    let programs = select(cargo, |package, path| {
        !DEFAULT_PACKAGES.contains(&package) || has_ignored_tests(path)
    })?;
    Ok(format!("{LIBRARIES}{programs}"))
}

/// Whether a program has ignored tests that name the suite `gpu`. A program with a `main.rs` also has the other files of that folder.
fn has_ignored_tests(path: &Path) -> bool {
    let ignores = |file: &Path| {
        fs::read_to_string(file).is_ok_and(|text| text.contains("run `cargo xtask gpu`"))
    };
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

/// Checks that the packages that `cargo test` builds have the same features in the whole workspace. A difference in one
/// of them, such as `num-traits`, would make the suites build all packages above it a second time.
pub(crate) fn check_features(cargo: &Cargo) -> Outcome {
    let tree = |packages: &str| {
        let format = "--edges normal,build,dev --prefix none --format {p}|{f}";
        output(&mut cargo.command(&format!("tree {packages} {format}")))
    };
    let (of_tests, of_workspace) = (tree("")?, tree("--workspace")?);
    let (of_tests, of_workspace) = (features(&of_tests), features(&of_workspace));
    let differing = of_tests.iter().filter_map(|(package, features)| {
        let others = of_workspace.get(package)?;
        let line = format!("{package}: {features:?} by `cargo test`, {others:?} in the workspace");
        (!others.is_superset(features)).then_some(line)
    });
    let differing: Vec<_> = differing.collect();
    match differing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "features differ; enable them in the dev-dependencies of `millstream`, so that nothing is built twice:\n{}",
            differing.join("\n")
        )),
    }
}

/// Returns the sets of features of each package: one, and another if it also runs at build time.
fn features(tree: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut packages = BTreeMap::<_, BTreeSet<_>>::new();
    for line in tree.lines() {
        let line = line.trim_end_matches(" (*)");
        if let Some((package, features)) = line.split_once('|') {
            packages.entry(package).or_default().insert(features);
        }
    }
    packages
}

/// Builds the tests of a library with the features of the workspace, and returns their program.
pub(crate) fn library_tests(cargo: &Cargo, library: &str) -> Result<PathBuf, String> {
    cargo.built(&format!("test {LIBRARIES} --no-run"), |message| {
        let is_wanted = message["target"]["name"] == library && message["profile"]["test"] == true;
        let program = message["executable"].as_str().filter(|_| is_wanted)?;
        Some(PathBuf::from(program))
    })
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
