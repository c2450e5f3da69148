//! A temporary folder for one test.

use std::fs;
use std::path::{Path, PathBuf};

use image::{Rgb, RgbImage};

/// A temporary folder, removed on drop.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Creates the folder. `name` is unique among the tests; the process id makes it unique among runs.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("millstream-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a small photograph into the folder.
    pub(crate) fn photograph(&self, name: &str, width: u32, height: u32) {
        RgbImage::from_fn(width, height, |x, y| Rgb([x as u8, y as u8, 7]))
            .save(self.0.join(name))
            .unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that remains in the temporary directory does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}
