//! Shared parts of devices whose memory is host memory: resources, kernels that a CPU runs, copies, and checks of
//! launches.
//!
//! The executors of programs are crates of their own: `tile`, which takes the feature of this name, and `lockstep`.

mod launch;
#[cfg(not(feature = "tile"))]
mod no_tile;
mod program;
mod properties;
mod resources;
mod transfer;
mod user_code;

pub use launch::{
    MAX_CUBES, check_copy, check_counts, check_launch, check_pattern, count_cubes, counts_of,
    foreign_kernel, read_counts, view_of,
};
#[cfg(feature = "tile")]
pub use millstream_tile::{Code, RunError, Team};
#[cfg(not(feature = "tile"))]
pub use no_tile::{Code, RunError, Team};
pub use program::{Arguments, Body, catch_panic, launch_failure};
pub use properties::{ALIGNMENT, BINDINGS_MAX, PITCH_ALIGNMENT, QUEUE_DEPTH_MAX, features};
pub use resources::{Elements, ElementsMut, HostResources, ResourceError};
pub use transfer::Transfer;
pub use user_code::{discard_panic, run_custom};
