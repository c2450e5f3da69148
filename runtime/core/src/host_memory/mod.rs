//! What backends share whose device memory is the host's: strided copies, native kernels, resources.
//!
//! | module | what it is |
//! | --- | --- |
//! | `block` | memory of the host as a page |
//! | `resources` | [`HostResources`]: what a custom task and a guard are given |
//! | `strided` | where the bytes of a copy go, checked against the memory that is really there |
//! | `native` | choosing a kernel's source, checking launches, counting cubes |

mod block;
mod native;
mod resources;
mod strided;

pub use block::Block;
pub use native::{
    HostSource, MAX_CUBES, check_launch, count_cubes, host_source, panic_message, read_counts,
};
pub use resources::{HostResources, ResourceError};
pub use strided::{Misfit, check_layout, for_each_run};
