//! The Cargo arguments that select test programs of the workspace.
//!
//! The features of the selected packages decide how Cargo builds their dependencies. A suite that selected few packages
//! would rebuild most of the workspace. So suites select the whole workspace, or all packages but some whose features
//! others have as well, as [`check_features`] checks; `cargo test` has the same features.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::cargo::{Cargo, Outcome, output};

/// The packages that `cargo test` omits, without those whose programs all need a Vulkan driver.
pub(crate) const BEYOND_CARGO_TEST: &str = "--workspace --exclude millstream --exclude millstream-cli \
    --exclude millstream-vulkan-conformance --exclude millstream-vulkan-faults";
/// The programs that run on a Vulkan driver. The command line has Vulkan only if asked.
pub(crate) const ON_VULKAN: &str =
    "--workspace --features millstream-cli/vulkan --test on_vulkan --test vulkan_*";

/// Checks that the packages that `cargo test` and the suite `crates` build have the same features in the whole workspace.
/// A difference in one of them, such as `num-traits`, would make the suites build all packages above it a second time.
pub(crate) fn check_features(cargo: &Cargo) -> Outcome {
    let tree = |packages: &str| {
        let format = "--edges normal,build,dev --prefix none --format {p}|{f}";
        output(&mut cargo.command(&format!("tree {packages} {format}")))
    };
    let of_workspace = tree("--workspace")?;
    let of_workspace = features(&of_workspace);
    let mut differing = String::new();
    for packages in ["", BEYOND_CARGO_TEST] {
        for (package, features) in features(&tree(packages)?) {
            let others = of_workspace.get(package);
            if let Some(others) = others.filter(|others| !others.is_superset(&features)) {
                differing += &format!(
                    "\n{package}: {features:?} by `cargo test {packages}`, {others:?} in the workspace"
                );
            }
        }
    }
    match differing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "features differ; enable them in dev-dependencies, so that nothing is built twice:{differing}"
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
    cargo.built("test --workspace --lib --no-run", |message| {
        let is_wanted = message["target"]["name"] == library && message["profile"]["test"] == true;
        let program = message["executable"].as_str().filter(|_| is_wanted)?;
        Some(PathBuf::from(program))
    })
}
