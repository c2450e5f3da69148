//! A CUDA-aware MPI, made of the loaded one, which need not be. It defines the functions that `millstream-mpi` passes memory
//! of devices to; the linker prefers them to those of the library, which have a second name (`PMPI_..`).
//!
//! The bytes of a device are read when a call starts, and written when its request is found complete, as operations of the
//! fake driver on a stream of their own. So the fake reports an access that nothing orders behind the tasks of the device,
//! an access to memory that was freed, and a call on a thread without a context. They are no copies of the driver's, so that
//! a scenario can count those of the device.
//!
//! Memory of a device in a call that the double does not accept ends the process, as the fault of an MPI would.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use mpi::ffi::{self, MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request, MPI_Status};

use super::driver::{Copies, copies, driver};

/// The calls that accept memory of devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Accepts {
    Nothing,
    Transfers,
    All,
}

static ACCEPTS: AtomicU8 = AtomicU8::new(Accepts::Nothing as u8);
/// The calls that had memory of a device.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// What had been copied by the device when each call began that moves a piece.
static LOG: Mutex<Vec<Copies>> = Mutex::new(Vec::new());

/// The pieces of all-reduces that MPI still accepts.
static PIECES: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Lets MPI refuse the all-reduces of pieces after this number of them.
pub(crate) fn refuse_after(pieces: usize) {
    PIECES.store(pieces, Ordering::SeqCst);
}

/// Chooses what MPI accepts, before it is asked.
pub(crate) fn accept(accepts: Accepts) {
    ACCEPTS.store(accepts as u8, Ordering::SeqCst);
}

/// Returns the number of calls that had memory of a device.
pub(crate) fn device_calls() -> usize {
    CALLS.load(Ordering::SeqCst)
}

