//! Lists the GPUs that the driver sees.

use std::ffi::{CStr, c_char};

use cudarc::driver::sys::{CUdevice, CUdevice_attribute, CUuuid};
use millstream_protocol::error::OpenError;

use super::{Api, Code, VERSION_MIN, api, version_text};

/// One GPU, as the driver describes it.
#[derive(Clone)]
pub(crate) struct Gpu {
    pub(crate) api: &'static Api,
    pub(crate) device: CUdevice,
    pub(crate) ordinal: usize,
    pub(crate) name: String,
    /// As `nvidia-smi -L` prints it, without the `GPU-` prefix.
    pub(crate) uuid: String,
    pub(crate) memory_bytes: u64,
    pub(crate) driver_version: i32,
}

/// Returns the error of an open that fails for this reason.
fn unavailable(why: String) -> OpenError {
    OpenError::Unavailable {
        backend: "cuda",
        why,
    }
}

/// Returns the error of an open during which the driver refused a call.
pub(crate) fn refused(call: &str, code: Code) -> OpenError {
    unavailable(format!("the driver call `{call}` failed: {code}"))
}

/// Lists the GPUs that this process sees, in the driver's order.
///
/// # Errors
/// There is no driver, it is too old, or it sees no GPU.
pub(crate) fn gpus() -> Result<Vec<Gpu>, OpenError> {
    let api = api().map_err(|absent| unavailable(absent.to_string()))?;
    let mut version = 0;
    // SAFETY: the out pointer is valid; the call needs no initialization.
    let answer = unsafe { (api.driver_version)(&raw mut version) };
    Code::check(answer).map_err(|code| refused("cuDriverGetVersion", code))?;
    if version < VERSION_MIN {
        return Err(unavailable(format!(
            "the driver supports CUDA {}, expected {} or later; update NVIDIA's driver",
            version_text(version),
            version_text(VERSION_MIN)
        )));
    }
    let no_gpu = || {
        unavailable(
            "the driver sees no GPU; check `nvidia-smi`, and CUDA_VISIBLE_DEVICES if it is set"
                .to_owned(),
        )
    };
    // SAFETY: the flags must be 0.
    match Code::check(unsafe { (api.init)(0) }) {
        Err(Code::NO_DEVICE) => return Err(no_gpu()),
        initialized => initialized.map_err(|code| refused("cuInit", code))?,
    }
    let mut count = 0;
    // SAFETY: the driver is initialized, and the out pointer is valid.
    match Code::check(unsafe { (api.device_count)(&raw mut count) }) {
        Err(Code::NO_DEVICE) => return Err(no_gpu()),
        counted => counted.map_err(|code| refused("cuDeviceGetCount", code))?,
    }
    if count <= 0 {
        return Err(no_gpu());
    }
    (0..count)
        .map(|ordinal| Gpu::of(api, ordinal, version))
        .collect()
}

impl Gpu {
    fn of(api: &'static Api, ordinal: i32, driver_version: i32) -> Result<Self, OpenError> {
        let mut device: CUdevice = 0;
        let mut name = [0 as c_char; 256];
        let mut uuid = CUuuid { bytes: [0; 16] };
        let mut bytes = 0_usize;
        // SAFETY: the driver is initialized, and the out pointers are valid for the lengths passed.
        unsafe {
            Code::check((api.device)(&raw mut device, ordinal))
                .map_err(|code| refused("cuDeviceGet", code))?;
            Code::check((api.device_name)(
                name.as_mut_ptr(),
                name.len() as i32,
                device,
            ))
            .map_err(|code| refused("cuDeviceGetName", code))?;
            Code::check((api.device_uuid)(&raw mut uuid, device))
                .map_err(|code| refused("cuDeviceGetUuid", code))?;
            Code::check((api.device_memory)(&raw mut bytes, device))
                .map_err(|code| refused("cuDeviceTotalMem", code))?;
        }
        name[name.len() - 1] = 0;
        // SAFETY: the last byte is 0, so the string ends within the array.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        Ok(Self {
            api,
            device,
            ordinal: ordinal as usize,
            name: name.to_string_lossy().into_owned(),
            uuid: uuid_text(&uuid),
            memory_bytes: bytes as u64,
            driver_version,
        })
    }

    /// Queries an attribute of the GPU.
    pub(crate) fn attribute(&self, attribute: CUdevice_attribute) -> Result<i32, OpenError> {
        let mut value = 0;
        // SAFETY: the driver is initialized, and the out pointer is valid.
        let answer =
            unsafe { (self.api.device_attribute)(&raw mut value, attribute as u32, self.device) };
        Code::check(answer).map_err(|code| refused("cuDeviceGetAttribute", code))?;
        Ok(value)
    }
}

fn uuid_text(uuid: &CUuuid) -> String {
    let mut text = String::with_capacity(36);
    for (place, byte) in uuid.bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{:02x}", *byte as u8);
    }
    text
}
