//! The pipeline cache: what the driver has compiled, kept on disk between processes. A file is keyed by device and
//! driver; a damaged one is replaced.
//!
//! Vulkan requires that a cache begins with data that the same device and driver have returned, which a driver need not
//! check. Three checks stand in for that: the file system says that only this user can have written the file
//! ([`CacheFile`]), the digest says that it is as it was written, and the header names this device and driver.

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

/// Returns `true` if the data has the header of a pipeline cache (`VkPipelineCacheHeaderVersionOne`) of the device and the
/// driver with this key.
fn is_of(key: &[u8; 32], data: &[u8]) -> bool {
    const BYTES: usize = 32;
    let word = |place: usize| data.get(place..place + 4);
    let version = vk::PipelineCacheHeaderVersion::ONE.as_raw();
    data.len() >= BYTES
        && word(0) == Some(&(BYTES as u32).to_le_bytes())
        && word(4) == Some(&version.to_le_bytes())
        // The vendor and the device, then the identifier of the cache.
        && data[8..16] == key[16..24]
        && data[16..BYTES] == key[..16]
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
        let known = known.filter(|data| is_of(&context.gpu.cache_key, data));
        let info = vk::PipelineCacheCreateInfo::default();
        let device = &context.device;
        // SAFETY: the info is valid. The data is what a driver with this key returned to a process of this user, whom the
        // process trusts as much as its own files: the head of the module has the checks.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_another_device_or_driver_is_not_used() {
        let key: [u8; 32] = std::array::from_fn(|place| place as u8 + 1);
        let mut data = [32_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat();
        data.extend(&key[16..24]);
        data.extend(&key[..16]);
        assert!(is_of(&key, &data));
        data.extend(b"pipelines");
        assert!(is_of(&key, &data));
        for place in 0..32 {
            let mut other = data.clone();
            other[place] ^= 1;
            assert!(!is_of(&key, &other), "byte {place}");
            assert!(!is_of(&key, &data[..place]), "{place} bytes");
        }
    }
}
