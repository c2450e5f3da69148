//! Records where MPI's library lies, so that binaries find it without `LD_LIBRARY_PATH`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=MPICC");
    println!("cargo:rerun-if-changed=build.rs");
    let compiler = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    // Without a compiler wrapper the build of `mpi` fails, and says so.
    let Ok(shown) = Command::new(compiler).arg("-show").output() else {
        return;
    };
    let flags = String::from_utf8_lossy(&shown.stdout);
    for folder in flags
        .split_whitespace()
        .filter_map(|flag| flag.strip_prefix("-L"))
    {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
