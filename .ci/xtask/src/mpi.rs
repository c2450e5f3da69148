//! The suite `mpi`: builds the ranks of MPI, and runs their scenarios under `mpirun`.
//!
//! `.ci/mpi` installs Open MPI. With `MILLSTREAM_MPI_HERE=1` the compiler wrapper and `mpirun` are those of this machine.

use std::path::Path;
use std::process::Command;

use crate::cargo::{Cargo, Outcome, output, root, run, run_tests};

/// The manifest of the package, which is outside the workspace.
pub(crate) const MANIFEST: &str = "cluster/mpi/Cargo.toml";

/// Lets root start more ranks than there are cores.
const ALLOWED: [(&str, &str); 6] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
];

pub(crate) fn run_suite(cargo: &Cargo) -> Outcome {
    let variables = variables()?;
    let package = format!("--manifest-path {MANIFEST} --target-dir target");
    let mut lints = cargo.command(&format!("clippy --quiet --all-targets {package}"));
    lints.args(["--", "-D", "warnings"]);
    run(lints.envs(variables.iter().cloned()))?;
    let mut tests = cargo.command(&format!("test --quiet {package}"));
    run_tests(tests.envs(variables))
}

/// Returns the variables with which Cargo builds the bindings, and with which ranks start.
pub(crate) fn variables() -> Result<Vec<(String, String)>, String> {
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let mut variables: Vec<_> = ALLOWED.into_iter().map(own).collect();
    if std::env::var("MILLSTREAM_MPI_HERE").is_ok_and(|value| value == "1") {
        return Ok(variables);
    }
    let folder = output(Command::new(".ci/mpi").current_dir(root()))?;
    let headers = output(Command::new("gcc").arg("-print-file-name=include"))?;
    let clang = library(Path::new(&folder))?;
    let path = std::env::var("PATH").unwrap_or_default();
    variables.extend([
        ("PATH".to_owned(), format!("{folder}/bin:{path}")),
        ("MPICC".to_owned(), format!("{folder}/bin/mpicc")),
        ("LIBCLANG_PATH".to_owned(), clang),
        // The wheel has no headers of the compiler itself.
        (
            "BINDGEN_EXTRA_CLANG_ARGS".to_owned(),
            format!("-I{headers}"),
        ),
    ]);
    Ok(variables)
}

/// Returns the folder of libclang in a virtual environment.
fn library(environment: &Path) -> Result<String, String> {
    let lib = environment.join("lib");
    let versions =
        std::fs::read_dir(&lib).map_err(|error| format!("`{}`: {error}", lib.display()))?;
    let folders = versions
        .flatten()
        .map(|python| python.path().join("site-packages/clang/native"));
    let mut found = folders.filter(|folder| folder.join("libclang.so").exists());
    match found.next() {
        Some(folder) => Ok(folder.display().to_string()),
        None => Err(format!("`{}` has no libclang", environment.display())),
    }
}
