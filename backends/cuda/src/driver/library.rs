//! Loads the driver's library at run time. Nothing is linked, so a program with this backend also starts on a machine
//! without a GPU, and opening a device there returns the reason.

use std::sync::OnceLock;

use libloading::Library;

/// The library, loaded once and never unloaded: its threads and ours may run its code until the process ends.
static DRIVER: OnceLock<Result<Library, String>> = OnceLock::new();

/// The library's names on the supported systems.
const NAMES: [&str; 2] = ["cuda", "nvcuda"];
/// The name under which NVIDIA's driver installs it.
const INSTALLED: &str = if cfg!(windows) {
    "nvcuda.dll"
} else {
    "libcuda.so.1"
};

/// Returns the driver's library, or the reason why it could not be loaded.
pub(super) fn library() -> Result<&'static Library, &'static str> {
    DRIVER.get_or_init(find).as_ref().map_err(String::as_str)
}

fn find() -> Result<Library, String> {
    let candidates = NAMES
        .iter()
        .flat_map(|name| cudarc::get_lib_name_candidates(name));
    let mut why = String::new();
    for candidate in candidates {
        // SAFETY: the library's initializers are the driver's own, which every user of the driver runs.
        match unsafe { Library::new(&candidate) } {
            Ok(library) => return Ok(library),
            // The system says whether this file is absent or broken, in its own language.
            Err(error) if candidate == INSTALLED => why = with_causes(&error),
            Err(_) => {}
        }
    }
    Err(format!(
        "the CUDA driver library `{INSTALLED}` cannot be loaded; install NVIDIA's driver, or choose another backend: {why}"
    ))
}

/// Formats an error with its chain of causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    message
}
