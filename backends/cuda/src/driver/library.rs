//! Finding the driver's library. Nothing is linked: a program with this backend starts on a machine that has never
//! seen a GPU, and is told why there is none when it asks.

use std::sync::OnceLock;

use libloading::Library;

/// The library, loaded once and never unloaded: its threads and ours may be in it until the process ends.
static DRIVER: OnceLock<Result<Library, String>> = OnceLock::new();

/// The names under which systems have it.
const NAMES: [&str; 2] = ["cuda", "nvcuda"];

/// The driver's library, or why there is none.
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
                let said = chain(&error);
                // One that is there and does not load says more than all that are not there.
                if !is_absence(&said) {
                    broken.get_or_insert(format!("`{candidate}` cannot be loaded: {said}"));
                }
            }
        }
    }
    Err(broken.unwrap_or_else(|| {
        "there is no CUDA driver library (libcuda.so) on this machine; install NVIDIA's driver, or choose \
         another backend"
            .to_owned()
    }))
}

/// What the loader said, with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        said = format!("{said}: {cause}");
        source = cause.source();
    }
    said
}

/// Is it that there is no such file? The loader says so in words alone.
fn is_absence(said: &str) -> bool {
    said.contains("No such file") || said.contains("cannot be found") || said.contains("not found")
}
