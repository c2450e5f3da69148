//! Calibration: the clocks of the device and of the host, read at the same moment.

use std::ffi::CStr;

use ash::{ext, khr, vk};

use super::{Code, has};

/// The clock of the host: the one that `std::time::Instant` reads.
#[cfg(not(windows))]
const HOST: vk::TimeDomainKHR = vk::TimeDomainKHR::CLOCK_MONOTONIC;
#[cfg(windows)]
const HOST: vk::TimeDomainKHR = vk::TimeDomainKHR::QUERY_PERFORMANCE_COUNTER;

/// More clocks than there are.
const DOMAINS_MAX: u32 = 16;

/// A calibration this close needs no second attempt, in nanoseconds.
const DEVIATION_NS: u64 = 5_000;

/// The most attempts for a close calibration: the thread may be preempted between the reads of the clocks.
const ATTEMPTS: usize = 3;

/// The names of the extension that reads both clocks, the preferred one first, each with the function that lists the
/// clocks.
const EXTENSIONS: [(&CStr, &CStr); 2] = [
    (
        khr::calibrated_timestamps::NAME,
        c"vkGetPhysicalDeviceCalibrateableTimeDomainsKHR",
    ),
    (
        ext::calibrated_timestamps::NAME,
        c"vkGetPhysicalDeviceCalibrateableTimeDomainsEXT",
    ),
];

/// Returns which of these extensions of a GPU reads its clock and that of the host; `None` if there is none.
pub(super) fn calibration_among(
    extensions: &[vk::ExtensionProperties],
    entry: &ash::Entry,
    instance: &ash::Instance,
    gpu: vk::PhysicalDevice,
) -> Option<&'static CStr> {
    let has_clocks = |list: &CStr| {
        // SAFETY: the instance is alive, and the name ends with a zero.
        let list = unsafe { entry.get_instance_proc_addr(instance.handle(), list.as_ptr()) };
        // SAFETY: the function with this name, of either extension, has this type.
        let list: Option<vk::PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsKHR> =
            unsafe { std::mem::transmute(list) };
        let (mut count, mut domains) = (
            DOMAINS_MAX,
            [vk::TimeDomainKHR::default(); DOMAINS_MAX as usize],
        );
        // SAFETY: the GPU belongs to the instance, and has the extension; the list has room for `count` clocks.
        let listed = list.map(|list| unsafe { list(gpu, &raw mut count, domains.as_mut_ptr()) });
        let needed = [vk::TimeDomainKHR::DEVICE, HOST];
        listed.is_some_and(|result| result.as_raw() >= 0)
            && needed
                .iter()
                .all(|domain| domains[..count as usize].contains(domain))
    };
    let found = EXTENSIONS
        .iter()
        .find(|(name, list)| has(extensions, name) && has_clocks(list));
    found.map(|(name, _)| *name)
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
) -> Option<&'static CStr> {
    // SAFETY: the GPU belongs to the instance, as the caller guarantees.
    let extensions = unsafe { instance.enumerate_device_extension_properties(physical) };
    calibration_among(&extensions.ok()?, entry, instance, physical)
}

/// The function of the extension, of a device that has enabled it.
pub(super) struct Calibrator {
    device: vk::Device,
    get: vk::PFN_vkGetCalibratedTimestampsKHR,
}

/// The values of both clocks at the same moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Calibration {
    /// In ticks, comparable with timestamps of all queues of the device.
    pub(crate) device: u64,
    pub(crate) host_ns: u64,
}

impl Calibrator {
    /// Returns the function of a device; `None` if the device has not enabled the extension.
    pub(super) fn new(instance: &ash::Instance, device: &ash::Device) -> Option<Self> {
        let names = [
            c"vkGetCalibratedTimestampsKHR",
            c"vkGetCalibratedTimestampsEXT",
        ];
        let get = names.into_iter().find_map(|name| {
            // SAFETY: the device is alive, and the name ends with a zero.
            unsafe { instance.get_device_proc_addr(device.handle(), name.as_ptr()) }
        })?;
        Some(Self {
            device: device.handle(),
            // SAFETY: the functions with these names have this type.
            get: unsafe {
                std::mem::transmute::<
                    unsafe extern "system" fn(),
                    vk::PFN_vkGetCalibratedTimestampsKHR,
                >(get)
            },
        })
    }

    /// Reads both clocks. Also returns the largest distance between the reads, in nanoseconds.
    fn read(&self) -> Result<(Calibration, u64), Code> {
        let domains = [vk::TimeDomainKHR::DEVICE, HOST];
        let infos =
            domains.map(|domain| vk::CalibratedTimestampInfoKHR::default().time_domain(domain));
        let (mut values, mut deviation_ns) = ([0; 2], 0);
        // SAFETY: the device is alive, and supports both clocks; the lists have two entries each.
        unsafe {
            let (values, deviation) = (values.as_mut_ptr(), &raw mut deviation_ns);
            (self.get)(self.device, 2, infos.as_ptr(), values, deviation)
        }
        .result()
        .map_err(Code::of("vkGetCalibratedTimestamps"))?;
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
