//! Loads the driver's library at run time. Nothing is linked, so a program with this backend also starts on a machine
//! without a GPU, and opening a device there returns the reason.

use std::sync::OnceLock;

use libloading::Library;

/// The library, loaded once and never unloaded: its threads and ours may run its code until the process ends.
static DRIVER: OnceLock<Result<Library, String>> = OnceLock::new();

/// The library's names on the supported systems.
const NAMES: [&str; 2] = ["cuda", "nvcuda"];

/// Returns the driver's library, or the reason why it could not be loaded.
pub(super) fn library() -> Result<&'static Library, &'static str> {
    DRIVER.get_or_init(find).as_ref().map_err(String::as_str)
}

fn find() -> Result<Library, String> {
    let candidates = NAMES
        .iter()
        .flat_map(|name| cudarc::get_lib_name_candidates(name));
    let mut broken = None;
    for candidate in candidates {
        // SAFETY: the library's initializers are the driver's own, which every user of the driver runs.
        match unsafe { Library::new(&candidate) } {
            Ok(library) => return Ok(library),
            Err(error) => {
                let message = with_causes(&error);
                // A library that exists and fails to load is the better report.
                if !is_absence(&message) {
                    broken.get_or_insert(format!("`{candidate}` cannot be loaded: {message}"));
                }
            }
        }
    }
    Err(broken.unwrap_or_else(|| {
        "no CUDA driver library (libcuda.so) found; install NVIDIA's driver, or choose \
                 another backend"
            .to_owned()
    }))
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

/// Returns `true` if the file does not exist. The loader reports that only in its message.
fn is_absence(message: &str) -> bool {
    message.contains("No such file")
        || message.contains("cannot be found")
        || message.contains("not found")
}
