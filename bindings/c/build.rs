//! Names the shared library as `bindings/c/README.md` says: programs load `libmillstream.so.0.1`, whatever the file is called.
//! Before version 1 each minor version may change the ABI.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        let version =
            |part: &str| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap_or_default();
        let abi = format!("{}.{}", version("MAJOR"), version("MINOR"));
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmillstream.so.{abi}");
    }
}
