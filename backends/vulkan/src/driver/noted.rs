//! The results of the driver's calls for memory that the allocator makes. It passes most of them on as text, and whether
//! the device is lost must not depend on the words of a library.
//!
//! The allocator has a copy of the device's functions, in which those with such results are replaced: they call the real
//! ones and note a failure for the thread.

use std::cell::Cell;
use std::ffi::c_void;

use ash::vk;

use super::Code;

/// The real functions, while the allocator runs on a thread, and the failure to report.
#[derive(Clone, Copy)]
struct Notes {
    allocate: vk::PFN_vkAllocateMemory,
    map: vk::PFN_vkMapMemory,
    failure: Option<Code>,
}

thread_local! {
    static NOTES: Cell<Option<Notes>> = const { Cell::new(None) };
}

/// Returns a copy of the device for the allocator, which must call it only within [`noting`].
pub(super) fn noted(device: &ash::Device) -> ash::Device {
    let mut functions = device.fp_v1_0().clone();
    functions.allocate_memory = allocate_memory;
    functions.map_memory = map_memory;
    ash::Device::from_parts_1_3(
        device.handle(),
        functions,
        device.fp_v1_1().clone(),
        device.fp_v1_2().clone(),
        device.fp_v1_3().clone(),
    )
}

/// Calls `body`, which calls functions of [`noted`]. Also returns the failure of the driver's calls: a loss if there was
/// one, otherwise the last.
pub(super) fn noting<T>(
    functions: &ash::DeviceFnV1_0,
    body: impl FnOnce() -> T,
) -> (T, Option<Code>) {
    /// Ends the notes also if `body` panics.
    struct End(Option<Notes>);

    impl Drop for End {
        fn drop(&mut self) {
            NOTES.set(self.0);
        }
    }

    let end = End(NOTES.get());
    NOTES.set(Some(Notes {
        allocate: functions.allocate_memory,
        map: functions.map_memory,
        failure: None,
    }));
    let result = body();
    let failure = NOTES.get().and_then(|notes| notes.failure);
    drop(end);
    (result, failure)
}

/// Notes the result of a call.
fn note(call: &'static str, result: vk::Result) -> vk::Result {
    if let Some(mut notes) = NOTES.get()
        && result.as_raw() < 0
        && !notes.failure.is_some_and(Code::is_loss)
    {
        notes.failure = Some(Code { call, result });
        NOTES.set(Some(notes));
    }
    result
}

unsafe extern "system" fn allocate_memory(
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    let Some(notes) = NOTES.get() else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: as the caller guarantees.
    let result = unsafe { (notes.allocate)(device, info, allocator, memory) };
    note("vkAllocateMemory", result)
}

unsafe extern "system" fn map_memory(
    device: vk::Device,
    memory: vk::DeviceMemory,
    offset: vk::DeviceSize,
    bytes: vk::DeviceSize,
    flags: vk::MemoryMapFlags,
    place: *mut *mut c_void,
) -> vk::Result {
    let Some(notes) = NOTES.get() else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: as the caller guarantees.
    let result = unsafe { (notes.map)(device, memory, offset, bytes, flags, place) };
    note("vkMapMemory", result)
}

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};

    use super::*;

    unsafe extern "system" fn no_memory(
        _: vk::Device,
        _: *const vk::MemoryAllocateInfo<'_>,
        _: *const vk::AllocationCallbacks<'_>,
        _: *mut vk::DeviceMemory,
    ) -> vk::Result {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
    }

    unsafe extern "system" fn lost(
        _: vk::Device,
        _: vk::DeviceMemory,
        _: vk::DeviceSize,
        _: vk::DeviceSize,
        _: vk::MemoryMapFlags,
        _: *mut *mut c_void,
    ) -> vk::Result {
        vk::Result::ERROR_DEVICE_LOST
    }

    /// The functions of a device that has no memory and is lost when memory is mapped.
    fn functions() -> ash::DeviceFnV1_0 {
        let mut functions = ash::DeviceFnV1_0::load(|_| null());
        (functions.allocate_memory, functions.map_memory) = (no_memory, lost);
        functions
    }

    fn allocate() {
        // SAFETY: the function does not use its arguments.
        let _ = unsafe { allocate_memory(vk::Device::null(), null(), null(), null_mut()) };
    }

    fn map() {
        let (device, memory) = (vk::Device::null(), vk::DeviceMemory::null());
        // SAFETY: as above.
        let _ = unsafe {
            map_memory(
                device,
                memory,
                0,
                0,
                vk::MemoryMapFlags::empty(),
                null_mut(),
            )
        };
    }

    /// I5: a loss is known by the driver's result, whatever the allocator says and does afterwards.
    #[test]
    fn loss_is_noted_by_the_result_of_the_call_i5() {
        let functions = functions();
        let ((), none) = noting(&functions, || {});
        assert_eq!(none, None);
        let ((), full) = noting(&functions, allocate);
        assert!(full.is_some_and(|code| !code.is_loss() && code.call == "vkAllocateMemory"));
        let (_, failure) = noting(&functions, || (allocate(), map(), allocate()));
        assert!(failure.is_some_and(|code| code.is_loss() && code.call == "vkMapMemory"));
        // The next allocation begins anew.
        let ((), full) = noting(&functions, allocate);
        assert!(full.is_some_and(|code| !code.is_loss()));
    }
}
