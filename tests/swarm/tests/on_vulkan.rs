//! Runs the soak on the first GPU of the Vulkan loader. Without a driver the test is skipped, and says so;
//! `MILLSTREAM_VULKAN=required` makes that a failure.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

#[test]
fn soak_has_no_violations() {
    if let Err(error) = millstream::vulkan::gpus() {
        let is_required = std::env::var("MILLSTREAM_VULKAN").is_ok_and(|value| value == "required");
        assert!(!is_required, "{error}");
        println!("skipped: {error}");
        return;
    }
    let program = env!("CARGO_BIN_EXE_soak");
    // The driver may be in another root; then this test was started by a script, which also starts the program.
    let mut command = match std::env::var_os("MILLSTREAM_VULKAN_RUN") {
        Some(script) => {
            let mut command = Command::new(script);
            command.arg(program);
            command
        }
        None => Command::new(program),
    };
    // The pipeline cache of this test, not the user's.
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    let output = command
        .args(["--backend", "vulkan", "--rounds", "8", "--threads", "3"])
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
}
