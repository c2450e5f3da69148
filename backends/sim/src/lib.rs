//! An adversary that behaves as badly as a device may, and notices when it is not treated as one must.
//!
//! [`Sim`] is a device like the CPU or a GPU, for tests: of the runtime, and of programs that use it. Native
//! kernels really run, on host memory, but in any order that waits permit, chosen by a seed.
//!
//! ```
//! use millstream_actors::Device;
//! use millstream_protocol::options::DeviceOptions;
//! use millstream_sim::Sim;
//!
//! let sim = Sim::seed(7);
//! let findings = sim.findings();
//! let (device, driver) = Device::open_driven(sim, DeviceOptions::default())?;
//! let stream = device.new_client().new_stream();
//! let values = stream.create(&[1_u32, 2, 3])?;
//! assert_eq!(stream.read(&values).wait()?, [1, 2, 3]);
//! drop((stream, values, driver, device));
//! findings.assert_clean();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does
//! - **Order.** A call only queues. Step by step, the seed chooses a queue that may go on, and whether it runs its next
//!   task or publishes some of what it ran. In a driven device steps are done by whoever pumps: the same seed is the
//!   same run, as [`Figures::fingerprint`] shows. Otherwise one thread steps.
//! - **Memory.** What nobody defined reads as a pattern: in a fresh slice, and after its end. `Write` bindings
//!   are made anything before their task runs, since it is to define every byte.
//! - **Checks.** Every task is checked when it is issued, see [`Violation`]. Waits that were of no use are counted.
//! - **Virtual time.** Work costs what the [`CostModel`] says, so that schedules can be judged; [`Sim::punctual`] takes
//!   steps in its order.
//! - **Faults.** Calls fail as [`Faults`] plans it, and the device is lost at a call or while a task runs; a lost one ends
//!   its timelines at once, and can be opened again, as the next epoch of the same seed; [`Holds`] hold queues; [`Sim::slow`] makes them slow.
//!
//! # What it does not
//! One task runs at a time: kernels of different queues interleave, but do not overlap. A task that waits in user
//! code for another queue therefore waits for ever.
//!
//! | module | what it is |
//! | --- | --- |
//! | `options`, `opening` | [`Sim`]: what can be chosen; opening it |
//! | `device` | [`SimDevice`]: the [`Backend`](millstream_protocol::backend::Backend), which queues |
//! | `shared`, `state` | what calls and steps share, behind one lock |
//! | `step`, `stepper` | one step: what is chosen and done; the thread that steps |
//! | `entry`, `run`, `cubes` | one task: as it lies in a queue, from its inputs' poison to its outputs, its cubes |
//! | `kernel`, `compiler` | a compiled kernel, and how it becomes one |
//! | `memory` | pages, slices and patterns |
//! | `checker`, `coverage` | what is found, pure: clocks, accesses, slices; elements that a launch left out |
//! | `timing`, `cost` | virtual time |
//! | `faults` | what goes wrong, and when |
//! | `findings` | the handles that a user keeps |
//! | `resources` | what a custom task and a guard are given |
//! | `ranges`, `random` | a value for every byte; chance |

mod checker;
mod compiler;
mod cost;
mod coverage;
mod cubes;
mod device;
mod entry;
mod faults;
mod findings;
mod kernel;
mod memory;
mod opening;
mod options;
mod random;
mod ranges;
mod resources;
mod run;
mod shared;
mod state;
mod step;
mod stepper;
mod timing;

pub use checker::{Bytes, Place, Touch, Violation, Waits};
pub use cost::CostModel;
pub use device::SimDevice;
pub use faults::{Call, Faults};
pub use findings::{Figures, Findings, Holds};
pub use options::{Checks, Sim};
pub use resources::SimResources;
