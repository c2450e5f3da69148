//! Functions of modules.

use std::sync::Arc;

use ptx::Kernel;

/// Most threads of a block.
pub(crate) const THREADS_MAX: u32 = 1024;
/// Most shared memory of a block, by default and with the opt-in attribute.
const SHARED_MAX: u32 = 48 << 10;
const SHARED_MAX_OPT_IN: u32 = 227 << 10;
/// The GPU has this many multiprocessors.
pub(crate) const MULTIPROCESSORS: u32 = 4;
/// Most blocks of a cluster, on every GPU with clusters, and on this one if the function allows large clusters.
const CLUSTER_PORTABLE: u64 = 8;
const CLUSTER_MAX: u64 = 16;

/// A function of a module.
pub(crate) struct Function {
    /// The context in which its module was loaded.
    pub(crate) context: u64,
    pub(crate) kernel: Arc<Kernel>,
    /// Most dynamic shared memory of a launch in bytes.
    pub(crate) shared_max: u32,
    /// Whether clusters may be larger than the portable size.
    pub(crate) large_clusters: bool,
}

impl Function {
    pub(crate) fn new(context: u64, kernel: Arc<Kernel>) -> Self {
        let shared_max = SHARED_MAX.saturating_sub(kernel.shared_bytes as u32);
        Self {
            context,
            kernel,
            shared_max,
            large_clusters: false,
        }
    }

    /// Returns the most dynamic shared memory that `shared_max` may be set to.
    pub(crate) fn dynamic_shared_limit(&self) -> u32 {
        SHARED_MAX_OPT_IN.saturating_sub(self.kernel.shared_bytes as u32)
    }

    /// Returns the error of clusters of this size in a grid of `cubes` blocks, if any.
    pub(crate) fn cluster_error(&self, cluster: [u32; 3], cubes: [u32; 3]) -> Option<String> {
        let blocks: u64 = cluster.iter().map(|axis| u64::from(*axis)).product();
        let divides = |(axis, of): (&u32, &u32)| *axis > 0 && of.is_multiple_of(*axis);
        let most = match self.large_clusters {
            true => CLUSTER_MAX,
            false => CLUSTER_PORTABLE,
        };
        if !cluster.iter().zip(&cubes).all(divides) {
            Some(format!(
                "clusters of {cluster:?} blocks, which do not divide the grid of {cubes:?} blocks"
            ))
        } else if blocks > most {
            Some(format!(
                "clusters of {blocks} blocks, but the function allows at most {most}"
            ))
        } else {
            None
        }
    }
}
