//! The functions of NVRTC, with the types of cudarc; return values are plain numbers.

use std::ffi::{CStr, c_char, c_int};
use std::path::PathBuf;
use std::sync::OnceLock;

use cudarc::nvrtc::sys::nvrtcProgram;
use libloading::Library;
use millstream_gpu::library_folder;

/// The environment variable with the folder of the compiler's libraries, for systems that do not find them otherwise.
pub(super) const FOLDER: &str = "MILLSTREAM_NVRTC";

/// The starts of the names of the compiler and of its builtins, in a folder.
#[cfg(not(windows))]
const NAMES: [&str; 2] = ["libnvrtc.so", "libnvrtc-builtins.so"];
#[cfg(windows)]
const NAMES: [&str; 2] = ["nvrtc64_", "nvrtc-builtins64_"];

macro_rules! functions {
    ($($name:ident = $symbol:ident($($type:ty),*);)*) => {
        /// The compiler's functions.
        pub(super) struct Nvrtc {
            $(pub(super) $name: unsafe extern "C" fn($($type),*) -> u32,)*
            error_text: unsafe extern "C" fn(u32) -> *const c_char,
        }

        impl Nvrtc {
            fn of(library: &'static Library) -> Result<Self, &'static str> {
                // SAFETY: the types are those of the compiler's header, except for the return type: the ABI of a C enum
                // is that of an unsigned number.
                unsafe {
                    Ok(Self {
                        $($name: *library
                            .get(stringify!($symbol))
                            .map_err(|_| stringify!($symbol))?,)*
                        error_text: *library
                            .get("nvrtcGetErrorString")
                            .map_err(|_| "nvrtcGetErrorString")?,
                    })
                }
            }
        }
    };
}

functions! {
    version = nvrtcVersion(*mut c_int, *mut c_int);
    supported_count = nvrtcGetNumSupportedArchs(*mut c_int);
    supported = nvrtcGetSupportedArchs(*mut c_int);
    create = nvrtcCreateProgram(
        *mut nvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char,
        *const *const c_char
    );
    destroy = nvrtcDestroyProgram(*mut nvrtcProgram);
    compile = nvrtcCompileProgram(nvrtcProgram, c_int, *const *const c_char);
    log_size = nvrtcGetProgramLogSize(nvrtcProgram, *mut usize);
    log = nvrtcGetProgramLog(nvrtcProgram, *mut c_char);
    binary_size = nvrtcGetCUBINSize(nvrtcProgram, *mut usize);
    binary = nvrtcGetCUBIN(nvrtcProgram, *mut c_char);
    ptx_size = nvrtcGetPTXSize(nvrtcProgram, *mut usize);
    ptx = nvrtcGetPTX(nvrtcProgram, *mut c_char);
}

impl Nvrtc {
    /// Returns the compiler's description of an error code.
    pub(super) fn text(&self, answer: u32) -> String {
        // SAFETY: the function returns null or a string that lives as long as the library, for every number.
        let text = unsafe { (self.error_text)(answer) };
        if text.is_null() {
            return format!("error {answer}");
        }
        // SAFETY: as above; the string ends with a zero byte.
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    }
}

/// Returns the compiler, loaded once and never unloaded.
///
/// # Errors
/// The library or a function is missing; the message says what to do.
pub(super) fn nvrtc() -> Result<&'static Nvrtc, &'static str> {
    static NVRTC: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    let load = || {
        let library = find()?;
        // Never unloaded, because `Nvrtc` holds addresses in it.
        Nvrtc::of(Box::leak(Box::new(library))).map_err(|symbol| {
            format!("the NVRTC library has no function `{symbol}`; install NVRTC 12 or 13")
        })
    };
    NVRTC.get_or_init(load).as_ref().map_err(String::as_str)
}

fn find() -> Result<Library, String> {
    let folder = library_folder(FOLDER);
    let [compiler, builtins] = NAMES;
    if let Some(folder) = &folder {
        // NVRTC loads its builtins by file name only. If they are loaded already, it finds them.
        for path in libraries(folder, builtins) {
            // SAFETY: a library of NVIDIA without initializers; it stays loaded.
            if let Ok(library) = unsafe { Library::new(path) } {
                std::mem::forget(library);
            }
        }
        for candidate in libraries(folder, compiler) {
            // SAFETY: the initializers are NVRTC's own, which every user of it runs.
            if let Ok(library) = unsafe { Library::new(candidate) } {
                return Ok(library);
            }
        }
        return Err(format!(
            "no NVRTC library (`{compiler}`) can be loaded from `{}` ({FOLDER}); set {FOLDER} to the folder of NVRTC",
            folder.display()
        ));
    }
    // On Windows the compiler of CUDA 12, all of whose versions have the same name.
    let of_12 = cfg!(windows).then(|| "nvrtc64_120_0.dll".to_owned());
    cudarc::get_lib_name_candidates("nvrtc")
        .into_iter()
        .chain(of_12)
        // SAFETY: as above.
        .find_map(|candidate| unsafe { Library::new(candidate) }.ok())
        .ok_or_else(|| {
            format!(
                "NVRTC (`{compiler}`) not found; install CUDA's run-time compiler (NVRTC), or run \
                `pip install nvidia-cuda-nvrtc` and set {FOLDER} to its folder `{lib}`, \
                or provide the kernel as PTX or cubin",
                lib = if cfg!(windows) {
                    r"nvidia\cu13\bin"
                } else {
                    "nvidia/cu13/lib"
                },
            )
        })
}

/// Returns the files of a folder whose names start with `name`.
fn libraries(folder: &PathBuf, name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(name));
    let mut found: Vec<_> = named.map(|entry| entry.path()).collect();
    // The shortest name is the link to the preferred version.
    found.sort_by_key(|path| path.as_os_str().len());
    found
}
