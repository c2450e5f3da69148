//! The functions of NVRTC, with the types of cudarc; return values are plain numbers.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::sync::LazyLock;

use cudarc::nvrtc::sys::nvrtcProgram;
use libloading::Library;
use millstream_gpu::library_folder;

use crate::library::{describe, functions, load};

/// The environment variable with the folder of the compiler's libraries, for systems that do not find them otherwise.
pub(super) const FOLDER: &str = "MILLSTREAM_NVRTC";

/// The starts of the names of the compiler and of its builtins, in a folder.
#[cfg(not(windows))]
const NAMES: [&str; 2] = ["libnvrtc.so", "libnvrtc-builtins.so"];
#[cfg(windows)]
const NAMES: [&str; 2] = ["nvrtc64_", "nvrtc-builtins64_"];

functions! {
    /// The compiler's functions.
    struct Nvrtc;
    needed -> String = Nvrtc::check => {
        version = nvrtcVersion(major: *mut c_int, minor: *mut c_int);
        supported_count = nvrtcGetNumSupportedArchs(count: *mut c_int);
        supported = nvrtcGetSupportedArchs(all: *mut c_int);
        create = nvrtcCreateProgram(
            program: *mut nvrtcProgram, source: *const c_char, name: *const c_char, headers: c_int,
            texts: *const *const c_char, names: *const *const c_char
        );
        destroy = nvrtcDestroyProgram(program: *mut nvrtcProgram);
        compile = nvrtcCompileProgram(program: nvrtcProgram, count: c_int, options: *const *const c_char);
    }
    plain {
        text = nvrtcGetErrorString(u32) -> *const c_char;
        log_size = nvrtcGetProgramLogSize(nvrtcProgram, *mut usize) -> u32;
        log = nvrtcGetProgramLog(nvrtcProgram, *mut c_char) -> u32;
        binary_size = nvrtcGetCUBINSize(nvrtcProgram, *mut usize) -> u32;
        binary = nvrtcGetCUBIN(nvrtcProgram, *mut c_char) -> u32;
        ptx_size = nvrtcGetPTXSize(nvrtcProgram, *mut usize) -> u32;
        ptx = nvrtcGetPTX(nvrtcProgram, *mut c_char) -> u32;
    }
}

impl Nvrtc {
    /// Converts a return value to a result: the compiler's description of an error.
    fn check(&self, _call: &str, answer: u32) -> Result<(), String> {
        match answer {
            0 => Ok(()),
            answer => Err(describe(self.text, answer)),
        }
    }
}

/// Returns the compiler, loaded once and never unloaded.
///
/// # Errors
/// The library or a function is missing; the message says what to do.
pub(super) fn nvrtc() -> Result<&'static Nvrtc, &'static str> {
    static NVRTC: LazyLock<Result<Nvrtc, String>> = LazyLock::new(|| {
        Nvrtc::of(find()?).map_err(|symbol| {
            format!("the NVRTC library has no function `{symbol}`; install NVRTC 12 or 13")
        })
    });
    NVRTC.as_ref().map_err(String::as_str)
}

fn find() -> Result<&'static Library, String> {
    let [compiler, builtins] = NAMES;
    let names = match library_folder(FOLDER) {
        Some(folder) => {
            // NVRTC loads its builtins by file name only. If they are loaded already, it finds them.
            for name in libraries(&folder, builtins) {
                // SAFETY: a library of NVIDIA without initializers; it stays loaded.
                if let Ok(library) = unsafe { Library::new(folder.join(name)) } {
                    std::mem::forget(library);
                }
            }
            libraries(&folder, compiler)
        }
        None => {
            let mut names = cudarc::get_lib_name_candidates("nvrtc");
            // On Windows the compiler of CUDA 12, all of whose versions have the same name.
            names.extend(cfg!(windows).then(|| "nvrtc64_120_0.dll".to_owned()));
            names
        }
    };
    let missing = format!(
        "NVRTC (`{compiler}`) not found; install CUDA's run-time compiler (NVRTC), or run \
        `pip install nvidia-cuda-nvrtc` and set {FOLDER} to its folder `{lib}`, \
        or provide the kernel as PTX or cubin",
        lib = if cfg!(windows) {
            r"nvidia\cu13\bin"
        } else {
            "nvidia/cu13/lib"
        },
    );
    load(("NVRTC", compiler), FOLDER, names, &missing)
}

/// Returns the names of the files of a folder that start with `name`.
fn libraries(folder: &Path, name: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<_> = names.filter(|file| file.starts_with(name)).collect();
    // The shortest name is the link to the preferred version.
    found.sort_by_key(String::len);
    found
}
