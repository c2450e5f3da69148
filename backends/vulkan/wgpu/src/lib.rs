//! millstream on the device of a [`wgpu`] application, such as a game on Bevy.
//!
//! wgpu and millstream use one device of Vulkan, so buffers go from one to the other without a copy. Semaphores of the
//! device order their work; the processor does not wait.
//!
//! ```no_run
//! use millstream::{Device, DeviceOptions, Vulkan, update};
//! use millstream_wgpu::{AdoptWgpu, WgpuLink, WgpuSetup};
//!
//! # fn f(adapter: &wgpu::Adapter) -> Result<(), Box<dyn std::error::Error>> {
//! // 1. Create wgpu's device with what millstream needs.
//! let setup = WgpuSetup::new();
//! let (device, queue) = setup.request_device(adapter, &wgpu::DeviceDescriptor::default())?;
//! // 2. Open a device of millstream on it.
//! // SAFETY: this thread alone submits to the queue and drives the device.
//! let options = unsafe { Vulkan::adopt_wgpu(&device, &queue, &setup) }?;
//! let (ours, mut driver) = Device::open_driven(options, DeviceOptions::default())?;
//! let stream = ours.new_client().new_stream();
//! let points = stream.create(&vec![0.0_f32; 4_000_000])?;
//! // 3. Use a slice in wgpu.
//! let link = WgpuLink::new(&device, &queue)?;
//! let vertices = link.buffer(&stream, &points, wgpu::BufferUsages::VERTEX)?;
//! loop {
//!     link.acquire(&stream, update(&points))?; // tasks from here on run after what wgpu has submitted
//!     // .. tasks of `stream` that change `points` ..
//!     link.release(&stream, update(&points))?; // what wgpu submits from here on runs after these tasks
//!     // .. wgpu draws `vertices` ..
//! #   let _ = &vertices; break;
//! }
//! # let _ = &mut driver;
//! # Ok(()) }
//! ```
//!
//! # Queues
//! A queue of Vulkan must not be used by two threads at a time, and wgpu's lock of its queue is not accessible. So:
//!
//! | the device has | [`WgpuSetup::has_own_queues`] | open millstream with |
//! | --- | --- | --- |
//! | more queues than wgpu uses | `true` | [`Device::open`]: it runs beside wgpu, also on the GPU |
//! | one queue | `false` | [`Device::open_driven`]: it submits on the thread that calls it |
//!
//! [`Device::open`]: millstream::Device::open
//! [`Device::open_driven`]: millstream::Device::open_driven
//!
//! # Versions
//! wgpu has a major release every few months. This crate is apart from `millstream`, so that those change this crate's
//! version only. It re-exports the [`wgpu`] that it fits.
//!
//! | module | contents |
//! | --- | --- |
//! | `setup` | creating wgpu's device, adopting it |
//! | `link` | shared buffers, and the order between wgpu and streams |

mod error;
mod link;
mod setup;

pub use error::WgpuError;
pub use link::WgpuLink;
pub use setup::{AdoptWgpu, WgpuSetup};
pub use wgpu;
