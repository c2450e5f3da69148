//! What devices use of the machine: the libraries for CUDA GPUs, the loader and the layer of Vulkan, and the folders
//! that store what was compiled or tuned.

use std::fmt::Display;
use std::path::PathBuf;

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

    /// Adds a folder that stores results: its path, their number, their bytes, and how many are damaged. Without one,
    /// `option` would name it.
    fn stored(
        &mut self,
        member: &'static str,
        (noun, option): (&str, &str),
        kept: Option<(PathBuf, usize, u64, usize)>,
    ) {
        let Some((folder, kept, total, damaged)) = kept else {
            self.sentences.push(format!(
                "{noun}s are not stored: neither XDG_CACHE_HOME nor HOME names a folder; set one of them, or use `{option}`."
            ));
            return;
        };
        let of_them = match damaged {
            0 => String::new(),
            damaged => format!("; {damaged} of them damaged, replaced when next used"),
        };
        let (number, size) = (counted(kept, noun), bytes(total));
        let sentence = format!("{number} ({size}) in `{}`{of_them}.", folder.display());
        self.sentences.push(sentence);
        let value = json!({ "folder": folder, "kept": kept, "bytes": total, "damaged": damaged });
        self.values.push((member, value));
    }
}

/// Describes the libraries for CUDA GPUs, and the stored kernels.
pub(super) fn cuda(facts: &mut Facts) {
    let dotted = |version: usize| {
        let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
        format!("{major}.{minor}.{patch}")
    };
    let compiler = gpu::compiler().map(|(major, minor)| format!("{major}.{minor}"));
    facts.library(("compiler", "nvrtc"), compiler, "NVRTC {} compiles CUDA C.");
    let products = gpu::product_library().map(dotted);
    let does = "cuBLASLt {} computes large products.";
    facts.library(("products", "cublaslt"), products, does);
    let collectives = gpu::collective_library().map(dotted);
    let does = "NCCL {} runs collectives of several GPUs.";
    facts.library(("collectives", "nccl"), collectives, does);
    let kept = gpu::cached_kernels();
    let kept = kept.map(|kept| (kept.folder, kept.files, kept.bytes, kept.damaged));
    facts.stored("kernels", ("compiled kernel", "Cuda::kernel_cache"), kept);
}

/// Describes the stored choices of the tuner.
pub(super) fn stored_choices(facts: &mut Facts) {
    let kept = tune::stored_choices();
    let kept = kept.map(|kept| (kept.folder, kept.choices, kept.bytes, kept.damaged));
    facts.stored("choices", ("tuned choice", "FileStore::new"), kept);
}

/// Describes the Vulkan loader, its GPUs, the validation layer and the pipeline cache.
#[cfg(feature = "vulkan")]
pub(super) fn vulkan(facts: &mut Facts, gpus: &[millstream::vulkan::GpuInfo]) {
    use millstream::vulkan::{Vulkan, cached_pipelines, loader_version};
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
    let kept = cached_pipelines();
    let kept = kept.map(|kept| (kept.folder, kept.files, kept.bytes, kept.damaged));
    let names = ("pipeline file", "Vulkan::pipeline_cache");
    facts.stored("pipelines", names, kept);
    let validation = Vulkan::is_validation_installed();
    facts.sentences.push(match validation {
        true => "The Vulkan validation layer is installed.".to_owned(),
        false => {
            "The Vulkan validation layer is not installed; only `Vulkan::validation` needs it."
                .to_owned()
        }
    });
    let gpus = gpus.iter().map(|gpu| {
        json!({
            "ordinal": gpu.ordinal, "name": gpu.name, "driver": gpu.driver, "version": gpu.version,
            "memory_bytes": gpu.memory_bytes, "queues": gpu.queues, "lacks": gpu.lacks,
        })
    });
    let value = json!({
        "gpus": gpus.collect::<Vec<_>>(), "validation": validation, "loader": loader,
    });
    facts.values.push(("vulkan", value));
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
        let kept = ("/cache".into(), 3, 2048, 1);
        facts.stored("kernels", ("kernel", ""), Some(kept));
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
