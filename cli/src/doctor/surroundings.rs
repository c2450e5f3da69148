//! What devices use of the machine: the libraries for CUDA GPUs, the loader and the layer of Vulkan, and the folders
//! that store what was compiled or tuned.

use std::fmt::Display;
use std::path::Path;

use millstream::{cuda as gpu, tune};
use serde_json::{Value, json};

use crate::units::{bytes, counted};

/// Facts as sentences, and as members of the JSON object.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) sentences: Vec<String>,
    pub(super) values: Vec<(&'static str, Value)>,
}

impl Facts {
    pub(super) fn extend(&mut self, other: Self) {
        self.sentences.extend(other.sentences);
        self.values.extend(other.values);
    }

    /// Adds a library, or why it is missing. `key` is its own name in the JSON.
    fn library(
        &mut self,
        (member, key): (&'static str, &str),
        found: Result<String, impl Display>,
        does: &str,
    ) {
        let (sentence, value) = match found {
            Ok(version) => (does.replace("{}", &version), json!({ key: version })),
            Err(error) => (format!("{error}."), json!({ "missing": error.to_string() })),
        };
        self.sentences.push(sentence);
        self.values.push((member, value));
    }

    /// Adds a sentence about a folder that stores results.
    fn folder(&mut self, folder: &Path, kept: &str, total: u64, damaged: usize) {
        let damaged = match damaged {
            0 => String::new(),
            damaged => format!("; {damaged} of them damaged, replaced when next used"),
        };
        let (total, folder) = (bytes(total), folder.display());
        self.sentences
            .push(format!("{kept} ({total}) in `{folder}`{damaged}."));
    }

    fn no_folder(&mut self, what: &str, option: &str) {
        self.sentences.push(format!(
            "{what} are not stored: neither XDG_CACHE_HOME nor HOME names a folder; set one of them, or use `{option}`."
        ));
    }
}

/// Describes the libraries for CUDA GPUs, and the stored kernels.
pub(super) fn cuda() -> Facts {
    let dotted = |version: usize| {
        let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
        format!("{major}.{minor}.{patch}")
    };
    let mut facts = Facts::default();
    let compiler = gpu::compiler().map(|(major, minor)| format!("{major}.{minor}"));
    facts.library(("compiler", "nvrtc"), compiler, "NVRTC {} compiles CUDA C.");
    let products = gpu::product_library().map(dotted);
    let does = "cuBLASLt {} computes large products.";
    facts.library(("products", "cublaslt"), products, does);
    let collectives = gpu::collective_library().map(dotted);
    let does = "NCCL {} runs collectives of several GPUs.";
    facts.library(("collectives", "nccl"), collectives, does);
    match gpu::cached_kernels() {
        Some(kept) => {
            let (files, damaged) = (kept.files, kept.damaged);
            let value = json!({
                "folder": kept.folder, "kept": files, "bytes": kept.bytes, "damaged": damaged,
            });
            facts.values.push(("kernels", value));
            let files = counted(files, "compiled kernel");
            facts.folder(&kept.folder, &files, kept.bytes, damaged);
        }
        None => facts.no_folder("compiled kernels", "Cuda::kernel_cache"),
    }
    facts
}

/// Describes the stored choices of the tuner.
pub(super) fn stored_choices() -> Facts {
    let mut facts = Facts::default();
    match tune::stored_choices() {
        Some(kept) => {
            let (choices, damaged) = (kept.choices, kept.damaged);
            let value = json!({
                "folder": kept.folder, "files": kept.files, "choices": choices, "bytes": kept.bytes, "damaged": damaged,
            });
            facts.values.push(("choices", value));
            let choices = counted(choices, "tuned choice");
            facts.folder(&kept.folder, &choices, kept.bytes, damaged);
        }
        None => facts.no_folder("tuned choices", "FileStore::new"),
    }
    facts
}

/// Describes the Vulkan loader, its GPUs, the validation layer and the pipeline cache.
#[cfg(feature = "vulkan")]
pub(super) fn vulkan(gpus: &[millstream::vulkan::GpuInfo]) -> Facts {
    use millstream::vulkan::{Vulkan, cached_pipelines, loader_version};
    let mut facts = Facts::default();
    let loader = loader_version().ok();
    if let Some(version) = &loader {
        facts.sentences.push(format!("Vulkan loader {version}."));
    }
    for gpu in gpus {
        let lacks = match gpu.lacks.as_slice() {
            [] => String::new(),
            lacks => format!("; it cannot be opened: it lacks {}", lacks.join(", ")),
        };
        facts.sentences.push(format!(
            "vulkan:{} is `{}`: driver {}, Vulkan {}, {}, {} for compute{lacks}.",
            gpu.ordinal,
            gpu.name,
            gpu.driver,
            gpu.version,
            bytes(gpu.memory_bytes),
            counted(gpu.queues, "queue"),
        ));
    }
    let pipelines = cached_pipelines();
    match &pipelines {
        Some(kept) => {
            let files = counted(kept.files, "file") + " of compiled pipelines";
            facts.folder(&kept.folder, &files, kept.bytes, kept.damaged);
        }
        None => facts.no_folder("compiled pipelines", "Vulkan::pipeline_cache"),
    }
    let validation = Vulkan::is_validation_installed();
    facts.sentences.push(match validation {
        true => "The Vulkan validation layer is installed.".to_owned(),
        false => {
            "The Vulkan validation layer is not installed; only `Vulkan::validation` needs it."
                .to_owned()
        }
    });
    let pipelines = pipelines.map(|kept| {
        json!({ "folder": kept.folder, "files": kept.files, "bytes": kept.bytes, "damaged": kept.damaged })
    });
    let gpus = gpus.iter().map(|gpu| {
        json!({
            "ordinal": gpu.ordinal, "name": gpu.name, "driver": gpu.driver, "version": gpu.version,
            "memory_bytes": gpu.memory_bytes, "queues": gpu.queues, "lacks": gpu.lacks,
        })
    });
    let value = json!({
        "gpus": gpus.collect::<Vec<_>>(), "validation": validation, "loader": loader, "pipelines": pipelines,
    });
    facts.values.push(("vulkan", value));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_library_and_damaged_files_are_explained() {
        let mut facts = Facts::default();
        facts.library(
            ("compiler", "nvrtc"),
            Ok::<_, String>("13.0".into()),
            "NVRTC {} compiles.",
        );
        facts.library(("products", "cublaslt"), Err("no library"), "");
        facts.folder(Path::new("/cache"), "3 kernels", 2048, 1);
        assert_eq!(facts.values[0].1["nvrtc"], "13.0");
        assert_eq!(facts.values[1].1["missing"], "no library");
        assert_eq!(
            facts.sentences,
            [
                "NVRTC 13.0 compiles.",
                "no library.",
                "3 kernels (2.0 KiB) in `/cache`; 1 of them damaged, replaced when next used."
            ]
        );
    }
}
