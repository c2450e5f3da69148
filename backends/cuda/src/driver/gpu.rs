//! Lists the GPUs that the driver sees.

use std::ffi::{CStr, c_char};

use cudarc::driver::sys::{CUdevice, CUdevice_attribute, CUuuid};
use millstream_gpu::unavailable;
use millstream_protocol::OpenError;

use super::{Api, Code, VERSION_MIN, api, version_text};

/// A GPU that this process sees.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GpuInfo {
    /// The index in the driver's order, for [`Cuda::ordinal`](crate::Cuda::ordinal).
    pub ordinal: usize,
    /// The name.
    pub name: String,
    /// The unique identifier, as `nvidia-smi -L` prints it.
    pub uuid: String,
    /// Total memory in bytes.
    pub memory_bytes: u64,
    /// The newest CUDA version that the driver supports, major and minor.
    pub driver: (u32, u32),
}

/// One GPU, as the driver describes it.
#[derive(Clone)]
pub(crate) struct Gpu {
    pub(crate) api: &'static Api,
    pub(crate) device: CUdevice,
    pub(crate) info: GpuInfo,
}

/// Lists the GPUs that this process sees, in the driver's order.
///
/// # Errors
/// There is no driver, it is too old, or it sees no GPU.
pub(crate) fn gpus() -> Result<Vec<Gpu>, OpenError> {
    let api = api().map_err(|why| unavailable("cuda", why))?;
    let mut version = 0;
    // SAFETY: the out pointer is valid; the call needs no initialization.
    unsafe { api.driver_version(&raw mut version) }?;
    if version < VERSION_MIN {
        return Err(unavailable(
            "cuda",
            format!(
                "the driver supports CUDA {}, expected {} or later; update NVIDIA's driver",
                version_text(version),
                version_text(VERSION_MIN)
            ),
        ));
    }
    let mut count = 0;
    // SAFETY: the flags must be 0, and the out pointer is valid.
    let counted = unsafe { api.init(0).and_then(|()| api.device_count(&raw mut count)) };
    if let Err(code) = counted
        && code.number != Code::NO_DEVICE
    {
        return Err(code.into());
    }
    if count <= 0 {
        return Err(unavailable(
            "cuda",
            "the driver sees no GPU; check `nvidia-smi`, and CUDA_VISIBLE_DEVICES if it is set",
        ));
    }
    (0..count)
        .map(|ordinal| Gpu::of(api, ordinal, version))
        .collect()
}

impl Gpu {
    fn of(api: &'static Api, ordinal: i32, version: i32) -> Result<Self, OpenError> {
        let mut device: CUdevice = 0;
        let mut name = [0 as c_char; 256];
        let mut uuid = CUuuid { bytes: [0; 16] };
        let mut bytes = 0_usize;
        // SAFETY: the driver is initialized, and the out pointers are valid for the lengths passed.
        unsafe {
            api.device(&raw mut device, ordinal)?;
            api.device_name(name.as_mut_ptr(), name.len() as i32, device)?;
            api.device_uuid(&raw mut uuid, device)?;
            api.device_memory(&raw mut bytes, device)?;
        }
        name[name.len() - 1] = 0;
        // SAFETY: the last byte is 0, so the string ends within the array.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        Ok(Self {
            api,
            device,
            info: GpuInfo {
                ordinal: ordinal as usize,
                name: name.to_string_lossy().into_owned(),
                uuid: uuid_text(&uuid),
                memory_bytes: bytes as u64,
                driver: (version as u32 / 1000, version as u32 % 1000 / 10),
            },
        })
    }

    /// Queries an attribute of the GPU.
    pub(crate) fn attribute(&self, attribute: CUdevice_attribute) -> Result<i32, Code> {
        let mut value = 0;
        // SAFETY: the driver is initialized, and the out pointer is valid.
        unsafe {
            self.api
                .device_attribute(&raw mut value, attribute as u32, self.device)
        }
        .map(|()| value)
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
