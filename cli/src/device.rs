//! The devices that a command can name: `cpu`, `sim`, `cuda`, `cuda:1`, `vulkan`, `vulkan:1`.

use std::str::FromStr;

use millstream::sim::Sim;
use millstream::{Cpu, Cuda, Device, DeviceOptions};
use serde::Serialize;

use crate::exit::CommandError;

/// The seed of the simulator; any value works.
const SIM_SEED: u64 = 7;

/// A device, by the name of its backend and, of a GPU, its ordinal: `cpu`, `cuda:1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct DeviceName(String);

impl DeviceName {
    /// Returns the name of the backend and the ordinal, if that is a number.
    fn parts(&self) -> (&str, Option<usize>) {
        match self.0.split_once(':') {
            Some((backend, ordinal)) => (backend, ordinal.parse().ok()),
            None => (&self.0, Some(0)),
        }
    }

    /// Opens the device, with this number of queues or the usual one.
    pub(crate) fn open(
        &self,
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
        let (backend, ordinal) = self.parts();
        let ordinal = ordinal.unwrap_or_default();
        let opened = match backend {
            "cuda" => open!(Cuda::ordinal(ordinal)),
            #[cfg(feature = "vulkan")]
            "vulkan" => open!(millstream::Vulkan::ordinal(ordinal)),
            #[cfg(not(feature = "vulkan"))]
            "vulkan" => {
                let message = "this program was built without its feature `vulkan`";
                let next = "run `cargo run --release --features vulkan -- ...`";
                return Err(CommandError::usage(message.to_owned(), next, None));
            }
            "sim" => open!(Sim::seed(SIM_SEED)),
            _ => open!(Cpu::default()),
        };
        let next = "run `millstream doctor` to see what can be opened here, or try fewer --queues";
        opened.map_err(|source| CommandError::failure("the device cannot be opened", next, source))
    }
}

impl FromStr for DeviceName {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, &'static str> {
        let device = Self(name.to_owned());
        match device.parts() {
            ("cuda" | "vulkan", Some(_)) => Ok(device),
            ("cpu" | "sim", _) if !name.contains(':') => Ok(device),
            _ => Err("expected cpu, cuda, cuda:N, vulkan, vulkan:N or sim"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_parsed_by_name_or_by_ordinal() {
        for (name, parts) in [
            ("cpu", ("cpu", Some(0))),
            ("sim", ("sim", Some(0))),
            ("cuda", ("cuda", Some(0))),
            ("cuda:3", ("cuda", Some(3))),
            ("vulkan:1", ("vulkan", Some(1))),
        ] {
            assert_eq!(name.parse::<DeviceName>().unwrap().parts(), parts);
        }
        for wrong in ["abacus", "cpu:0", "sim:1", "cuda:", "vulkan:x", "vulkan:-1"] {
            assert!(wrong.parse::<DeviceName>().is_err(), "{wrong}");
        }
    }
}
