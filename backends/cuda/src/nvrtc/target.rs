//! What the compiler compiles for, which depends on the GPU, on the driver and on the compiler.
//!
//! | code | runs on | is loaded by |
//! | --- | --- | --- |
//! | binary for a compute capability | that capability and later minor ones of the same major, with the suffix `a` on that one alone | drivers of the compiler's major version of CUDA and later ones |
//! | PTX for a compute capability | that capability and all later ones | drivers of the compiler's version of CUDA and later ones |
//!
//! So an application that carries a newer compiler than the machine's driver, or an older one than its GPU, gets the best
//! form that both understand, or an error that says what to update.

use super::Target;
use super::compile::{Failure, supported, version};

/// Chooses what the loaded compiler compiles for.
///
/// `capability` is that of the GPU, and `driver` the version of CUDA that the driver supports, major and minor.
/// With `to_ptx` only PTX is wanted.
///
/// # Errors
/// There is no compiler, or it compiles nothing that this GPU and this driver accept.
pub(crate) fn choose_target(
    (major, minor): (i32, i32),
    driver: (u32, u32),
    to_ptx: bool,
) -> Result<Target, Failure> {
    let driver = (driver.0 as i32, driver.1 as i32);
    let machine = (major * 10 + minor, driver);
    choose(machine, version()?, &supported()?, to_ptx).map_err(Failure::NoCompiler)
}

fn choose(
    (capability, driver): (i32, (i32, i32)),
    compiler: (i32, i32),
    supported: &[i32],
    to_ptx: bool,
) -> Result<Target, String> {
    let of = |capability: i32| format!("{}.{}", capability / 10, capability % 10);
    let (loads_binaries, loads_ptx) = (compiler.0 <= driver.0, compiler <= driver);
    if !to_ptx && loads_binaries && supported.contains(&capability) {
        return Ok(Target::exact(capability));
    }
    let known = supported
        .iter()
        .copied()
        .filter(|known| *known <= capability);
    let Some(newest) = known.max() else {
        let least = supported.iter().copied().min().unwrap_or(0);
        return Err(format!(
            "NVRTC {}.{} compiles for compute capability {} and later, and the GPU has {}; install an earlier NVRTC, or \
            provide the kernel as PTX or cubin",
            compiler.0,
            compiler.1,
            of(least),
            of(capability)
        ));
    };
    if loads_ptx {
        return Ok(Target(format!("compute_{newest}")));
    }
    if !to_ptx && loads_binaries && newest / 10 == capability / 10 {
        return Ok(Target(format!("sm_{newest}")));
    }
    Err(format!(
        "NVRTC {}.{} is newer than the driver, which supports CUDA {}.{}; update NVIDIA's driver, or install NVRTC {}.{} or \
        earlier, or provide the kernel as PTX or cubin",
        compiler.0, compiler.1, driver.0, driver.1, driver.0, driver.1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPPORTED: [i32; 6] = [75, 80, 86, 90, 100, 120];

    fn chosen(capability: i32, driver: (i32, i32), to_ptx: bool) -> Result<String, String> {
        let chosen = choose((capability, driver), (13, 1), &SUPPORTED, to_ptx);
        chosen.map(|target| target.0)
    }

    #[test]
    fn known_gpu_gets_a_binary_or_ptx_if_that_is_wanted() {
        assert_eq!(chosen(90, (13, 1), false).as_deref(), Ok("sm_90a"));
        assert_eq!(chosen(86, (13, 4), false).as_deref(), Ok("sm_86"));
        assert_eq!(chosen(90, (13, 1), true).as_deref(), Ok("compute_90"));
    }

    /// A driver accepts binaries of any minor version of its major one, but no PTX of a later version.
    #[test]
    fn driver_of_an_earlier_minor_version_gets_no_ptx() {
        assert_eq!(chosen(90, (13, 0), false).as_deref(), Ok("sm_90a"));
        let why = chosen(90, (13, 0), true).unwrap_err();
        assert!(
            why.contains("NVRTC 13.1 is newer than the driver, which supports CUDA 13.0"),
            "{why}"
        );
    }

    #[test]
    fn driver_of_an_earlier_major_version_gets_nothing() {
        for to_ptx in [false, true] {
            let why = chosen(90, (12, 4), to_ptx).unwrap_err();
            assert!(why.contains("install NVRTC 12.4 or earlier"), "{why}");
        }
    }

    #[test]
    fn gpu_that_is_newer_than_the_compiler_gets_ptx_or_the_binary_of_its_family() {
        assert_eq!(chosen(130, (14, 0), false).as_deref(), Ok("compute_120"));
        assert_eq!(chosen(103, (13, 1), false).as_deref(), Ok("compute_100"));
        assert_eq!(chosen(103, (13, 0), false).as_deref(), Ok("sm_100"));
        assert!(chosen(130, (13, 0), false).is_err());
    }

    #[test]
    fn gpu_that_the_compiler_does_not_support_any_more_gets_nothing() {
        let why = chosen(61, (13, 1), false).unwrap_err();
        assert!(
            why.contains("compute capability 7.5 and later, and the GPU has 6.1"),
            "{why}"
        );
    }
}
