//! The suite `vulkan`: runs tests on a Vulkan driver. The suite `mutants` runs some of them, too.
//!
//! `.ci/vulkan` makes a Debian root with a driver for the processor, the validation layer and the tools, and
//! `.ci/vulkan-run` runs the test programs with it. With `MILLSTREAM_VULKAN_HERE=1` the driver and the layer are those
//! of this machine; the tests that need one version of a tool are then skipped.

use std::process::Command;

use crate::cargo::{Cargo, Outcome, output, root, run, run_tests};
use crate::targets;

pub(crate) fn run_suite(cargo: &Cargo) -> Outcome {
    let variables = variables()?;
    let mut on_device = cargo.tests(targets::ON_VULKAN, &[]);
    let on_device = run_tests(on_device.envs(variables.iter().cloned()));
    // The suite `crates` has run these tests, but without the validator.
    let mut lowering = Command::new(targets::library_tests(cargo, "millstream_spirv")?);
    lowering.arg(cargo.only.as_deref().unwrap_or("valid"));
    on_device.and(run(lowering.envs(variables)))
}

/// Tests the plugin for Bevy, and draws pictures with its example.
pub(crate) fn run_bevy(cargo: &Cargo) -> Outcome {
    let variables = variables()?;
    let bevy = |arguments: &str| {
        // Bevy asks for a newer Rust than it needs.
        let package = "--manifest-path examples/bevy/Cargo.toml --ignore-rust-version";
        let mut command = cargo.command(&format!("{arguments} {package} --target-dir target"));
        command.envs(variables.iter().cloned());
        command
    };
    run(&mut bevy("test --quiet"))?;
    let pictures = root().join("target/xtask-bevy");
    let mut example = bevy("run --quiet --example particles");
    example.args([
        "--",
        "--particles",
        "100000",
        "--frames",
        "21",
        "--every",
        "20",
        "--output",
    ]);
    run(example.arg(&pictures))?;
    let picture = |frame: &str| {
        let path = pictures.join(format!("particles-{frame}.png"));
        std::fs::read(&path).map_err(|error| format!("`{}`: {error}", path.display()))
    };
    match picture("0000")? == picture("0020")? {
        true => Err("the particles have not moved".to_owned()),
        false => Ok(()),
    }
}

/// Returns the variables with which Cargo runs tests on a Vulkan driver.
pub(crate) fn variables() -> Result<Vec<(String, String)>, String> {
    let script = root().join(".ci/vulkan-run");
    let script = script.display();
    let mut variables = vec![(runner_variable()?, script.to_string())];
    if !std::env::var("MILLSTREAM_VULKAN_HERE").is_ok_and(|value| value == "1") {
        let installed = output(Command::new(".ci/vulkan").current_dir(root()))?;
        let variable = |name: &str, value: String| (name.to_owned(), value);
        variables.extend([
            variable("MILLSTREAM_VULKAN_ROOT", installed),
            // The driver then compiles kernels for the processor without LLVM's optimizations: a fifth of the suite.
            variable("GALLIVM_PERF", "nopt".to_owned()),
            variable("MILLSTREAM_GLSLANG", format!("{script} glslang")),
            variable("MILLSTREAM_SPIRV_VAL", format!("{script} spirv-val")),
        ]);
    }
    Ok(variables)
}

/// Returns the name of the variable by which Cargo runs programs of this machine's target.
fn runner_variable() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output(Command::new(rustc).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("`rustc -vV` reports no host")?;
    let host = host.to_uppercase().replace('-', "_");
    Ok(format!("CARGO_TARGET_{host}_RUNNER"))
}
