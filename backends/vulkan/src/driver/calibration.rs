//! Calibration: the clocks of the device and of the host, read at the same moment.

use ash::{ext, khr, vk};

use super::Code;

/// The clock of the host: the one that `std::time::Instant` reads.
#[cfg(not(windows))]
const HOST: vk::TimeDomainKHR = vk::TimeDomainKHR::CLOCK_MONOTONIC;
#[cfg(windows)]
const HOST: vk::TimeDomainKHR = vk::TimeDomainKHR::QUERY_PERFORMANCE_COUNTER;

/// A calibration this close needs no second attempt, in nanoseconds.
const DEVIATION_NS: u64 = 5_000;

/// The most attempts for a close calibration: the thread may be preempted between the reads of the clocks.
const ATTEMPTS: usize = 3;

/// The extension that reads both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CalibratedTimestamps {
    /// `VK_KHR_calibrated_timestamps`.
    Khr,
    /// `VK_EXT_calibrated_timestamps`.
    Ext,
}

impl CalibratedTimestamps {
    /// Returns the extension's name.
    pub(crate) fn name(self) -> &'static std::ffi::CStr {
        match self {
            Self::Khr => khr::calibrated_timestamps::NAME,
            Self::Ext => ext::calibrated_timestamps::NAME,
        }
    }

    /// Returns the extension with which a GPU reads its clock and that of the host; `None` if there is none.
    pub(crate) fn find(
        entry: &ash::Entry,
        instance: &ash::Instance,
        gpu: vk::PhysicalDevice,
        extensions: &[vk::ExtensionProperties],
    ) -> Option<Self> {
        [Self::Khr, Self::Ext].into_iter().find(|extension| {
            let name = extension.name();
            let mut names = extensions.iter().map(|one| one.extension_name_as_c_str());
            names.any(|known| known == Ok(name)) && extension.has_clocks(entry, instance, gpu)
        })
    }

    /// Returns `true` if the extension, which the GPU has, reads both clocks.
    fn has_clocks(
        self,
        entry: &ash::Entry,
        instance: &ash::Instance,
        gpu: vk::PhysicalDevice,
    ) -> bool {
        // SAFETY: the GPU belongs to the instance, and has the extension.
        let domains = unsafe {
            match self {
                Self::Khr => khr::calibrated_timestamps::Instance::new(entry, instance)
                    .get_physical_device_calibrateable_time_domains(gpu),
                Self::Ext => ext::calibrated_timestamps::Instance::new(entry, instance)
                    .get_physical_device_calibrateable_time_domains(gpu),
            }
        };
        let needed = [vk::TimeDomainKHR::DEVICE, HOST];
        domains.is_ok_and(|domains| needed.iter().all(|domain| domains.contains(domain)))
    }

    /// Returns the extension that is enabled on a device.
    pub(super) fn of(instance: &ash::Instance, device: &ash::Device) -> Option<Self> {
        let get = instance.fp_v1_0().get_device_proc_addr;
        let has = |function: &std::ffi::CStr| {
            // SAFETY: the device is alive, and the name ends with a zero. Functions of other extensions are null.
            unsafe { get(device.handle(), function.as_ptr()) }.is_some()
        };
        match has(c"vkGetCalibratedTimestampsKHR") {
            true => Some(Self::Khr),
            false => has(c"vkGetCalibratedTimestampsEXT").then_some(Self::Ext),
        }
    }
}

/// Returns the extension with which a GPU compares its clock with that of the host; `None` if it has none. An application
/// enables it on the device that it passes to [`Vulkan::adopt`](crate::Vulkan::adopt).
///
/// # Safety
/// `physical` is a GPU of the instance, and `entry` is the loader that created the instance.
pub unsafe fn calibration_extension(
    entry: &ash::Entry,
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Option<&'static std::ffi::CStr> {
    // SAFETY: the GPU belongs to the instance, as the caller guarantees.
    let extensions = unsafe { instance.enumerate_device_extension_properties(physical) };
    let found = CalibratedTimestamps::find(entry, instance, physical, &extensions.ok()?);
    found.map(CalibratedTimestamps::name)
}

/// The functions of the extension.
pub(super) enum Calibrator {
    Khr(khr::calibrated_timestamps::Device),
    Ext(ext::calibrated_timestamps::Device),
}

/// The values of both clocks at the same moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Calibration {
    /// In ticks, comparable with timestamps of all queues of the device.
    pub(crate) device: u64,
    pub(crate) host_ns: u64,
}

impl Calibrator {
    pub(super) fn new(
        extension: CalibratedTimestamps,
        instance: &ash::Instance,
        device: &ash::Device,
    ) -> Self {
        match extension {
            CalibratedTimestamps::Khr => {
                Self::Khr(khr::calibrated_timestamps::Device::new(instance, device))
            }
            CalibratedTimestamps::Ext => {
                Self::Ext(ext::calibrated_timestamps::Device::new(instance, device))
            }
        }
    }

    /// Reads both clocks. Also returns the largest distance between the reads, in nanoseconds.
    fn read(&self) -> Result<(Calibration, u64), Code> {
        let domains = [vk::TimeDomainKHR::DEVICE, HOST];
        let infos =
            domains.map(|domain| vk::CalibratedTimestampInfoKHR::default().time_domain(domain));
        // SAFETY: the device is alive, and supports both clocks.
        let read = unsafe {
            match self {
                Self::Khr(functions) => functions.get_calibrated_timestamps(&infos),
                Self::Ext(functions) => functions.get_calibrated_timestamps(&infos),
            }
        };
        let (values, deviation_ns) = read.map_err(Code::of("vkGetCalibratedTimestamps"))?;
        let calibration = Calibration {
            device: values[0],
            host_ns: nanoseconds(values[1]),
        };
        Ok((calibration, deviation_ns))
    }

    /// Reads both clocks at moments as close as a few attempts give.
    pub(super) fn closest(&self) -> Result<Calibration, Code> {
        let (mut best, mut deviation_ns) = self.read()?;
        for _ in 1..ATTEMPTS {
            if deviation_ns <= DEVIATION_NS {
                break;
            }
            let (other, other_ns) = self.read()?;
            if other_ns < deviation_ns {
                (best, deviation_ns) = (other, other_ns);
            }
        }
        Ok(best)
    }
}

/// Converts a value of the host's clock.
#[cfg(not(windows))]
fn nanoseconds(value: u64) -> u64 {
    value
}

/// Converts a value of the host's clock.
#[cfg(windows)]
fn nanoseconds(value: u64) -> u64 {
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn QueryPerformanceFrequency(frequency: *mut i64) -> i32;
    }
    let mut frequency = 0_i64;
    // SAFETY: the pointer is valid. The call cannot fail on supported versions of Windows.
    unsafe { QueryPerformanceFrequency(&raw mut frequency) };
    let frequency = u128::try_from(frequency).unwrap_or(1).max(1);
    (u128::from(value) * 1_000_000_000 / frequency) as u64
}
