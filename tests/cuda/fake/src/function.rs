//! Functions of modules, and what fits onto a multiprocessor.

use std::sync::Arc;

use ptx::Kernel;

/// Threads of a block, at most.
pub(crate) const THREADS_MAX: u32 = 1024;
/// Shared memory of a block without asking for more, and with.
const SHARED_MAX: u32 = 48 << 10;
const SHARED_MAX_ASKED: u32 = 227 << 10;
/// What a multiprocessor has. Of its shared memory each block takes a little for itself.
pub(crate) const MULTIPROCESSORS: u32 = 4;
const THREADS: u32 = 2048;
const BLOCKS: u32 = 32;
const REGISTERS: u32 = 65_536;
const SHARED: u32 = 228 << 10;
const SHARED_OF_A_BLOCK: u32 = 1 << 10;
const WARP: u32 = 32;
/// Every kernel is said to have so many registers: nothing here counts what a compiler would need.
pub(crate) const REGISTERS_OF_A_THREAD: u32 = 32;
/// Blocks of a cluster, on every GPU that has clusters, and on this one if the function allows that.
const CLUSTER_PORTABLE: u64 = 8;
const CLUSTER_MAX: u64 = 16;
/// How the blocks of clusters may be placed: default, spread, balanced.
pub(crate) const CLUSTER_POLICIES: u32 = 3;

/// A function of a module.
pub(crate) struct Function {
    /// The context that its module was loaded in.
    pub(crate) context: u64,
    pub(crate) kernel: Arc<Kernel>,
    /// Bytes of dynamic shared memory that launches may ask for.
    pub(crate) shared_max: u32,
    /// Clusters may have more blocks than every GPU allows.
    pub(crate) clusters_are_large: bool,
    /// How the blocks of clusters are placed: below [`CLUSTER_POLICIES`].
    pub(crate) cluster_policy: u32,
}

impl Function {
    pub(crate) fn new(context: u64, kernel: Arc<Kernel>) -> Self {
        let shared_max = SHARED_MAX.saturating_sub(kernel.shared_bytes as u32);
        Self {
            context,
            kernel,
            shared_max,
            clusters_are_large: false,
            cluster_policy: 0,
        }
    }

    /// Dynamic shared memory that may be asked for.
    pub(crate) fn shared_room(&self) -> u32 {
        SHARED_MAX_ASKED.saturating_sub(self.kernel.shared_bytes as u32)
    }

    /// How many blocks of this many threads one multiprocessor has room for.
    pub(crate) fn blocks_at_once(&self, threads: u32, shared_bytes: u32) -> u32 {
        if threads == 0 || threads > THREADS_MAX || shared_bytes > self.shared_room() {
            return 0;
        }
        let threads = threads.next_multiple_of(WARP);
        let shared = self.kernel.shared_bytes as u32 + shared_bytes + SHARED_OF_A_BLOCK;
        let registers = threads * REGISTERS_OF_A_THREAD;
        BLOCKS
            .min(THREADS / threads)
            .min(REGISTERS / registers)
            .min(SHARED / shared)
    }

    /// What is wrong with clusters of this size in a grid of that many blocks.
    pub(crate) fn wrong_cluster(&self, cluster: [u32; 3], cubes: [u32; 3]) -> Option<String> {
        let blocks: u64 = cluster.iter().map(|axis| u64::from(*axis)).product();
        let divides = |(axis, of): (&u32, &u32)| *axis > 0 && of.is_multiple_of(*axis);
        let most = match self.clusters_are_large {
            true => CLUSTER_MAX,
            false => CLUSTER_PORTABLE,
        };
        if !cluster.iter().zip(&cubes).all(divides) {
            Some(format!(
                "clusters of {cluster:?} blocks, which do not divide the grid of {cubes:?}"
            ))
        } else if blocks > most {
            Some(format!(
                "clusters of {blocks} blocks, of {most} that the function allows"
            ))
        } else {
            None
        }
    }
}
