//! The twins of the suite's kernels for GPUs: the PTX in `kernels` is NVRTC's output for the CUDA C beside it. This
//! command writes it again:
//!
//! ```text
//! MILLSTREAM_WRITE_PTX=1 cargo xtask gpu --only twins
//! ```

use millstream::Kernel;

/// The name, the CUDA C and the PTX of each file.
macro_rules! files {
    ($($name:literal),*) => {
        [$(($name, include_str!(concat!("kernels/", $name, ".cu")), include_str!(concat!("kernels/", $name, ".ptx")))),*]
    };
}

#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn ptx_is_the_output_of_nvrtc_for_the_cuda_c() {
    for (name, source, ptx) in files!("cubes", "elements", "held", "large") {
        let made = millstream_cuda::ptx_for(&Kernel::new(name).cuda(source), "compute_80").unwrap();
        if std::env::var_os("MILLSTREAM_WRITE_PTX").is_some() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/devices/kernels");
            std::fs::write(format!("{folder}/{name}.ptx"), &made).unwrap();
            continue;
        }
        assert!(
            ptx == made,
            "{name}.ptx is the output of another compiler or of another {name}.cu; MILLSTREAM_WRITE_PTX=1 writes it again"
        );
    }
}
