//! Sets the soname of a fake library to that of NVIDIA's, so that who loads it by name gets a loaded one. The build script
//! of all packages of fakes.

fn main() {
    println!("cargo::rerun-if-changed=../fake/build.rs");
    let library = match env!("CARGO_PKG_NAME") {
        "millstream-fake-cuda" => "cuda",
        "millstream-fake-nccl" => "nccl",
        _ => "cublasLt",
    };
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,lib{library}.so");
    }
}
