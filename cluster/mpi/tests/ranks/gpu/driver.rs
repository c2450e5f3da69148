//! The fake driver as the double of an MPI uses it: accesses of memory of a device by its address, and counts of copies.

use std::ffi::c_char;
use std::sync::OnceLock;

use libloading::Library;

/// The calls of copies so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Copies {
    pub(crate) to_host: u64,
    pub(crate) to_gpu: u64,
}

/// Returns the calls of copies so far.
pub(crate) fn copies() -> Copies {
    let Some(driver) = driver() else {
        return Copies {
            to_host: 0,
            to_gpu: 0,
        };
    };
    // SAFETY: the names end with a zero byte.
    unsafe {
        Copies {
            to_host: (driver.calls)(c"cuMemcpyDtoHAsync_v2".as_ptr()),
            to_gpu: (driver.calls)(c"cuMemcpyHtoDAsync_v2".as_ptr()),
        }
    }
}

/// A range of memory, as the fake takes it.
#[repr(C)]
struct Span {
    start: u64,
    bytes: u64,
}

type Run = extern "C" fn(u64, *const *const u8, *const *mut u8);

/// Functions of the fake driver.
pub(super) struct Driver {
    calls: unsafe extern "C" fn(*const c_char) -> u64,
    pub(super) gpu_at: unsafe extern "C" fn(u64) -> i32,
    create_stream: unsafe extern "C" fn(*mut u64, u32) -> u32,
    synchronize: unsafe extern "C" fn(u64) -> u32,
    destroy_stream: unsafe extern "C" fn(u64) -> u32,
    native: unsafe extern "C" fn(
        u64,
        *const c_char,
        *const Span,
        usize,
        *const Span,
        usize,
        Option<extern "C" fn(u64) -> u32>,
        Option<Run>,
        u64,
    ) -> u32,
}

/// Returns the functions of the fake, if a driver can be loaded and is the fake.
pub(super) fn driver() -> Option<&'static Driver> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    let find = || {
        // SAFETY: the initializers of a driver run in each of its users.
        let library = unsafe { Library::new(libloading::library_filename("cuda")) }.ok()?;
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the types are those of the driver's header, and of the fake's controls.
        unsafe {
            Some(Driver {
                calls: *library.get("fake_cuda_calls").ok()?,
                gpu_at: *library.get("fake_cuda_gpu_at").ok()?,
                create_stream: *library.get("cuStreamCreate").ok()?,
                synchronize: *library.get("cuStreamSynchronize").ok()?,
                destroy_stream: *library.get("cuStreamDestroy_v2").ok()?,
                native: *library.get("fake_cuda_native").ok()?,
            })
        }
    };
    DRIVER.get_or_init(find).as_ref()
}

/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: u32 = 1;

/// Bytes of the host that are copied to or from a device.
struct Bytes(*mut u8, usize);

extern "C" fn read(data: u64, from: *const *const u8, _: *const *mut u8) {
    // SAFETY: `access` passes these bytes, and waits; the driver passes one pointer to as many.
    unsafe {
        let bytes = &*std::ptr::with_exposed_provenance::<Bytes>(data as usize);
        std::ptr::copy_nonoverlapping(*from, bytes.0, bytes.1);
    }
}

extern "C" fn write(data: u64, _: *const *const u8, to: *const *mut u8) {
    // SAFETY: as above.
    unsafe {
        let bytes = &*std::ptr::with_exposed_provenance::<Bytes>(data as usize);
        std::ptr::copy_nonoverlapping(bytes.0, *to, bytes.1);
    }
}

impl Driver {
    /// Reads memory of a device. Fails if the GPU is lost.
    pub(super) fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.access(address, bytes, read, false)
    }

    /// Writes memory of a device. Fails if the GPU is lost.
    pub(super) fn write(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.access(address, bytes, write, true)
    }

    /// Reads or writes memory of a device, and waits for that. The fake reports what is wrong. Fails if the GPU is lost.
    fn access(&self, address: u64, bytes: &mut [u8], run: Run, writes: bool) -> bool {
        let span = Span {
            start: address,
            bytes: bytes.len() as u64,
        };
        let bytes = Bytes(bytes.as_mut_ptr(), bytes.len());
        let (reads, writes) = (usize::from(!writes), usize::from(writes));
        let (mut stream, data) = (0, (&raw const bytes).expose_provenance() as u64);
        // SAFETY: the driver checks the handles and the addresses; `bytes` lives until the stream was waited for.
        unsafe {
            if (self.create_stream)(&raw mut stream, NON_BLOCKING) != 0 {
                return false;
            }
            let name = c"an MPI".as_ptr();
            let queued = (self.native)(
                stream,
                name,
                &raw const span,
                reads,
                &raw const span,
                writes,
                None,
                Some(run),
                data,
            );
            let waited = (self.synchronize)(stream);
            (self.destroy_stream)(stream);
            queued == 0 && waited == 0
        }
    }
}
