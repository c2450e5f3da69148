//! The suites: what each is called, what it checks, and the commands that it runs.

use std::process::Command;

use crate::cargo::{Cargo, Outcome, output, root, run};
use crate::{models, mutants, targets};

/// Checks with a name.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// What it checks, in half a line.
    pub(crate) about: &'static str,
    /// CPU minutes that it usually takes after `cargo test` and the suites before it; `-` where that was not measured. On two cores of
    /// 2026-11-23; `cargo xtask ci` ends with the figures of the day.
    pub(crate) minutes: &'static str,
    /// Must every change pass it?
    pub(crate) in_ci: bool,
    pub(crate) run: fn(&Cargo) -> Outcome,
}

/// In the order in which they run.
pub(crate) const SUITES: &[Suite] = &[
    Suite {
        name: "format",
        about: "formatting",
        minutes: "0",
        in_ci: true,
        run: |cargo| cargo.run("fmt --all --check"),
    },
    Suite {
        name: "lints",
        about: "clippy without a warning, with all features of the library and with none",
        minutes: "1.5",
        in_ci: true,
        run: lints,
    },
    Suite {
        name: "docs",
        about: "documentation without a warning",
        minutes: "0.6",
        in_ci: true,
        run: docs,
    },
    Suite {
        name: "crates",
        about: "tests of the crates that `cargo test` leaves out: internals, CUDA on a fake driver, the fuzzer's corpus",
        minutes: "7",
        in_ci: true,
        run: crates,
    },
    Suite {
        name: "gpu",
        about: "tests that compile CUDA C, and long ones on the fake driver; installs NVRTC below target/ by pip, needs no GPU",
        minutes: "3",
        in_ci: true,
        run: gpu,
    },
    Suite {
        name: "models",
        about: "loom models and shuttle walks",
        minutes: "4.5",
        in_ci: true,
        run: models::run_bounded,
    },
    Suite {
        name: "mutants",
        about: "mistakes as patches: all apply, and a few, chosen by the commit, are found; with --all each is",
        minutes: "1.5",
        in_ci: true,
        run: mutants::run,
    },
    Suite {
        name: "demo",
        about: "the demo, as a new user runs it",
        minutes: "3",
        in_ci: true,
        run: demo,
    },
    Suite {
        name: "peers",
        about: "the benches beside other libraries build and run",
        minutes: "4.5",
        in_ci: false,
        run: |cargo| {
            cargo.run("test --manifest-path benches/peers/Cargo.toml --target-dir target --quiet")
        },
    },
    Suite {
        name: "deep-models",
        about: "larger loom models, and forty times the schedules of the walks of whole devices",
        minutes: "-",
        in_ci: false,
        run: models::run_deep,
    },
    Suite {
        name: "swarm",
        about: "random programs on the simulator, for ten minutes",
        minutes: "-",
        in_ci: false,
        run: |cargo| cargo.run("run --release -p millstream-swarm -- --minutes 10"),
    },
    Suite {
        name: "soak",
        about: "mixed load for twenty minutes, and what grew or was left",
        minutes: "-",
        in_ci: false,
        run: |cargo| cargo.run("run --release -- soak --minutes 20"),
    },
    Suite {
        name: "address",
        about: "all tests under AddressSanitizer; needs nightly and cargo-nextest",
        minutes: "-",
        in_ci: false,
        run: |_| sanitize("address"),
    },
    Suite {
        name: "thread",
        about: "all tests under ThreadSanitizer; needs nightly with rust-src and cargo-nextest",
        minutes: "-",
        in_ci: false,
        run: |_| sanitize("thread"),
    },
    Suite {
        name: "miri",
        about: "the primitives under Miri; needs nightly with miri",
        minutes: "2",
        in_ci: false,
        run: |_| sanitize("miri"),
    },
];

fn lints(cargo: &Cargo) -> Outcome {
    let denied = |arguments: &str| {
        let mut command = cargo.command(&format!("clippy --quiet {arguments}"));
        run(command.args(["--", "-D", "warnings"]))
    };
    denied("--workspace --all-targets --features millstream/metrics")?;
    denied("-p millstream --no-default-features")
}

fn docs(cargo: &Cargo) -> Outcome {
    let mut command =
        cargo.command("doc --quiet --workspace --no-deps --features millstream/metrics");
    run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn crates(cargo: &Cargo) -> Outcome {
    let programs = targets::beyond_cargo_test(cargo)?;
    let programs = run(&mut cargo.tests(&programs, &[]));
    programs.and(run(&mut cargo.tests("--workspace --doc", &[])))
}

/// The tests that are ignored because they need NVRTC, or take long on the fake driver.
fn gpu(cargo: &Cargo) -> Outcome {
    let libraries = output(Command::new(".ci/nvrtc").current_dir(root()))?;
    let programs = targets::with_ignored_tests(cargo)?;
    let mut command = cargo.tests(&programs, &["--ignored"]);
    run(command.env("MILLSTREAM_NVRTC", libraries))
}

fn demo(cargo: &Cargo) -> Outcome {
    let pictures = root().join("target/xtask-demo");
    let mut command = cargo.command("run --release --quiet");
    // What is looked at is that it builds and computes without the assertions of a debug build; all optimizations add three CPU minutes.
    let unoptimized = "profile.release.package.\"*\".opt-level=0";
    let arguments = ["--config", unoptimized, "--", "demo", "--json", "--output"];
    command.args(arguments).arg(pictures);
    command.env("CARGO_PROFILE_RELEASE_LTO", "off");
    command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    command.env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    output(&mut command).map(drop)
}

fn sanitize(kind: &str) -> Outcome {
    run(Command::new(".ci/sanitize").arg(kind).current_dir(root()))
}
