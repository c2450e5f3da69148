//! The suites: their names, descriptions and commands.

use std::process::Command;

use crate::cargo::{Cargo, Outcome, output, root, run, run_tests};
use crate::{budgets, capi, models, mpi, mutants, targets, vulkan};

/// A named group of checks.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// The description, in half a line.
    pub(crate) about: &'static str,
    /// The usual CPU minutes after `cargo test` and the suites before it, or `-` if not measured. Measured on two cores
    /// that were slow and shared on 2026-11-30; `cargo xtask ci` prints the current times.
    pub(crate) minutes: &'static str,
    pub(crate) run: fn(&Cargo) -> Outcome,
}

/// The suites that every change must pass, in the order in which they run.
pub(crate) const CI: &[Suite] = &[
    Suite {
        name: "format",
        about: "check the formatting",
        minutes: "0",
        run: |cargo| cargo.run("fmt --all --check"),
    },
    Suite {
        name: "budgets",
        about: "count the lines of code of each crate; none may exceed its budget",
        minutes: "0",
        run: budgets::run,
    },
    Suite {
        name: "lints",
        about: "run clippy with all features of the library and with none; deny warnings",
        minutes: "4.4",
        run: lints,
    },
    Suite {
        name: "docs",
        about: "build the documentation of the libraries; deny warnings",
        minutes: "2",
        run: docs,
    },
    Suite {
        name: "crates",
        about: "test the crates that `cargo test` omits: internals, CUDA on a fake driver, the fuzzer's corpus",
        minutes: "9.5",
        run: crates,
    },
    Suite {
        name: "gpu",
        about: "run tests that compile CUDA C, slow ones on the fake driver, and the demo on its photographs; installs NVRTC below target/ by pip, needs no GPU",
        minutes: "3.3",
        run: gpu,
    },
    Suite {
        name: "vulkan",
        about: "run tests on a Vulkan driver with validation; installs Mesa's below target/ by mmdebstrap, needs no GPU",
        minutes: "8.5",
        run: vulkan::run_suite,
    },
    Suite {
        name: "capi",
        about: "build the library for C and C++; test it from both, under AddressSanitizer and valgrind",
        minutes: "2.6",
        run: capi::run_suite,
    },
    Suite {
        name: "mpi",
        about: "build the ranks of MPI; run their scenarios with up to 4 ranks; installs Open MPI below target/ by pip",
        minutes: "3.9",
        run: mpi::run_suite,
    },
    Suite {
        name: "models",
        about: "run loom models and shuttle walks",
        minutes: "5",
        run: models::run_bounded,
    },
    Suite {
        name: "python",
        about: "build the wheel of Python without debug assertions, install it into a fresh virtual environment, run its tests and type checks, then install Ray and run the tests on a cluster",
        minutes: "5",
        run: python,
    },
    // Last, since it builds mistakes in the same target folder.
    Suite {
        name: "mutants",
        about: "check that all patches with mistakes apply, and that tests find a few, chosen by the commit; --all: every one",
        minutes: "2.6",
        run: mutants::run,
    },
];

/// The suites that run by name only.
pub(crate) const DEEP: &[Suite] = &[
    Suite {
        name: "peers",
        about: "build and test the benchmarks against other libraries",
        minutes: "4.5",
        run: |cargo| {
            cargo.run("test --manifest-path benches/peers/Cargo.toml --target-dir target --quiet")
        },
    },
    Suite {
        name: "bevy",
        about: "test the plugin for Bevy and run its example, on the driver of the suite `vulkan`",
        minutes: "5",
        run: vulkan::run_bevy,
    },
    Suite {
        name: "deep-models",
        about: "run larger loom models, and forty times as many schedules of walks of whole devices",
        minutes: "-",
        run: models::run_deep,
    },
    Suite {
        name: "swarm",
        about: "run random programs on the simulator for ten minutes",
        minutes: "-",
        run: |cargo| cargo.run("run --release -p millstream-swarm -- --minutes 10"),
    },
    Suite {
        name: "soak",
        about: "run a mixed load for twenty minutes; report growth and leaks",
        minutes: "-",
        run: |cargo| cargo.run("run --release -p millstream-swarm --bin soak -- --minutes 20"),
    },
    Suite {
        name: "address",
        about: "run all tests under AddressSanitizer; needs nightly and cargo-nextest",
        minutes: "-",
        run: |_| sanitize("address"),
    },
    Suite {
        name: "thread",
        about: "run all tests under ThreadSanitizer; needs nightly with rust-src and cargo-nextest",
        minutes: "-",
        run: |_| sanitize("thread"),
    },
    Suite {
        name: "miri",
        about: "run the primitives' tests under Miri; needs nightly with miri",
        minutes: "2",
        run: |_| sanitize("miri"),
    },
];

/// What `lints` and `docs` add to the features of the workspace.
const FEATURES: &str = "millstream/metrics,millstream-cli/vulkan";

fn lints(cargo: &Cargo) -> Outcome {
    let denied = |arguments: &str| {
        let mut command = cargo.command(&format!("clippy --quiet {arguments}"));
        run(command.args(["--", "-D", "warnings"]))
    };
    // Not `--all-targets`, which also checks each library once more as the bench of itself.
    let targets = "--lib --bins --examples --tests --bench *";
    denied(&format!("--workspace {targets} --features {FEATURES}"))?;
    // The third package has the features of the macros' dependencies, which are not built again then.
    denied("-p millstream -p millstream-cli -p millstream-syn-features --no-default-features")
}

fn docs(cargo: &Cargo) -> Outcome {
    // An example has the features of dev-dependencies: with those and the features of `lints`, the packages of others are
    // checked already.
    let targets = "--lib --example backend";
    let mut command = cargo.command(&format!(
        "doc --quiet --workspace --no-deps {targets} --features {FEATURES}"
    ));
    run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn crates(cargo: &Cargo) -> Outcome {
    targets::check_features(cargo)?;
    let tests = |kind| cargo.tests(&format!("{} {kind}", targets::BEYOND_CARGO_TEST), &[]);
    run_tests(&mut tests("--tests")).and(run_tests(&mut tests("--doc")))
}

/// Runs the tests that are ignored because they need NVRTC, or are slow on the fake driver or without optimization.
fn gpu(cargo: &Cargo) -> Outcome {
    let libraries = output(Command::new(".ci/nvrtc").current_dir(root()))?;
    let mut command = cargo.tests("--workspace --tests", &["--ignored"]);
    run_tests(command.env("MILLSTREAM_NVRTC", libraries))
}

/// Tests the wheel.
fn python(cargo: &Cargo) -> Outcome {
    let mut tests = Command::new(".ci/python");
    if let Some(only) = &cargo.only {
        tests.args(["-k", only]);
    }
    run(tests.current_dir(root()))
}

fn sanitize(kind: &str) -> Outcome {
    run(Command::new(".ci/sanitize").arg(kind).current_dir(root()))
}
