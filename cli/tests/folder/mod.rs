//! A folder for each test, and the program in it: its exit code, standard output and files.
#![allow(dead_code, reason = "no program of tests uses all of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use millstream_picture::{Picture, Rgb};
use serde_json::Value;

/// The folder of one test, below the build's temporary folder.
pub(crate) struct Folder(PathBuf);

/// The exit code of a command, and what it has printed.
#[derive(Debug)]
pub(crate) struct Ended {
    code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        // An earlier run may have left the folder.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("in")).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.file(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// Writes a photograph into the folder `in`.
    pub(crate) fn photograph(&self, name: &str, width: u32, height: u32) {
        let pixel = |x, y| Rgb([(x * 7) as u8, (y * 5) as u8, (x * y) as u8]);
        let picture = Picture::from_fn(width, height, pixel);
        picture.save(self.file("in").join(name)).unwrap();
    }

    /// Runs a command in the folder. Its arguments are separated by blanks.
    pub(crate) fn run(&self, arguments: &str) -> Ended {
        let mut program = Command::new(env!("CARGO_BIN_EXE_millstream"));
        // A driver of Vulkan may be in another root; then this test was started by a script, which also starts the program.
        if let Some(script) = std::env::var_os("MILLSTREAM_VULKAN_RUN") {
            program = Command::new(script);
            program.arg(env!("CARGO_BIN_EXE_millstream"));
        }
        program.current_dir(&self.0).args(arguments.split(' '));
        // The caches of this test, not the user's.
        program.env("XDG_CACHE_HOME", &self.0);
        #[cfg(feature = "vulkan")]
        if millstream::vulkan::Vulkan::is_validation_installed() {
            // The layer prints its messages to standard output, where they make the JSON invalid.
            program.env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation");
        }
        let output = program.output().unwrap();
        Ended {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs the demo from `in` to `out`.
    pub(crate) fn demo(&self, options: &str) -> Ended {
        self.run(&format!("demo --input in --output out {options}"))
    }
}

impl Ended {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Asserts that standard output has these parts.
    #[track_caller]
    pub(crate) fn prints(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.out.contains(part), "`{part}` is missing in {self:?}");
        }
    }

    /// Asserts a usage error with these parts.
    #[track_caller]
    pub(crate) fn refuses(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.err.contains(part), "`{part}` is missing in {self:?}");
        }
        self.with(2)
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
