//! Environment variables that choose a library of a vendor.
//!
//! The setter of such a variable chooses code that the process runs, as with the loader's own `LD_LIBRARY_PATH`. So it is
//! ignored where the loader ignores its own: in a process with more rights than the user who started it.

use std::ffi::OsString;
use std::path::PathBuf;

use millstream_protocol::OpenError;

/// Returns the folder of a library that an environment variable names. `None` if it is not set, or if the process has more
/// rights than its user (setuid, setgid, file capabilities).
pub fn library_folder(variable: &str) -> Option<PathBuf> {
    let value = std::env::var_os(variable)?;
    let folder = trusted(value, has_more_rights());
    if folder.is_none() {
        tracing::warn!(target: "millstream::gpu", variable, "ignored, because this process has more rights than its user");
    }
    folder
}

fn trusted(value: OsString, has_more_rights: bool) -> Option<PathBuf> {
    (!has_more_rights).then(|| value.into())
}

/// Whether the process has more rights than the user who started it.
#[cfg(target_os = "linux")]
fn has_more_rights() -> bool {
    /// `AT_SECURE`
    const SECURE: std::ffi::c_ulong = 23;
    unsafe extern "C" {
        safe fn getauxval(kind: std::ffi::c_ulong) -> std::ffi::c_ulong;
    }
    getauxval(SECURE) != 0
}

/// Whether the process has more rights than the user who started it.
#[cfg(any(target_os = "macos", target_os = "freebsd", target_os = "netbsd"))]
fn has_more_rights() -> bool {
    unsafe extern "C" {
        safe fn issetugid() -> std::ffi::c_int;
    }
    issetugid() != 0
}

/// Whether the process has more rights than the user who started it. This system starts no such processes.
#[cfg(not(any(
    target_os = "linux",
    target_os = "macos",
    target_os = "freebsd",
    target_os = "netbsd"
)))]
fn has_more_rights() -> bool {
    false
}

// The errors of opening what is not available.

/// Returns the error of opening what is not available.
pub fn unavailable(backend: &'static str, why: impl Into<String>) -> OpenError {
    OpenError::Unavailable {
        backend,
        why: why.into(),
    }
}

/// Takes the GPU with this ordinal from the list of all, which has at least one. `seen_by` is what lists them.
///
/// # Errors
/// There is none.
pub fn select<G>(
    mut gpus: Vec<G>,
    ordinal: usize,
    (backend, seen_by): (&'static str, &str),
) -> Result<G, OpenError> {
    if ordinal < gpus.len() {
        return Ok(gpus.swap_remove(ordinal));
    }
    let (count, last) = (gpus.len(), gpus.len().saturating_sub(1));
    let why = format!(
        "no GPU with ordinal {ordinal}: the {seen_by} sees {count}; choose an ordinal from 0 to {last}"
    );
    Err(unavailable(backend, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_with_more_rights_than_its_user_chooses_no_library_by_the_environment() {
        let folder = || OsString::from("/opt/cuda/lib");
        assert_eq!(trusted(folder(), false), Some("/opt/cuda/lib".into()));
        assert_eq!(trusted(folder(), true), None);
        assert!(
            !has_more_rights(),
            "tests run with the rights of their user"
        );
    }
}
