//! A folder of its own for a test, removed when the test ends.

use std::fs;
use std::path::{Path, PathBuf};

use image::{Rgb, RgbImage};

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// `name` is unique among the tests; the process id keeps runs apart.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("millstream-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Puts a small photograph into the folder.
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
        // Left-overs in the temporary folder harm nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}
