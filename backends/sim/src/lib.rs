//! A simulated device for tests that behaves as badly as the backend contract allows, and checks that its caller
//! keeps that contract.
//!
//! [`Sim`] stands in for the CPU or a GPU in tests of the runtime and of programs that use it. Kernels really run, on host
//! memory, in any order that the issued waits permit; a seed chooses the order.
//!
//! ```
//! use millstream_actors::Device;
//! use millstream_protocol::DeviceOptions;
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
//! - **Order.** A backend call only queues work. At each step the seed chooses a queue that can make progress, and
//!   whether it runs its next task or publishes some of its completed tasks. A driven device runs its steps on the
//!   thread that pumps it, so the same seed gives the same run ([`Figures::fingerprint`] verifies this). Otherwise
//!   one thread runs the steps.
//! - **Memory.** Undefined bytes of a fresh slice read as a pattern. If tasks were queued on its page, they keep their old
//!   contents until the first task that changes them. `Write` bindings are overwritten with random bytes before their task
//!   runs, because the task must define every byte.
//! - **Checks.** Every task is checked when it is issued, see [`Violation`]. Needless waits are counted, see
//!   [`Waits`].
//! - **Kernels.** A kernel in Rust, or any other function of the IR, runs thread by thread, in an order of the seed. Races
//!   between its threads, accesses out of bounds and barriers that only some threads reach end its launch with a
//!   [`KernelMistake`], which names the element, the lines and the threads. So the task fails, its outputs are poisoned, and
//!   the [`Findings`] have the mistake. Of a kernel with several sources the program is preferred, since nothing sees what a
//!   closure does. [`Checks::Off`] looks for no races.
//! - **Virtual time.** Work takes as long as the [`CostModel`] says, so schedules can be compared. With
//!   [`Sim::punctual`] the steps run in the order of virtual time.
//! - **Faults.** Calls fail as [`Faults`] plans, and the device can be lost at a call or while a task runs. A lost
//!   device ends its timelines at once and can be reopened, as the next epoch of the same seed. [`Holds`] stop
//!   queues, and [`Sim::slow`] slows them down.
//!
//! # What it does not do
//! One task runs at a time: kernels of different queues interleave but do not overlap. A task whose user code waits
//! for another queue therefore never returns.
//!
//! | module | contents |
//! | --- | --- |
//! | `options`, `opening` | [`Sim`]: its options; opening a device |
//! | `device` | [`SimDevice`]: the [`Backend`](millstream_protocol::Backend), which queues work |
//! | `shared`, `state` | what calls and steps share, behind one lock; what a custom task and a guard receive |
//! | `step`, `stepper` | one step: how it is chosen and run; the thread that runs steps |
//! | `entry`, `run`, `cubes` | one task: its queue entry; from its inputs' poison to its outputs; its cubes |
//! | `threads` | functions of the IR, thread by thread; races between threads |
//! | `kernel`, `compiler` | a compiled kernel, and its compiler |
//! | `memory` | pages, slices and patterns |
//! | `checker`, `coverage` | the checks: clocks, accesses, slices; elements that a launch did not store |
//! | `timing`, `cost`, `clock` | virtual time; the handle of its owner |
//! | `faults` | the plan of faults |
//! | `findings` | the handles that the user keeps |
//! | `ranges`, `random` | a value for every byte; random numbers |

mod checker;
mod clock;
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
mod run;
mod shared;
mod state;
mod step;
mod stepper;
mod threads;
mod timing;

pub use crate::shared::SimResources;
pub use checker::{AccessSite, Bytes, Touch, Violation, Waits};
pub use clock::Clock;
pub use cost::{CostModel, KernelCost};
pub use device::SimDevice;
pub use faults::{Call, Faults};
pub use findings::{Figures, Findings, Holds};
pub use options::{Checks, Sim};
pub use threads::{AccessKind, KernelMistake, SourceLine, ThreadAccess};
