//! Devices: closing, driving, and what they report.

use std::ffi::c_char;
use std::sync::Arc;
use std::time::Duration;

use millstream::{Device, Driver, Health};

use crate::exclusive::Exclusive;
use crate::handles::{destroy, get, give, objects};
use crate::pending::{self, ms_pending};
use crate::sized::{give_text, sized, write_struct};
use crate::status::{exports, write};

/// A device: one GPU, or the processor. Any thread may use it.
pub struct ms_device(pub(crate) Arc<Device>);

/// Runs a driven device. Any thread may pump, one at a time.
pub struct ms_driver(pub(crate) Exclusive<Driver>);

objects!(ms_device: 1, ms_driver: 2);

/// Whether a device can be used.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ms_health {
    /// It accepts tasks.
    Running = 0,
    /// It was lost. `ms_device_reopen` may open it again.
    Lost = 1,
    /// It was closed.
    Closed = 2,
}

/// Properties of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_device_properties {
    /// `sizeof(ms_device_properties)`. Set it before the call.
    pub size: u32,
    /// The number of queues.
    pub queues: u32,
    /// The number of threads or multiprocessors that run the cubes of one launch.
    pub compute_units: u32,
    /// The most bindings of one launch.
    pub max_bindings: u32,
    /// The most cubes of a launch along x, y and z.
    pub max_cubes: [u32; 3],
    /// 0.
    pub reserved: u32,
    /// Every buffer that is not a slice starts at a multiple of this, in bytes.
    pub alignment: u64,
    /// The memory that the device can allocate, in bytes. 0 if it is not known.
    pub memory_bytes: u64,
    /// The largest single buffer, in bytes.
    pub max_buffer_bytes: u64,
}

sized!(ms_device_properties: 56, ms_close_report: 32);

/// What was left when a device was closed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_close_report {
    /// `sizeof(ms_close_report)`. Set it before the call.
    pub size: u32,
    /// 1 if all work completed within the timeout.
    pub drained: u32,
    /// Tasks that were accepted and never began.
    pub tasks_left: u64,
    /// Bytes of device memory that were not returned.
    pub bytes_left: u64,
    /// Threads of the device that have not ended.
    pub threads_left: u64,
}

exports! {
    /// Opens a device again that was lost (`MS_STATUS_LOST`). Clients stay valid; buffers, kernels, streams and
    /// recordings of before the loss do not. Blocks.
    ///
    /// Errors: `INVALID_ARGUMENT` if the device is not lost; `UNAVAILABLE` if this process cannot open it again.
    fn ms_device_reopen(device: *const ms_device) {
        get(device)?.0.clone().reopen()?;
        Ok(())
    }

    /// Closes a device: it finishes what was accepted, as far as the timeout permits, and accepts nothing more. Blocks
    /// until then. `report` may be NULL. A second close reports zeros.
    fn ms_device_close(device: *const ms_device, timeout_ns: u64, report: *mut ms_close_report) {
        let device = get(device)?.0.clone();
        let closed = device.close(Duration::from_nanos(timeout_ns));
        if report.is_null() {
            return Ok(());
        }
        write_struct(report, &ms_close_report {
            size: 0, drained: closed.drained.into(), tasks_left: closed.tasks_left,
            bytes_left: closed.bytes_left, threads_left: closed.threads_left,
        })
    }

    /// Closes a device if it is open, and destroys the handle. Blocks until its work has completed; `ms_device_close`
    /// has a timeout. In a callback it only begins the close. NULL is fine.
    fn ms_device_destroy(device: *mut ms_device) {
        destroy(device)
    }

    /// Gives a pending answer that arrives once everything that was submitted to the device before has completed.
    fn ms_device_sync(device: *const ms_device, out: *mut *mut ms_pending) {
        give(out, || pending::unit(get(device)?.0.clone().sync()))
    }

    /// Reports the properties of a device. Never blocks.
    fn ms_device_get_properties(device: *const ms_device, out: *mut ms_device_properties) {
        let known = get(device)?.0.properties();
        write_struct(out, &ms_device_properties {
            size: 0, reserved: 0, queues: known.queues as u32,
            compute_units: known.compute_units as u32,
            max_bindings: u32::try_from(known.max_bindings).unwrap_or(u32::MAX),
            max_cubes: known.max_cube_count, alignment: known.alignment,
            memory_bytes: known.memory_bytes.unwrap_or(0),
            max_buffer_bytes: known.max_allocation_bytes,
        })
    }

    /// Copies the name of a device, in UTF-8, and a NUL to `buffer`. `needed`, if it is not NULL, receives the bytes
    /// that both take. Never blocks.
    ///
    /// Errors: `MS_STATUS_TOO_SMALL`: `capacity` is less than that; `buffer` may be NULL if `capacity` is 0.
    fn ms_device_get_name(
        device: *const ms_device, buffer: *mut c_char, capacity: usize, needed: *mut usize,
    ) {
        give_text(&get(device)?.0.properties().name, buffer, capacity, needed)
    }

    /// Reports whether the device can be used. Never blocks.
    fn ms_device_get_health(device: *const ms_device, out: *mut ms_health) {
        let health = match get(device)?.0.health() {
            Health::Running { .. } => ms_health::Running,
            Health::Lost { .. } => ms_health::Lost,
            _ => ms_health::Closed,
        };
        write(out, health)
    }

    /// Runs a driven device on this thread, until there is nothing to do or `budget_ns` is over. A kernel that has
    /// begun is not interrupted. Callbacks that are due run within the budget, on this thread, outside of the device.
    /// `more`, if it is not NULL, receives whether there may be more to do: with a GPU that still works, the answer is
    /// true.
    ///
    /// Errors: `MS_STATUS_BUSY` if another thread pumps, and in a callback.
    fn ms_pump(driver: *const ms_driver, budget_ns: u64, more: *mut bool) {
        let budget = Duration::from_nanos(budget_ns);
        let has_more = get(driver)?.0.clone().with(|driver| Ok(driver.pump(budget)))?;
        if !more.is_null() {
            more.write(has_more);
        }
        Ok(())
    }

    /// Finishes what can finish, closes the driven device and destroys the handle. Blocks meanwhile. NULL is fine.
    fn ms_driver_destroy(driver: *mut ms_driver) {
        destroy(driver)
    }
}
