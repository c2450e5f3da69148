//! The devices that a command can name: `cpu`, `sim`, `cuda`, `cuda:1`, `vulkan`, `vulkan:1`.

use std::fmt;
use std::str::FromStr;

use millstream::sim::Sim;
use millstream::{Cpu, Cuda, Device, DeviceOptions};
use serde::{Serialize, Serializer};

use crate::exit::CommandError;

/// The seed of the simulator; any value works.
const SIM_SEED: u64 = 7;

/// A device, by the name of its backend and its ordinal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceName {
    /// The processor.
    Cpu,
    /// The NVIDIA GPU with this ordinal.
    Cuda(usize),
    /// The GPU with this ordinal of the Vulkan loader.
    Vulkan(usize),
    /// The simulator.
    Sim,
}

impl DeviceName {
    /// Opens the device, with this number of queues or the usual one.
    pub(crate) fn open(
        self,
        queues: Option<usize>,
        options: DeviceOptions,
    ) -> Result<Device, CommandError> {
        /// Sets the number of queues, if one is given.
        macro_rules! open {
            ($backend:expr) => {{
                let backend = $backend;
                Device::open_with(
                    match queues {
                        Some(queues) => backend.queues(queues),
                        None => backend,
                    },
                    options,
                )
            }};
        }
        let opened = match self {
            Self::Cpu => open!(Cpu::default()),
            Self::Sim => open!(Sim::seed(SIM_SEED)),
            Self::Cuda(ordinal) => open!(Cuda::ordinal(ordinal)),
            #[cfg(feature = "vulkan")]
            Self::Vulkan(ordinal) => open!(millstream::Vulkan::ordinal(ordinal)),
            #[cfg(not(feature = "vulkan"))]
            Self::Vulkan(_) => {
                let message = "this program was built without its feature `vulkan`";
                let next = "run `cargo run --release --features vulkan -- ...`";
                return Err(CommandError::usage(message.to_owned(), next, None));
            }
        };
        let next = "run `millstream doctor` to see what can be opened here, or try fewer --queues";
        opened.map_err(|source| CommandError::failure("the device cannot be opened", next, source))
    }
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let (backend, ordinal) = match name.split_once(':') {
            Some((backend, ordinal)) => (backend, ordinal.parse().ok()),
            None => (name, Some(0)),
        };
        match (backend, ordinal) {
            ("cpu", _) if name == backend => Ok(Self::Cpu),
            ("sim", _) if name == backend => Ok(Self::Sim),
            ("cuda", Some(ordinal)) => Ok(Self::Cuda(ordinal)),
            ("vulkan", Some(ordinal)) => Ok(Self::Vulkan(ordinal)),
            _ => Err("expected cpu, cuda, cuda:N, vulkan, vulkan:N or sim".to_owned()),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Sim => f.write_str("sim"),
            Self::Cuda(0) => f.write_str("cuda"),
            Self::Vulkan(0) => f.write_str("vulkan"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Vulkan(ordinal) => write!(f, "vulkan:{ordinal}"),
        }
    }
}

impl Serialize for DeviceName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_parsed_by_name_or_by_ordinal() {
        for (text, name) in [
            ("cpu", DeviceName::Cpu),
            ("sim", DeviceName::Sim),
            ("cuda", DeviceName::Cuda(0)),
            ("cuda:3", DeviceName::Cuda(3)),
            ("vulkan:1", DeviceName::Vulkan(1)),
        ] {
            assert_eq!(text.parse(), Ok(name));
            assert_eq!(name.to_string(), text);
        }
        for wrong in ["abacus", "cpu:0", "sim:1", "cuda:", "vulkan:x", "vulkan:-1"] {
            assert!(wrong.parse::<DeviceName>().is_err(), "{wrong}");
        }
    }
}
