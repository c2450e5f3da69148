//! What the programs in Rust share: structs of C, a device, a kernel, and a stream with a buffer of numbers. All calls are
//! those of C.
#![allow(dead_code, reason = "no program uses all of it")]

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use millstream_capi::argument::{ms_argument, ms_value};
use millstream_capi::buffer::{
    ms_buffer, ms_buffer_create_from, ms_buffer_destroy, ms_fill, ms_read_into,
};
use millstream_capi::client::{ms_client, ms_client_create, ms_client_destroy};
use millstream_capi::device::{ms_device, ms_device_destroy, ms_driver, ms_driver_destroy};
use millstream_capi::kernel::{
    ms_binding_desc, ms_kernel, ms_kernel_create, ms_kernel_desc, ms_kernel_destroy,
    ms_scalar_desc, ms_source, ms_source_kind,
};
use millstream_capi::launch::{ms_cubes, ms_launch};
use millstream_capi::status::{ms_last_error, ms_status};
use millstream_capi::stream::{ms_stream, ms_stream_create, ms_stream_destroy};
use millstream_capi::types::{ms_access, ms_type};

/// A struct of C that begins with its size, which is set; the rest is zero.
pub(crate) fn zeroed<T: Copy>() -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the structs of the header begin with their size, and zeros are valid for all other fields.
    unsafe {
        value
            .as_mut_ptr()
            .cast::<u32>()
            .write(size_of::<T>() as u32);
        value.assume_init()
    }
}

pub(crate) fn last_error() -> &'static str {
    // SAFETY: the text ends with NUL, and lives until the next failure on this thread.
    unsafe { CStr::from_ptr(ms_last_error()) }.to_str().unwrap()
}

#[track_caller]
pub(crate) fn ok(status: ms_status) {
    assert_eq!(status, ms_status::Ok, "{}", last_error());
}

/// Returns the handle that a call gives.
#[track_caller]
pub(crate) fn given<T>(call: impl FnOnce(*mut *mut T) -> ms_status) -> *mut T {
    let mut handle = null_mut();
    ok(call(&raw mut handle));
    handle
}

pub(crate) fn argument(kind: u32, value: ms_value) -> ms_argument {
    ms_argument {
        kind,
        value,
        ..zeroed()
    }
}

/// A device, and its driver if it is driven.
pub(crate) struct Opened {
    pub(crate) device: *mut ms_device,
    pub(crate) driver: *mut ms_driver,
}

impl Opened {
    /// Calls `open` with the places for the handles; that for the driver is NULL unless the device shall be driven.
    pub(crate) fn by(
        driven: bool,
        open: impl FnOnce(*mut *mut ms_device, *mut *mut ms_driver) -> ms_status,
    ) -> Result<Self, ms_status> {
        let (mut device, mut driver) = (null_mut(), null_mut());
        let for_driver = if driven { &raw mut driver } else { null_mut() };
        let status = open(&raw mut device, for_driver);
        assert_eq!(device.is_null(), status != ms_status::Ok);
        match status {
            ms_status::Ok => Ok(Self { device, driver }),
            refused => Err(refused),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: each handle is destroyed once.
        unsafe {
            ok(ms_driver_destroy(self.driver));
            ok(ms_device_destroy(self.device));
        }
    }
}

/// The text or module of a kernel.
pub(crate) fn source(kind: ms_source_kind, text: &[u8]) -> ms_source {
    ms_source {
        kind: kind as u32,
        data: text.as_ptr().cast(),
        bytes: text.len(),
        ..zeroed()
    }
}

pub(crate) struct Kernel(pub(crate) *mut ms_kernel);

impl Kernel {
    /// A kernel with buffers of this type, and with scalars of this one.
    pub(crate) fn new(
        client: *const ms_client,
        name: &'static CStr,
        (buffers, of): (&[ms_access], ms_type),
        (scalar_count, dtype): (usize, ms_type),
        source: &ms_source,
    ) -> Self {
        let binding = |access: &ms_access| ms_binding_desc {
            access: *access as u32,
            dtype: of as u32,
            name: c"buffer".as_ptr(),
            ..zeroed()
        };
        let bindings: Vec<_> = buffers.iter().map(binding).collect();
        let scalar = ms_scalar_desc {
            dtype: dtype as u32,
            name: c"scalar".as_ptr(),
            ..zeroed()
        };
        let scalars = vec![scalar; scalar_count];
        let desc = ms_kernel_desc {
            name: name.as_ptr(),
            bindings: bindings.as_ptr(),
            binding_count: bindings.len(),
            scalars: scalars.as_ptr(),
            scalar_count,
            sources: source,
            source_count: 1,
            ..zeroed()
        };
        // SAFETY: the description is valid until the call returns.
        Self(given(|out| unsafe {
            ms_kernel_create(client, &raw const desc, out)
        }))
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: destroyed once.
        ok(unsafe { ms_kernel_destroy(self.0) });
    }
}

/// A stream of a device, with a buffer of numbers.
pub(crate) struct User {
    pub(crate) client: *mut ms_client,
    pub(crate) stream: *mut ms_stream,
    pub(crate) buffer: *mut ms_buffer,
    len: usize,
}

impl User {
    pub(crate) fn of(device: *const ms_device, numbers: &[u32]) -> Self {
        // SAFETY: all pointers are valid.
        let client = given(|out| unsafe { ms_client_create(device, null(), out) });
        // SAFETY: as above.
        let stream = given(|out| unsafe { ms_stream_create(client, out) });
        let (data, bytes) = (numbers.as_ptr().cast(), size_of_val(numbers));
        // SAFETY: as above.
        let buffer = given(|out| unsafe { ms_buffer_create_from(stream, data, bytes, out) });
        Self {
            client,
            stream,
            buffer,
            len: numbers.len(),
        }
    }

    pub(crate) fn argument(&self, access: ms_access) -> ms_argument {
        let buffer = self.buffer;
        argument(access as u32, ms_value { buffer })
    }

    /// Launches a kernel of the buffer and of scalars.
    pub(crate) fn launch(
        &self,
        kernel: &Kernel,
        cubes: u32,
        access: ms_access,
        scalars: &[u32],
    ) -> ms_status {
        let number = |value: &u32| argument(ms_type::U32 as u32, ms_value { u32: *value });
        let numbers = scalars.iter().map(number);
        let all: Vec<_> = [self.argument(access)].into_iter().chain(numbers).collect();
        let (x, y, z) = (cubes, 1, 1);
        // SAFETY: the handles live, and the arguments are an array of this length.
        unsafe {
            ms_launch(
                self.stream,
                kernel.0,
                ms_cubes { x, y, z },
                all.as_ptr(),
                all.len(),
            )
        }
    }

    pub(crate) fn fill(&self, value: u32) {
        // SAFETY: the handles live.
        ok(unsafe { ms_fill(self.stream, self.buffer, (&raw const value).cast(), 4) });
    }

    pub(crate) fn read(&self) -> Result<Vec<u32>, ms_status> {
        let mut numbers = vec![0; self.len];
        let into: *mut c_void = numbers.as_mut_ptr().cast();
        // SAFETY: the handles live, and there is room.
        match unsafe { ms_read_into(self.stream, self.buffer, into, 4 * self.len) } {
            ms_status::Ok => Ok(numbers),
            status => Err(status),
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: each handle is destroyed once.
        unsafe {
            ok(ms_buffer_destroy(self.buffer));
            ok(ms_stream_destroy(self.stream));
            ok(ms_client_destroy(self.client));
        }
    }
}
