//! millstream on the GPU device of a [Bevy](bevy) app: its compute tasks run on the device on which Bevy draws, and the
//! buffers that they fill are drawn without a copy.
//!
//! ```no_run
//! use bevy::prelude::*;
//! use bevy::render::RenderApp;
//! use bevy_millstream::{Compute, Millstream, MillstreamPlugin};
//!
//! fn simulate(millstream: Res<Millstream>) {
//!     // tasks of `millstream.client()`, between `millstream.link().acquire(..)` and `.release(..)`
//! }
//!
//! let mut app = App::new();
//! app.add_plugins(MillstreamPlugin); // before the plugin that creates the renderer
//! app.add_plugins(MinimalPlugins); // or `DefaultPlugins`
//! if let Some(render) = app.get_sub_app_mut(RenderApp) {
//!     render.add_systems(Compute, simulate);
//! }
//! ```
//! The device of millstream is opened in Bevy's `RenderStartup`, and so again after Bevy has recovered from a lost device.
//! Systems of the schedule [`Compute`] run in the render world, once per frame, before Bevy submits the frame.
//!
//! # Where to wait
//! On a GPU with one queue, millstream submits to Bevy's queue, which only one thread may use at a time
//! ([`Millstream::is_driven`]). Then call millstream, and wait for its answers, only in systems of [`Compute`], which run
//! one after another while Bevy submits nothing. On other GPUs any system may.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bevy::ecs::schedule::{ScheduleLabel, SingleThreadedExecutor};
use bevy::prelude::*;
use bevy::render::renderer::raw_vulkan_init::RawVulkanInitSettings;
use bevy::render::renderer::{RenderDevice, RenderGraph, RenderGraphSystems, RenderQueue};
use bevy::render::{RenderApp, RenderStartup};
use millstream::Driver;
use millstream::{ComputeClient, Device, DeviceOptions, Vulkan};
use millstream_wgpu::{AdoptWgpu, WgpuLink, WgpuSetup};

/// Opens a device of millstream on the device of Bevy. Add it before the plugin that creates the renderer
/// (`DefaultPlugins`). Needs Vulkan: without it an error is logged, and there is no [`Millstream`].
pub struct MillstreamPlugin;

/// The schedule for compute tasks. Its systems run one after another, once per frame, before Bevy submits the frame.
#[derive(ScheduleLabel, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Compute;

/// The device of millstream. A resource of the render world.
#[derive(Resource)]
pub struct Millstream {
    client: ComputeClient,
    link: WgpuLink,
    device: Device,
    /// `Some` if millstream shares Bevy's queue.
    driver: Option<Mutex<Driver>>,
}

/// What Bevy's device was created with.
#[derive(Resource, Clone)]
struct Setup(WgpuSetup);

impl Millstream {
    /// Returns the client of the plugin. For clients of your own, with limits or priorities, see [`Millstream::device`].
    pub fn client(&self) -> &ComputeClient {
        &self.client
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the link between streams and Bevy's queue: shared buffers, and their order.
    pub fn link(&self) -> &WgpuLink {
        &self.link
    }

    /// Returns `true` if millstream shares Bevy's queue, and so may be used only in systems of [`Compute`].
    pub fn is_driven(&self) -> bool {
        self.driver.is_some()
    }

    fn open(
        device: &RenderDevice,
        queue: &RenderQueue,
        setup: &WgpuSetup,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let device = device.wgpu_device();
        // SAFETY: the schedule `Compute` runs within the exclusive system that submits the frame, and systems elsewhere
        // must not call millstream if it shares the queue.
        let options = unsafe { Vulkan::adopt_wgpu(device, queue, setup) }?;
        let link = WgpuLink::new(device, queue)?;
        let (device, driver) = match setup.has_own_queues() {
            true => (Device::open(options)?, None),
            false => {
                let (device, driver) = Device::open_driven(options, DeviceOptions::default())?;
                (device, Some(Mutex::new(driver)))
            }
        };
        Ok(Self {
            client: device.new_client(),
            link,
            device,
            driver,
        })
    }
}

impl Plugin for MillstreamPlugin {
    fn build(&self, app: &mut App) {
        let setup = WgpuSetup::new();
        app.insert_resource(Setup(setup.clone()));
        let mut settings = app
            .world_mut()
            .get_resource_or_init::<RawVulkanInitSettings>();
        // SAFETY: the setup only adds what the device has. The settings hold it while Bevy creates the device.
        unsafe {
            settings
                .add_create_device_callback(move |args, adapter, _| setup.enable(args, adapter));
        }
    }

    fn finish(&self, app: &mut App) {
        let setup = app.world().resource::<Setup>().clone();
        let Some(render) = app.get_sub_app_mut(RenderApp) else {
            error!(
                "millstream needs Bevy's renderer: add a plugin that creates it after `MillstreamPlugin`"
            );
            return;
        };
        render
            .insert_resource(setup)
            .edit_schedule(Compute, |schedule| {
                schedule.set_executor(SingleThreadedExecutor::new());
            })
            .add_systems(RenderStartup, open)
            .add_systems(RenderGraph, compute.in_set(RenderGraphSystems::Begin));
    }
}

/// Opens the device. Runs each time Bevy has a new device.
fn open(
    mut commands: Commands,
    device: Res<RenderDevice>,
    queue: Res<RenderQueue>,
    setup: Res<Setup>,
) {
    match Millstream::open(&device, &queue, &setup.0) {
        Ok(millstream) => commands.insert_resource(millstream),
        Err(error) => {
            error!("millstream cannot use Bevy's device: {error}");
            commands.remove_resource::<Millstream>();
        }
    }
}

/// Runs the schedule [`Compute`], and completes what the GPU has completed.
fn compute(world: &mut World) {
    if !world.contains_resource::<Millstream>() {
        return;
    }
    world.run_schedule(Compute);
    if let Some(driver) = &world.resource::<Millstream>().driver {
        let mut driver = driver.lock().unwrap_or_else(PoisonError::into_inner);
        driver.pump(Duration::ZERO);
    }
}
