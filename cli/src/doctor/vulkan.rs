//! What the Vulkan loader offers: its GPUs, and the validation layer.

use std::fmt;

use millstream::Vulkan;
use millstream::vulkan::GpuInfo;
use serde::Serialize;

use crate::units::{bytes, counted};

/// The GPUs of the loader.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Loader {
    /// Empty if there is no loader or no GPU; the device's row then has the reason.
    gpus: Vec<Gpu>,
    /// Whether Khronos' validation layer is installed.
    validation: bool,
}

#[derive(Debug, Serialize)]
struct Gpu {
    ordinal: usize,
    name: String,
    driver: String,
    version: String,
    memory_bytes: u64,
    /// The queues of the driver that support compute.
    queues: usize,
    /// What the GPU lacks for millstream; empty if it can be opened.
    lacks: Vec<&'static str>,
}

impl Loader {
    /// Describes these GPUs, and looks for the validation layer.
    pub(crate) fn of(gpus: &[GpuInfo]) -> Self {
        let gpus = gpus.iter().map(|gpu| Gpu {
            ordinal: gpu.ordinal,
            name: gpu.name.clone(),
            driver: gpu.driver.clone(),
            version: gpu.version.clone(),
            memory_bytes: gpu.memory_bytes,
            queues: gpu.queues,
            lacks: gpu.lacks.clone(),
        });
        Self {
            gpus: gpus.collect(),
            validation: Vulkan::is_validation_installed(),
        }
    }
}

impl fmt::Display for Loader {
    /// One line for each GPU and one for the layer, or nothing without a GPU.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.gpus.is_empty() {
            return Ok(());
        }
        self.gpus.iter().try_for_each(|gpu| writeln!(f, "{gpu}"))?;
        writeln!(
            f,
            "{}",
            match self.validation {
                true => "- The Vulkan validation layer is installed.",
                false =>
                    "- The Vulkan validation layer is not installed; only `Vulkan::validation` needs it.",
            }
        )
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "- vulkan:{} is `{}`: driver {}, Vulkan {}, {}, {} for compute",
            self.ordinal,
            self.name,
            self.driver,
            self.version,
            bytes(self.memory_bytes),
            counted(self.queues, "queue"),
        )?;
        match self.lacks.as_slice() {
            [] => f.write_str("."),
            lacks => write!(f, "; it cannot be opened: it lacks {}.", lacks.join(", ")),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::doctor) fn two() -> Loader {
        let gpu = |ordinal, name: &str, lacks| Gpu {
            ordinal,
            name: name.into(),
            driver: "some driver 1.2".into(),
            version: "1.3".into(),
            memory_bytes: 4 << 30,
            queues: 2,
            lacks,
        };
        Loader {
            gpus: vec![
                gpu(0, "a GPU", vec![]),
                gpu(1, "an old GPU", vec!["Vulkan 1.2", "int64"]),
            ],
            validation: false,
        }
    }

    #[test]
    fn gpus_are_listed_with_what_they_lack() {
        let text = two().to_string();
        for part in [
            "- vulkan:0 is `a GPU`: driver some driver 1.2, Vulkan 1.3, 4.00 GiB, 2 queues for compute.\n",
            "it cannot be opened: it lacks Vulkan 1.2, int64.\n",
            "not installed",
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        assert_eq!(Loader::default().to_string(), "");
    }
}
