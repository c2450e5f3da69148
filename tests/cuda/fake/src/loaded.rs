//! The loaded libraries, and calls of their functions by name. A module of all packages of fakes.
#![allow(dead_code, reason = "no package uses all of it")]

use std::path::PathBuf;
use std::sync::OnceLock;

use libloading::Library;

/// Loads the library of this name, which is never unloaded: the one beside the running program, where Cargo builds both,
/// if there is one. The library path has the folder above first, in which an older build may be left. Code that loads the
/// library by its name afterwards gets the loaded one, by its soname.
pub(crate) fn library(name: &str) -> Result<&'static Library, libloading::Error> {
    let file = libloading::library_filename(name);
    let program = std::env::current_exe().unwrap_or_default();
    let beside = Some(program.with_file_name(&file)).filter(|path| path.exists());
    // SAFETY: the fakes' initializers do nothing, and those of NVIDIA's libraries run in each of their users.
    let library = unsafe { Library::new(beside.map_or(file, PathBuf::into_os_string)) }?;
    Ok(Box::leak(Box::new(library)))
}

/// Returns the driver of this process, loaded as its users do: by its name.
pub(crate) fn driver() -> Option<&'static Library> {
    static DRIVER: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: as above.
    let load = || unsafe { Library::new(libloading::library_filename("cuda")) }.ok();
    DRIVER.get_or_init(load).as_ref()
}

/// A function of sixteen arguments, each of which fits in a register or a stack slot.
#[rustfmt::skip]
type Function = unsafe extern "C" fn(
    u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64,
) -> u32;

/// Calls a function of up to sixteen numbers or pointers.
pub(crate) fn call(library: &Library, name: &str, arguments: &[u64]) -> u32 {
    let mut all = [0; 16];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = all;
    // SAFETY: each argument has its own register or stack slot; a function with fewer or narrower arguments reads its part.
    // The caller passes valid pointers.
    unsafe {
        let function = library.get::<Function>(name);
        let function = function.unwrap_or_else(|error| panic!("{error}"));
        function(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
    }
}
