//! What devices share whose memory is the host's: resources, native kernels, and choosing what of a kernel a CPU runs.

mod native;
mod resources;

pub use native::{HostSource, MAX_CUBES, check_launch, count_cubes, host_source, read_counts};
pub use resources::{HostResources, ResourceError};
