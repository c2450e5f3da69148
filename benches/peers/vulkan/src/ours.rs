//! Millstream's side.

use std::time::Duration;

use millstream::vulkan::{AdoptedDevice, Vulkan, VulkanLaunch};
use millstream::{
    CubeCount, Device, DeviceOptions, Driver, Handle, Kernel, KernelHandle, Recording, Stream,
    update,
};

use crate::WORDS;
use crate::error::BenchError;
use crate::raw::{Gpu, SPIRV};

/// The timeout of the device's close.
const PATIENCE: Duration = Duration::from_secs(30);

/// A device with the kernel. Closed on drop.
pub(crate) struct Ours {
    device: Device,
    kernel: KernelHandle,
    /// The driver of a device without threads, which waiting callers run.
    driver: Option<Driver>,
}

impl Ours {
    /// Opens the first GPU with default options.
    pub(crate) fn open() -> Result<Self, BenchError> {
        Self::on(Device::open(Vulkan::ordinal(0))?, None)
    }

    /// Opens the first GPU as a driven device: callers that wait run it on their own thread.
    pub(crate) fn open_driven() -> Result<Self, BenchError> {
        let options = DeviceOptions::default();
        let (device, driver) = Device::open_driven(Vulkan::ordinal(0), options)?;
        Self::on(device, Some(driver))
    }

    /// Adopts the raw side's device, whose calls are counted.
    pub(crate) fn adopt(gpu: &Gpu, device: &ash::Device) -> Result<Self, BenchError> {
        let adopted = AdoptedDevice::new(
            gpu.instance.clone(),
            gpu.physical,
            device.clone(),
            gpu.adoptable(),
        );
        // SAFETY: the device has the features that the raw side needs, which are those that the backend needs; the
        // caller drops our side before the raw one, and uses the queues of only one side at a time.
        let options = unsafe { Vulkan::adopt(adopted) };
        Self::on(Device::open(options.queues(2))?, None)
    }

    fn on(device: Device, driver: Option<Driver>) -> Result<Self, BenchError> {
        let kernel = Kernel::new("add_one")
            .updates::<u32>("values")
            .scalar::<u32>("n")
            .spirv(SPIRV.to_vec())
            .with(VulkanLaunch::default());
        let kernel = device.new_client().kernel(kernel)?;
        Ok(Self {
            device,
            kernel,
            driver,
        })
    }

    pub(crate) fn stream(&self) -> Stream {
        self.device.new_client().new_stream()
    }

    /// Returns two streams of one client.
    pub(crate) fn streams(&self) -> [Stream; 2] {
        let client = self.device.new_client();
        [client.new_stream(), client.new_stream()]
    }

    /// Adds 1 to the words.
    #[inline]
    pub(crate) fn launch(&self, stream: &Stream, values: &Handle<u32>) -> Result<(), BenchError> {
        let arguments = (update(values), WORDS as u32);
        Ok(stream.launch(&self.kernel, CubeCount::single(), arguments)?)
    }

    /// Records a plan of `launches` dependent launches.
    pub(crate) fn record(
        &self,
        stream: &Stream,
        launches: usize,
        values: &Handle<u32>,
    ) -> Result<Recording, BenchError> {
        let recorded = stream.record(|recorder| {
            (0..launches).try_for_each(|_| {
                let arguments = (update(values), WORDS as u32);
                recorder.launch(&self.kernel, CubeCount::single(), arguments)
            })
        });
        Ok(recorded?)
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        // A driven device closes when its driver is dropped.
        if self.driver.is_none() {
            self.device.close(PATIENCE);
        }
    }
}
