//! Opens a device, with threads or driven.

use std::sync::Arc;

use millstream_client::DeviceEpochs;
use millstream_protocol::{DeviceOptions, HealthState, Open, OpenError};
use millstream_sync::facade::{Mutex, THREADS};

use crate::device::Device;
use crate::driver::Driver;
use crate::epoch::open_epoch;
use crate::executor::closing::EpochEnd;
use crate::reopen::reopen_fn;

impl Device {
    /// Opens a device with the default options. Blocks while the backend opens it.
    ///
    /// # Errors
    /// [`OpenError`]: what is missing, and what to do about it.
    pub fn open<O: Open>(kind: O) -> Result<Self, OpenError> {
        Self::open_with(kind, DeviceOptions::default())
    }

    /// Opens a device. Blocks while the backend opens it.
    ///
    /// # Errors
    /// [`OpenError`]: what is missing, and what to do about it; an option that is out of range.
    pub fn open_with<O: Open>(kind: O, options: DeviceOptions) -> Result<Self, OpenError> {
        let span = tracing::info_span!(target: "millstream", "open");
        let _entered = span.enter();
        if !THREADS {
            let (mut device, driver) = Self::open_driven(kind, options)?;
            device.driver = Some(driver);
            return Ok(device);
        }
        Self::open_epochs(kind, options, false)
    }

    /// Opens a driven device: it starts no thread, and its owner runs it with [`Driver::pump`]. Blocks while the
    /// backend opens it.
    ///
    /// # Errors
    /// Same as [`Device::open_with`].
    pub fn open_driven<O: Open>(
        kind: O,
        options: DeviceOptions,
    ) -> Result<(Self, Driver), OpenError> {
        let device = Self::open_epochs(kind, options, true)?;
        let health_state = device.epochs.health_state().clone();
        let driver = Driver::new(device.running.clone(), health_state);
        Ok((device, driver))
    }

    fn open_epochs<O: Open>(
        kind: O,
        options: DeviceOptions,
        driven: bool,
    ) -> Result<Self, OpenError> {
        let health_state = Arc::new(HealthState::default());
        let reopen_fn = reopen_fn(&kind);
        let end = EpochEnd::of(0, &health_state);
        let opened = open_epoch(kind, &options, driven, end, None)?;
        Ok(Self {
            epochs: DeviceEpochs::new(opened.shared, health_state),
            options,
            running: Arc::new(Mutex::new(opened.running)),
            driver: None,
            reopen_fn: Mutex::new(reopen_fn),
        })
    }
}