/// Returns what had been copied when each call began that moves a piece, and forgets it.
pub(crate) fn take_log() -> Vec<Copies> {
    std::mem::take(&mut *LOG.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What a request of MPI needs, since it had memory of a device.
struct Pending {
    /// The bytes that MPI accesses instead.
    input: Vec<u8>,
    output: Vec<u8>,
    /// Where the output goes.
    target: Option<u64>,
}

static PENDING: Mutex<Option<HashMap<usize, Pending>>> = Mutex::new(None);

/// A buffer of a call: its address and length.
type Buffer = (*mut c_void, usize);

fn is_on_device((address, bytes): Buffer) -> bool {
    // The real library is used by scenarios without devices, too: no driver is loaded for them.
    if bytes == 0 || !super::is_used() {
        return false;
    }
    // SAFETY: only compares.
    driver().is_some_and(|driver| unsafe { (driver.gpu_at)(address as u64) } >= 0)
}

/// Starts a call with memory of the host in place of that of a device.
fn with_host_memory(
    (needs, reads_output): (Accepts, bool),
    input: Buffer,
    output: Buffer,
    request: *mut MPI_Request,
    start: impl FnOnce(*mut c_void, *mut c_void) -> c_int,
) -> c_int {
    let (reads, writes) = (is_on_device(input), is_on_device(output));
    if !reads && !writes {
        return start(input.0, output.0);
    }
    if ACCEPTS.load(Ordering::SeqCst) < needs as u8 {
        eprintln!(
            "memory of a device is passed to a call of MPI that accepts memory of the host alone"
        );
        std::process::abort();
    }
    CALLS.fetch_add(1, Ordering::SeqCst);
    let mut pending = Pending {
        input: vec![0; if reads { input.1 } else { 0 }],
        output: vec![0; if writes { output.1 } else { 0 }],
        target: writes.then_some(output.0 as u64),
    };
    let driver = driver().unwrap();
    let mut read_ok = true;
    if reads {
        read_ok &= driver.read(input.0 as u64, &mut pending.input);
    }
    if writes && reads_output {
        read_ok &= driver.read(output.0 as u64, &mut pending.output);
    }
    if !read_ok {
        return ffi::MPI_ERR_OTHER as c_int;
    }
    let from = if reads {
        pending.input.as_mut_ptr().cast()
    } else {
        input.0
    };
    let to = if writes {
        pending.output.as_mut_ptr().cast()
    } else {
        output.0
    };
    let started = start(from, to);
    // SAFETY: the caller's place for the request, which MPI has written.
    let handle = unsafe { handle_of(request) };
    let mut all = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    all.get_or_insert_default().insert(handle, pending);
    started
}

/// Returns the handle of a request: a pointer, or a number in other libraries.
///
/// # Safety
/// The request exists.
unsafe fn handle_of(request: *const MPI_Request) -> usize {
    let mut handle = [0; size_of::<usize>()];
    let bytes = size_of::<MPI_Request>().min(handle.len());
    // SAFETY: the request has these bytes.
    unsafe { std::ptr::copy_nonoverlapping(request.cast(), handle.as_mut_ptr(), bytes) };
    usize::from_ne_bytes(handle)
}

fn bytes_of(count: c_int, dtype: MPI_Datatype) -> usize {
    let mut size = 0;
    // SAFETY: a type of the caller.
    unsafe { ffi::PMPI_Type_size(dtype, &raw mut size) };
    (count * size) as usize
}

/// Notes the copies of the device so far, for calls of a whole piece.
fn note(bytes: usize) {
    if super::is_used() && bytes == super::PIECE {
        LOG.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(copies());
    }
}

/// The address that stands for the output: that of the library that the double claims to be, or Open MPI's.
fn is_in_place(address: *const c_void) -> bool {
    matches!(address.addr(), 1 | usize::MAX)
}

fn real_in_place(address: *mut c_void) -> *const c_void {
    match is_in_place(address) {
        true => {
            let mut text = [0; ffi::MPI_MAX_LIBRARY_VERSION_STRING as usize + 1];
            let mut len = 0;
            // SAFETY: the text has the length that MPI documents, and ends with a zero.
            let version = unsafe {
                ffi::PMPI_Get_library_version(text.as_mut_ptr(), &raw mut len);
                CStr::from_ptr(text.as_ptr())
            };
            let is_open_mpi = version.to_bytes().starts_with(b"Open MPI");
            std::ptr::without_provenance(if is_open_mpi { 1 } else { usize::MAX })
        }
        false => address,
    }
}

/// Open MPI accepts memory of devices in transfers alone; so the double is another library if it accepts more.
#[unsafe(no_mangle)]
extern "C" fn MPI_Get_library_version(text: *mut c_char, len: *mut c_int) -> c_int {
    if ACCEPTS.load(Ordering::SeqCst) < Accepts::All as u8 {
        // SAFETY: the caller's places.
        return unsafe { ffi::PMPI_Get_library_version(text, len) };
    }
    let name: &CStr = c"a double of a CUDA-aware MPI";
    // SAFETY: the caller's text has the length that MPI documents.
    unsafe {
        std::ptr::copy_nonoverlapping(name.as_ptr(), text, name.count_bytes() + 1);
        len.write(name.count_bytes() as c_int);
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn MPIX_Query_cuda_support() -> c_int {
    c_int::from(ACCEPTS.load(Ordering::SeqCst) > Accepts::Nothing as u8)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Iallreduce(
    input: *const c_void,
    output: *mut c_void,
    count: c_int,
    dtype: MPI_Datatype,
    operation: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let bytes = bytes_of(count, dtype);
    note(bytes);
    let take = |left: usize| left.checked_sub(usize::from(bytes == super::PIECE));
    if PIECES
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
        .is_err()
    {
        return ffi::MPI_ERR_OTHER as c_int;
    }
    let reads_output = is_in_place(input);
    let from = (input.cast_mut(), if reads_output { 0 } else { bytes });
    let needs = (Accepts::All, reads_output);
    with_host_memory(needs, from, (output, bytes), request, |input, output| {
        let input = real_in_place(input);
        // SAFETY: the caller's arguments, with memory of the host that is kept until the request has completed.
        unsafe { ffi::PMPI_Iallreduce(input, output, count, dtype, operation, comm, request) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Ireduce_scatter_block(
    input: *const c_void,
    output: *mut c_void,
    count: c_int,
    dtype: MPI_Datatype,
    operation: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let bytes = bytes_of(count, dtype);
    let from = (input.cast_mut(), bytes * ranks(comm));
    let needs = (Accepts::All, false);
    with_host_memory(needs, from, (output, bytes), request, |input, output| {
        // SAFETY: as above.
        unsafe {
            ffi::PMPI_Ireduce_scatter_block(input, output, count, dtype, operation, comm, request)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Iallgather(
    input: *const c_void,
    count: c_int,
    dtype: MPI_Datatype,
    output: *mut c_void,
    to_count: c_int,
    to_dtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let from = (input.cast_mut(), bytes_of(count, dtype));
    let to = (output, bytes_of(to_count, to_dtype) * ranks(comm));
    with_host_memory((Accepts::All, false), from, to, request, |input, output| {
        // SAFETY: as above.
        unsafe {
            ffi::PMPI_Iallgather(
                input, count, dtype, output, to_count, to_dtype, comm, request,
            )
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Ibcast(
    buffer: *mut c_void,
    count: c_int,
    dtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let bytes = bytes_of(count, dtype);
    note(bytes);
    let mut rank = 0;
    // SAFETY: the caller's communicator.
    unsafe { ffi::PMPI_Comm_rank(comm, &raw mut rank) };
    let nothing = (std::ptr::null_mut(), 0);
    let (from, to) = match rank == root {
        true => ((buffer, bytes), nothing),
        false => (nothing, (buffer, bytes)),
    };
    with_host_memory((Accepts::All, false), from, to, request, |input, output| {
        let buffer = if rank == root { input } else { output };
        // SAFETY: as above.
        unsafe { ffi::PMPI_Ibcast(buffer, count, dtype, root, comm, request) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Isend(
    buffer: *const c_void,
    count: c_int,
    dtype: MPI_Datatype,
    to: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let bytes = bytes_of(count, dtype);
    note(bytes);
    let (from, nothing) = ((buffer.cast_mut(), bytes), (std::ptr::null_mut(), 0));
    with_host_memory(
        (Accepts::Transfers, false),
        from,
        nothing,
        request,
        |buffer, _| {
            // SAFETY: as above.
            unsafe { ffi::PMPI_Isend(buffer, count, dtype, to, tag, comm, request) }
        },
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Irecv(
    buffer: *mut c_void,
    count: c_int,
    dtype: MPI_Datatype,
    from: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let (to, nothing) = ((buffer, bytes_of(count, dtype)), (std::ptr::null_mut(), 0));
    with_host_memory(
        (Accepts::Transfers, false),
        nothing,
        to,
        request,
        |_, buffer| {
            // SAFETY: as above.
            unsafe { ffi::PMPI_Irecv(buffer, count, dtype, from, tag, comm, request) }
        },
    )
}

/// Writes the output of a request to its device once it has completed.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Test(
    request: *mut MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's places.
    let (handle, answer) = unsafe {
        let handle = handle_of(request);
        (handle, ffi::PMPI_Test(request, flag, status))
    };
    // SAFETY: as above.
    if answer == 0 && unsafe { *flag } == 0 {
        return answer;
    }
    let mut all = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    let pending = all.as_mut().and_then(|all| all.remove(&handle));
    if let (0, Some(mut pending)) = (answer, pending)
        && let Some(target) = pending.target
        && !driver().unwrap().write(target, &mut pending.output)
    {
        return ffi::MPI_ERR_OTHER as c_int;
    }
    answer
}

fn ranks(comm: MPI_Comm) -> usize {
    let mut size = 0;
    // SAFETY: the caller's communicator.
    unsafe { ffi::PMPI_Comm_size(comm, &raw mut size) };
    size as usize
}
