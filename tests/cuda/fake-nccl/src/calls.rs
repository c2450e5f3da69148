//! The library's functions, as declared in its header.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::Ordering;

use crate::communicator::{Clique, Communicator};
use crate::control::{count, find, report, with};
use crate::group;
use crate::job::{Call, Kind};
use crate::status::{
    INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, SUCCESS, SYSTEM_ERROR,
    UNHANDLED_CUDA_ERROR,
};

fn status(result: Result<(), u32>) -> u32 {
    result.err().unwrap_or(SUCCESS)
}

/// Version 2.28.0, in the format of the real library.
///
/// # Safety
/// The out pointer is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> u32 {
    // SAFETY: the caller's duty.
    unsafe { version.write(22_800) };
    SUCCESS
}

/// Returns the description of a result.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclGetErrorString(result: u32) -> *const c_char {
    let text = match result {
        SUCCESS => c"no error",
        UNHANDLED_CUDA_ERROR => c"unhandled cuda error",
        SYSTEM_ERROR => c"unhandled system error",
        INTERNAL_ERROR => c"internal error",
        INVALID_ARGUMENT => c"invalid argument",
        INVALID_USAGE => c"invalid usage",
        REMOTE_ERROR => c"remote process exited or there was a network error",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

/// # Safety
/// Both lists have `count` elements.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommInitAll(
    communicators: *mut u64,
    count: c_int,
    devices: *const c_int,
) -> u32 {
    let body = || {
        crate::control::count("ncclCommInitAll")?;
        if group::is_open() {
            report("ncclCommInitAll is called within a group".to_owned());
            return Err(INVALID_USAGE);
        }
        let count = usize::try_from(count).map_err(|_| INVALID_ARGUMENT)?;
        // SAFETY: the caller's duty.
        let devices = unsafe { std::slice::from_raw_parts(devices, count) };
        let twice = |at: usize| devices[..at].contains(&devices[at]);
        if (0..count).any(twice) {
            report(format!(
                "a GPU has two communicators of one group: {devices:?}"
            ));
            return Err(INVALID_USAGE);
        }
        let clique = Clique::new(devices);
        let mut created = Vec::new();
        for rank in 0..count {
            match Communicator::new(&clique, rank) {
                Ok(communicator) => created.push(communicator),
                Err(status) => {
                    created.iter().try_for_each(|created| created.end())?;
                    return Err(status);
                }
            }
        }
        let handles = created
            .into_iter()
            .map(|created| with(|control| control.add(created)));
        let handles: Vec<u64> = handles.collect();
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(handles.as_ptr(), communicators, count) };
        Ok(())
    };
    status(body())
}

fn end(name: &'static str, communicator: u64) -> Result<(), u32> {
    let fault = count(name);
    if group::is_open() {
        report(format!("{name} is called within a group"));
    }
    let Some(found) = with(|control| control.living.remove(&communicator)) else {
        report(format!("{name} receives a communicator that was destroyed"));
        return fault.and(Err(INVALID_ARGUMENT));
    };
    if name == "ncclCommAbort" {
        found.clique.abort();
    }
    // It is destroyed nevertheless.
    fault.and(found.end())
}

/// Destroys a communicator, after its work.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclCommDestroy(communicator: u64) -> u32 {
    status(end("ncclCommDestroy", communicator))
}

/// Ends the work of a communicator, and destroys it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclCommAbort(communicator: u64) -> u32 {
    status(end("ncclCommAbort", communicator))
}

/// # Safety
/// The out pointer is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ncclCommGetAsyncError(communicator: u64, error: *mut u32) -> u32 {
    let Some(found) = find(communicator) else {
        report("ncclCommGetAsyncError receives a communicator that was destroyed".to_owned());
        return INVALID_ARGUMENT;
    };
    // SAFETY: the caller's duty.
    unsafe { error.write(found.clique.error.load(Ordering::SeqCst)) };
    status(count("ncclCommGetAsyncError"))
}

/// Begins a group.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclGroupStart() -> u32 {
    let counted = count("ncclGroupStart");
    if counted.is_ok() {
        group::begin();
    }
    status(counted)
}

/// Ends a group, and submits its calls.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ncclGroupEnd() -> u32 {
    status(group::end())
}

macro_rules! collectives {
    ($($name:ident($($extra:ident: $type:ty),*) $kind:expr;)*) => {$(
        /// Adds a collective of a member to the group of the thread.
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name(
            source: *const c_void, target: *mut c_void, count: usize, dtype: u32, $($extra: $type,)*
            communicator: u64, stream: u64,
        ) -> u32 {
            status(group::add(communicator, Call {
                kind: $kind,
                source: source as u64,
                target: target as u64,
                count,
                dtype,
                stream,
            }))
        }
    )*};
}

collectives! {
    ncclAllReduce(reduction: u32) Kind::AllReduce { reduction };
    ncclReduceScatter(reduction: u32) Kind::ReduceScatter { reduction };
    ncclAllGather() Kind::AllGather;
    ncclBroadcast(root: c_int) Kind::Broadcast { root: root as usize };
}
