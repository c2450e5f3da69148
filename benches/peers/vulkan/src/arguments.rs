//! The command line.

use std::path::PathBuf;

use clap::Parser;

const NEEDS: &str = "\
Needs a Vulkan loader (libvulkan.so.1) and a driver with Vulkan 1.3; the software driver lavapipe suffices. All sides
use the first GPU that the loader lists; VK_DRIVER_FILES selects the driver. Build with --release, and close other
programs: the sides are sampled in turn, but a busy machine still widens the spread.";

/// Compares millstream on Vulkan with raw calls of the driver (`ash`) and with wgpu, in one run.
#[derive(Debug, Parser)]
#[command(name = "millstream-peers-vulkan", version, after_help = NEEDS)]
pub(crate) struct Arguments {
    /// Also writes all figures, with their spread, to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Measures only the groups whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,

    /// The number of rounds; figures are medians over them.
    #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,
}
