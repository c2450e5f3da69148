//! Runs `spirv-val` on modules, where it is installed.
//!
//! The command is that of `MILLSTREAM_SPIRV_VAL`, split at spaces, or `spirv-val`. It gets a module on its standard
//! input, so it may run in another root (`chroot DIR spirv-val`).

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use millstream_ir::ssa::Function;

use super::ALL_FEATURES;
use crate::{Features, Module, Target, lower};

/// Returns the command, if it runs.
fn command() -> Option<&'static [String]> {
    static COMMAND: OnceLock<Option<Vec<String>>> = OnceLock::new();
    let found = COMMAND.get_or_init(|| {
        let given = std::env::var("MILLSTREAM_SPIRV_VAL");
        let words = given.unwrap_or_else(|_| "spirv-val".to_owned());
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let version = Command::new(&words[0])
            .args(&words[1..])
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let runs = version.is_ok_and(|status| status.success());
        if !runs {
            println!("left out: `spirv-val` is not installed, so no module is validated");
        }
        runs.then_some(words)
    });
    found.as_deref()
}

/// Panics if the module is not valid.
pub(super) fn validate(what: &str, module: &Module) {
    assert_eq!(
        module.words[0], 0x0723_0203,
        "{what} starts with the magic number"
    );
    let Some(command) = command() else {
        return;
    };
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .args(["--target-env", "vulkan1.2", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spirv-val starts");
    let bytes: Vec<u8> = module
        .words
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let mut stdin = child.stdin.take().expect("the input is piped");
    stdin.write_all(&bytes).expect("spirv-val reads its input");
    drop(stdin);
    let output = child.wait_with_output().expect("spirv-val ends");
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{what} is not valid: {text}");
}

/// Lowers a function for several targets, and validates the modules.
pub(super) fn check(what: &str, function: &Function) {
    for (name, target) in targets() {
        let module = lower(function, &target);
        let module = module.unwrap_or_else(|error| panic!("{what} for {name}: {error}"));
        validate(&format!("{what} for {name}"), &module);
    }
}

/// Targets that lower everything, in different ways.
pub(super) fn targets() -> [(&'static str, Target); 3] {
    let all = Target {
        shared_bytes_max: 64 << 10,
        threads_max: 1024,
        features: ALL_FEATURES,
        ..Target::default()
    };
    let plain = Features {
        buffer_f32_atomic_add: false,
        shared_f32_atomic_add: false,
        buffer_f64_atomic_add: false,
        shared_f64_atomic_add: false,
        subgroup_width: 0,
        ..ALL_FEATURES
    };
    let described = Target {
        buffers: crate::Buffers::Descriptors,
        features: plain,
        ..all
    };
    let spilled = Target {
        parameter_bytes_max: 0,
        features: plain,
        ..all
    };
    [
        ("all features", all),
        ("descriptors", described),
        ("spilled parameters", spilled),
    ]
}
