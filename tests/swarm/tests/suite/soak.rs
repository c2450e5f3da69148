//! Runs the soak as a program. I5, I10.

use std::process::{Command, Output};

use serde_json::Value;

fn soak(arguments: &[&str]) -> Output {
    let mut soak = Command::new(env!("CARGO_BIN_EXE_soak"));
    soak.args(arguments).output().unwrap()
}

#[test]
fn short_soak_has_no_violations_and_reports_its_counts() {
    for device in ["cpu", "sim"] {
        let options = ["--json", "--rounds", "3", "--threads", "3", "--backend"];
        let output = soak(&[&options[..], &[device]].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["violations"], Value::Array(Vec::new()), "{device}");
        assert!(output.status.success());
        assert_eq!(report["counts"]["clients"], 9);
        let count = |name: &str| report["counts"][name].as_u64().unwrap();
        assert!(count("steps") >= 9 * 20, "{report}");
        assert!(count("data") > 0 && count("closures") > 0, "{report}");
    }
}

#[test]
fn soak_without_time_threads_or_rounds_is_a_usage_error() {
    for options in [["--minutes", "0"], ["--threads", "0"], ["--rounds", "0"]] {
        assert_eq!(soak(&options).status.code(), Some(2), "{options:?}");
    }
}
