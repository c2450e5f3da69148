//! The suite `capi`: builds the library for C and C++, and runs `.ci/capi`, which tests it from an installed prefix.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::cargo::{Cargo, Outcome, output, root, run};

pub(crate) fn run_suite(cargo: &Cargo) -> Outcome {
    check_header(cargo)?;
    // With the features of the workspace, so that nothing else is built again.
    let library = cargo.built("build --workspace --bench capi_launch", |message| {
        let mut files = message["filenames"]
            .as_array()?
            .iter()
            .filter_map(Value::as_str);
        let shared = files.find(|file| file.ends_with(".so"))?;
        (message["target"]["name"] == "millstream_capi").then(|| shared.into())
    })?;
    let mut tests = Command::new(".ci/capi");
    tests.args(library.parent()).args(&cargo.only);
    run(tests.current_dir(root()))
}

/// Checks that the committed header is what cbindgen makes of the sources.
fn check_header(cargo: &Cargo) -> Outcome {
    let generate = "run --quiet --manifest-path bindings/c/header/Cargo.toml --target-dir target";
    let generated = output(&mut cargo.command(generate))?;
    let path = root().join("bindings/c/include/millstream.h");
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if generated.trim() == committed.trim() {
        return Ok(());
    }
    let fresh = root().join("target/millstream.h");
    fs::write(&fresh, generated + "\n").map_err(|error| error.to_string())?;
    Err(format!(
        "`bindings/c/include/millstream.h` is not what cbindgen makes of the sources; copy `{}` over it",
        fresh.display()
    ))
}
