//! What the Vulkan loader offers: its version, its GPUs and the validation layer; and the pipeline cache.

use std::fmt;
use std::path::PathBuf;

use millstream::Vulkan;
use millstream::vulkan::{GpuInfo, cached_pipelines, loader_version};
use serde::Serialize;

use crate::units::{bytes, counted};

/// The GPUs of the loader.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Loader {
    /// Empty if there is no loader or no GPU; the device's row then has the reason.
    gpus: Vec<Gpu>,
    /// Whether Khronos' validation layer is installed.
    validation: bool,
    /// The version of Vulkan that the loader supports.
    loader: Option<String>,
    pipelines: Option<Pipelines>,
}

/// The pipeline cache.
#[derive(Debug, Serialize)]
struct Pipelines {
    folder: PathBuf,
    files: usize,
    bytes: u64,
    damaged: usize,
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
            loader: loader_version().ok(),
            pipelines: cached_pipelines().map(|kept| Pipelines {
                folder: kept.folder,
                files: kept.files,
                bytes: kept.bytes,
                damaged: kept.damaged,
            }),
        }
    }
}

impl fmt::Display for Loader {
    /// One line each for the loader, each GPU, the pipeline cache and the layer, or nothing without a GPU.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.gpus.is_empty() {
            return Ok(());
        }
        if let Some(version) = &self.loader {
            writeln!(f, "- Vulkan loader {version}.")?;
        }
        self.gpus.iter().try_for_each(|gpu| writeln!(f, "{gpu}"))?;
        match &self.pipelines {
            Some(pipelines) => writeln!(f, "{pipelines}")?,
            None => writeln!(
                f,
                "- compiled pipelines are not stored: neither XDG_CACHE_HOME nor HOME names a folder; set one of them, or use `Vulkan::pipeline_cache`."
            )?,
        }
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

impl fmt::Display for Pipelines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "- {} of compiled pipelines ({}) in `{}`",
            counted(self.files, "file"),
            bytes(self.bytes),
            self.folder.display()
        )?;
        match self.damaged {
            0 => f.write_str("."),
            damaged => write!(f, "; {damaged} of them damaged, replaced when next used."),
        }
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
            loader: Some("1.4.309".into()),
            pipelines: Some(Pipelines {
                folder: "/cache".into(),
                files: 2,
                bytes: 2048,
                damaged: 1,
            }),
        }
    }

    #[test]
    fn gpus_are_listed_with_what_they_lack() {
        let text = two().to_string();
        for part in [
            "- vulkan:0 is `a GPU`: driver some driver 1.2, Vulkan 1.3, 4.00 GiB, 2 queues for compute.\n",
            "it cannot be opened: it lacks Vulkan 1.2, int64.\n",
            "not installed",
            "- Vulkan loader 1.4.309.\n",
            "- 2 files of compiled pipelines (2.0 KiB) in `/cache`; 1 of them damaged, replaced when next used.\n",
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        assert_eq!(Loader::default().to_string(), "");
    }
}
