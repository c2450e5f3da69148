//! The pipeline cache: what the driver has compiled, kept on disk between processes. A file is keyed by device and
//! driver; a damaged one is replaced.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ash::vk;
use millstream_gpu::{CacheContents, CacheFile, cache_folder, hex};

use super::{Code, Context};

/// The files of the cache.
const FILE: CacheFile = CacheFile(b"MSVKPIP1");
/// The extension of their names.
const EXTENSION: &str = "pipelines";
/// A cache of more bytes than this is not written.
const BYTES_MAX: usize = 256 << 20;

/// Reports on this user's pipeline cache, for all devices and drivers. Returns `None` if the system has no cache folder
/// for the user. Reads each file, which takes some milliseconds.
pub fn cached_pipelines() -> Option<CacheContents> {
    cache_folder("vulkan").map(|folder| FILE.survey(folder, EXTENSION))
}

/// A pipeline cache, written to its file on drop if pipelines were added.
pub(crate) struct PipelineCache {
    context: Arc<Context>,
    raw: vk::PipelineCache,
    /// `None` if the cache is not kept.
    path: Option<PathBuf>,
    has_changed: AtomicBool,
}

impl PipelineCache {
    /// Creates the cache from its file in `folder`, or an empty one.
    pub(crate) fn new(context: &Arc<Context>, folder: Option<&Path>) -> Result<Self, Code> {
        let name = || format!("{}.{EXTENSION}", hex(&context.gpu.cache_key));
        let path = folder.map(|folder| folder.join(name()));
        let known = path.as_deref().and_then(|path| FILE.read(path));
        let info = vk::PipelineCacheCreateInfo::default();
        let device = &context.device;
        // SAFETY: the info is valid. The driver checks the header of the data; the digest of the file has shown that it
        // is what a driver with this key wrote.
        let created = unsafe {
            match &known {
                Some(data) => device.create_pipeline_cache(&info.initial_data(data), None),
                None => device.create_pipeline_cache(&info, None),
            }
        };
        Ok(Self {
            context: context.clone(),
            raw: created.map_err(Code::of("vkCreatePipelineCache"))?,
            path,
            has_changed: AtomicBool::new(false),
        })
    }

    /// Returns the cache for the creation of a pipeline, which is added to it.
    pub(crate) fn for_creation(&self) -> vk::PipelineCache {
        // Relaxed: read by the drop, which comes after all other uses.
        self.has_changed.store(true, Ordering::Relaxed);
        self.raw
    }

    /// Writes the cache to its file.
    fn write(&self, path: &Path) {
        // SAFETY: the cache is alive.
        let data = unsafe { self.context.device.get_pipeline_cache_data(self.raw) };
        let Ok(data) = data else { return };
        if data.len() > BYTES_MAX {
            return;
        }
        // Another process may have written the same pipelines meanwhile.
        if FILE.read(path).is_some_and(|known| known == data) {
            return;
        }
        if let Err(error) = FILE.write(path, &data) {
            tracing::warn!(target: "millstream::vulkan", path = %path.display(), %error, "cannot write the pipeline cache");
        }
    }
}

impl Drop for PipelineCache {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && *self.has_changed.get_mut()
        {
            self.write(path);
        }
        // SAFETY: created once, destroyed once; no pipeline is being created.
        unsafe { self.context.device.destroy_pipeline_cache(self.raw, None) };
    }
}
