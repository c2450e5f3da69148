//! Opens devices by the names of their backends.

use std::ffi::c_char;
use std::sync::Arc;

use millstream::backend::Open;
use millstream::sim::Sim;
use millstream::{
    Cpu, Cuda, Device, DeviceOptions, Driver, Vulkan,
    device::{LogLevel, Logs},
};

use crate::device::{ms_device, ms_driver};
use crate::exclusive::Exclusive;
use crate::handles::Out;
use crate::sized::{chosen, read_options, sized, text, with};
use crate::status::{Answer, Fault, ensure, exports};

/// Options of a device. Zero is the default of every field.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_device_options {
    /// `sizeof(ms_device_options)`.
    pub size: u32,
    /// `cuda`, `vulkan`: which GPU, from 0 in the order of the driver.
    pub ordinal: u32,
    /// The number of queues. 0: the backend's default.
    pub queues: u32,
    /// `cpu`: the threads that share the cubes of one launch. 0: one for each core.
    pub threads: u32,
    /// The most bytes of device memory that may be allocated. 0: no limit. `cuda` has no such limit.
    pub memory_limit: u64,
    /// `sim`: the seed that chooses the order of the tasks.
    pub seed: u64,
    /// Samples the latencies of one task in each group of this size, for the metrics. 0: none.
    pub sample_latencies: u64,
    /// The messages that wait for the device before calls block, rounded up to a power of two. 0: 256.
    pub mailbox_capacity: u32,
    /// What the device tells the log beyond warnings: 0 nothing, 1 events, 2 also each shared binding.
    pub log_level: u32,
    /// The most bytes of the submission log (`ms_device_take_log`) between two takes. 0: no log.
    pub log_submissions: u64,
}

sized!(ms_device_options: 48);

exports! {
    /// Opens a device, which runs on threads of its own. Blocks while it is opened.
    ///
    /// `backend` is `cpu`, `sim` (the processor in an order chosen by a seed, for tests), `cuda` or `vulkan`. `options`
    /// may be NULL. The device lives until `ms_device_destroy`; objects that were made from it stay valid handles, and
    /// their calls then answer `MS_STATUS_CLOSED`.
    ///
    /// Errors: `MS_STATUS_UNAVAILABLE`: the machine has no such device, or this build no such backend.
    /// `INVALID_ARGUMENT`.
    fn ms_device_open(
        backend: *const c_char, options: *const ms_device_options, out: *mut *mut ms_device,
    ) {
        give_opened(out, None, |is_driven| open(backend, options, is_driven))
    }

    /// Opens a driven device: it starts no thread, and `ms_pump` runs it on the threads that call that. A call that
    /// waits pumps meanwhile. Otherwise like `ms_device_open`.
    ///
    /// Destroy both the driver and the device; destroying either closes the device.
    fn ms_device_open_driven(
        backend: *const c_char, options: *const ms_device_options, out_device: *mut *mut ms_device,
        out_driver: *mut *mut ms_driver,
    ) {
        give_opened(out_device, Some(out_driver), |is_driven| open(backend, options, is_driven))
    }
}

/// Gives the device that `open` opens, and its driver: `open` gets whether it shall be driven, which it is if there is a
/// place for the driver.
///
/// # Safety
/// The places are NULL or may be written.
pub(crate) unsafe fn give_opened(
    out_device: *mut *mut ms_device,
    out_driver: Option<*mut *mut ms_driver>,
    open: impl FnOnce(bool) -> Answer<(Device, Option<Driver>)>,
) -> Answer<()> {
    // SAFETY: the caller's promise.
    let out_device = unsafe { Out::new(out_device)? };
    // SAFETY: as above.
    let out_driver = out_driver.map(|out| unsafe { Out::new(out) }).transpose()?;
    let (device, driver) = open(out_driver.is_some())?;
    if let (Some(driver), Some(out)) = (driver, out_driver) {
        let busy = "the device is pumped by another thread, or further up on this one";
        out.give(ms_driver(Exclusive::new(driver, busy)))?;
    }
    out_device.give(ms_device(Arc::new(device)))
}

/// # Safety
/// The pointers are NULL or valid.
unsafe fn open(
    backend: *const c_char,
    options: *const ms_device_options,
    driven: bool,
) -> Answer<(Device, Option<Driver>)> {
    // SAFETY: the caller's promise.
    let backend = unsafe { text(backend, "name of the backend")? };
    // SAFETY: as above.
    let options = unsafe { read_options(options)? };
    let (ordinal, queues) = (options.ordinal as usize, options.queues as usize);
    let limit = options.memory_limit;
    match backend {
        "cpu" => {
            let cpu = with(Cpu::default(), queues, Cpu::queues);
            let cpu = with(cpu, options.threads as usize, Cpu::threads);
            open_kind(with(cpu, limit, Cpu::memory_limit), &options, driven)
        }
        "sim" => {
            let sim = with(Sim::seed(options.seed), queues, Sim::queues);
            open_kind(with(sim, limit, Sim::memory_bytes), &options, driven)
        }
        "cuda" => {
            without_memory_limit(&options)?;
            let cuda = with(Cuda::ordinal(ordinal), queues, Cuda::queues);
            open_kind(cuda, &options, driven)
        }
        "vulkan" => {
            let vulkan = with(Vulkan::ordinal(ordinal), queues, Vulkan::queues);
            let vulkan = with(vulkan, limit, Vulkan::memory_limit);
            open_kind(vulkan, &options, driven)
        }
        other => Err(Fault::argument(format!(
            "the backend must be `cpu`, `sim`, `cuda` or `vulkan`, got `{other}`"
        ))),
    }
}

pub(crate) fn without_memory_limit(options: &ms_device_options) -> Answer<()> {
    ensure!(
        options.memory_limit == 0,
        "`memory_limit` must be 0 on `cuda`"
    );
    Ok(())
}

pub(crate) fn open_kind<O: Open>(
    kind: O,
    given: &ms_device_options,
    driven: bool,
) -> Answer<(Device, Option<Driver>)> {
    let options = DeviceOptions::default()
        .sample_latencies(given.sample_latencies)
        .log_submissions(given.log_submissions);
    let capacity = given.mailbox_capacity as usize;
    let options = with(options, capacity, DeviceOptions::mailbox_capacity);
    let levels = [LogLevel::Disabled, LogLevel::Basic, LogLevel::Full];
    let level = chosen(given.log_level, levels, "`log_level` must be 0 to 2")?;
    let options = options.logs(Logs {
        streams: level,
        memory: level,
        compilation: level,
    });
    Ok(match driven {
        true => {
            let (device, driver) = Device::open_driven(kind, options)?;
            (device, Some(driver))
        }
        false => (Device::open_with(kind, options)?, None),
    })
}
