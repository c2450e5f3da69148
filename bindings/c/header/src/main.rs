//! Prints the header of `millstream-capi`: `cargo run --manifest-path bindings/c/header/Cargo.toml`.
//!
//! cbindgen reads the sources as text and expands no macro, so each exported function is written out.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let header = cbindgen::Config::from_file(package.join("cbindgen.toml"))
        .map_err(|error| error.to_string())
        .and_then(|config| {
            let builder = cbindgen::Builder::new().with_config(config);
            // Not `lib.rs`, which would run `cargo metadata`: the files, in the order of the header.
            let modules = [
                "status", "opening", "device", "client", "stream", "cancel", "buffer", "types", "argument", "metadata",
                "kernel", "native", "launch", "pending", "record", "replay", "profile", "submission_log", "vulkan", "vulkan_sharing", "cuda", "metrics", "log",
            ];
            let sources = modules.map(|module| package.join(format!("src/{module}.rs")));
            let builder = sources
                .into_iter()
                .fold(builder, cbindgen::Builder::with_src);
            builder.generate().map_err(|error| error.to_string())
        });
    match header {
        Ok(header) => {
            header.write(std::io::stdout());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("the header cannot be generated: {error}");
            ExitCode::FAILURE
        }
    }
}
