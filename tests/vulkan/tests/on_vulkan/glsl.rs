//! The SPIR-V in the repository is glslang's output for the GLSL beside it. This command writes it again:
//!
//! ```text
//! MILLSTREAM_WRITE_SPIRV=1 cargo xtask vulkan --only spirv_is_the_compiler_output
//! ```
//!
//! `MILLSTREAM_GLSLANG` is the command of the compiler, split at spaces. Other versions of glslang write other SPIR-V, so
//! the test is skipped without it; `cargo xtask vulkan` sets it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders with GLSL, and the variants of each: the folder of the SPIR-V, and a macro.
const FOLDERS: [(&str, &[(&str, &str)]); 3] = [
    (
        "tests/vulkan/kernels",
        &[("addresses", "ADDRESSES"), ("descriptors", "DESCRIPTORS")],
    ),
    ("cli/src/doctor/kernels", &[("", "ADDRESSES")]),
    ("cli/src/bench/kernels", &[("", "ADDRESSES")]),
];

/// Kernels whose buffers are always addresses.
const ADDRESSES_ONLY: &[&str] = &["large"];

#[test]
fn spirv_is_the_compiler_output_of_the_glsl() {
    let Ok(compiler) = std::env::var("MILLSTREAM_GLSLANG") else {
        println!("skipped: MILLSTREAM_GLSLANG names no compiler; run `cargo xtask vulkan`");
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = std::env::temp_dir().join(format!("millstream-{}.spv", std::process::id()));
    for (folder, variants) in FOLDERS {
        let folder = root.join(folder);
        let sources = files(&folder, "comp");
        assert!(!sources.is_empty(), "{} has no GLSL", folder.display());
        for (variant, definition) in variants {
            for source in &sources {
                let name = source.file_stem().unwrap().to_str().unwrap();
                if *definition == "DESCRIPTORS" && ADDRESSES_ONLY.contains(&name) {
                    continue;
                }
                compile(&compiler, source, definition, &made);
                let module = folder.join(variant).join(format!("{name}.spv"));
                compare(&fs::read(&made).unwrap(), &module);
            }
            for module in files(&folder.join(variant), "spv") {
                let source = folder
                    .join(module.file_stem().unwrap())
                    .with_extension("comp");
                assert!(source.exists(), "{} has no GLSL", module.display());
            }
        }
    }
    let _ = fs::remove_file(made);
}

/// Returns the files of a folder with this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == extension))
        .collect()
}

fn compile(compiler: &str, source: &Path, definition: &str, module: &Path) {
    let mut words = compiler.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).arg(format!("-D{definition}"));
    command.args(["-V", "--target-env", "vulkan1.2", "-g0", "-o"]);
    let output = command.arg(module).arg(source).output();
    let output = output.unwrap_or_else(|error| panic!("`{compiler}` cannot be started: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{error}");
}

/// Compares the module with the file, or writes it.
fn compare(made: &[u8], file: &Path) {
    if std::env::var_os("MILLSTREAM_WRITE_SPIRV").is_some() {
        fs::write(file, made).unwrap();
        return;
    }
    let file_name = file.display();
    assert!(
        fs::read(file).is_ok_and(|kept| kept == made),
        "{file_name} differs from the compiler's output for its GLSL: run with MILLSTREAM_WRITE_SPIRV=1 to regenerate it"
    );
}
