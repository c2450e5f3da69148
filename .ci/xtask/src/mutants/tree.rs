//! The copy of the workspace that patches are applied to, below `target`.
//!
//! The copy shares the target folder with the workspace. Cargo records the sources of its crates by their paths below the
//! target folder, and would later take a crate of the copy for one of the workspace without looking at the workspace's
//! sources. So the drop of a [`Tree`] makes Cargo forget what was built in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{output, root};

/// The folder of the copy, below the target folder.
const FOLDER: &str = "mutants/tree";

/// A copy of all files that Git does not ignore.
pub(crate) struct Tree {
    folder: PathBuf,
}

impl Tree {
    /// Updates the copy. Unchanged files are not written, so that Cargo rebuilds as little as possible.
    pub(super) fn copy() -> Result<Self, String> {
        let tree = Self {
            folder: root().join("target").join(FOLDER),
        };
        let mut list = Command::new("git");
        list.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
        let listed = output(list.current_dir(root()))?;
        let mut stale = tree.files().unwrap_or_default();
        for name in listed.lines().filter(|name| root().join(name).is_file()) {
            stale.retain(|known| known != name);
            tree.copy_file(name)
                .map_err(|error| format!("{name}: {error}"))?;
        }
        for name in stale {
            fs::remove_file(tree.folder.join(&name)).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(tree)
    }

    pub(super) fn folder(&self) -> &PathBuf {
        &self.folder
    }

    /// Checks whether a patch applies.
    pub(super) fn check(&self, patch: &Path) -> Result<(), String> {
        self.git_apply(patch, &["--check"])
    }

    /// Applies a patch.
    pub(super) fn apply(&self, patch: &Path) -> Result<(), String> {
        self.git_apply(patch, &[])
    }

    /// Reverses a patch.
    pub(super) fn restore(&self, patch: &Path) -> Result<(), String> {
        self.git_apply(patch, &["--reverse"])
    }

    fn git_apply(&self, patch: &Path, options: &[&str]) -> Result<(), String> {
        let mut command = Command::new("git");
        command.arg("apply").args(options).arg(patch);
        // Hides the workspace's repository, in which Git would skip files of the ignored folder `target`.
        command.env("GIT_CEILING_DIRECTORIES", root().join("target/mutants"));
        command.env_remove("GIT_DIR").current_dir(&self.folder);
        let ended = command.output().map_err(|error| error.to_string())?;
        match ended.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&ended.stderr).trim().to_owned()),
        }
    }

    /// Removes the fingerprints of the crates that were built in the copy.
    fn forget_builds() -> io::Result<()> {
        let source = format!("{FOLDER}/");
        let is_of_copy = |file: fs::DirEntry| {
            // `dep-lib-x` lists the sources of a crate.
            let is_list = file.file_name().to_string_lossy().starts_with("dep-");
            let list = fs::read(file.path()).unwrap_or_default();
            is_list && String::from_utf8_lossy(&list).contains(&source)
        };
        for profile in fs::read_dir(root().join("target"))? {
            let Ok(crates) = fs::read_dir(profile?.path().join(".fingerprint")) else {
                continue;
            };
            for folder in crates {
                let folder = folder?.path();
                if fs::read_dir(&folder)?.flatten().any(is_of_copy) {
                    fs::remove_dir_all(folder)?;
                }
            }
        }
        Ok(())
    }

    fn copy_file(&self, name: &str) -> io::Result<()> {
        let (from, to) = (root().join(name), self.folder.join(name));
        let bytes = fs::read(&from)?;
        if fs::read(&to).is_ok_and(|existing| existing == bytes) {
            return Ok(());
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        // `fs::copy` keeps permissions, which scripts need.
        fs::copy(from, to).map(drop)
    }

    /// Returns the files of the copy, as paths relative to its folder.
    fn files(&self) -> io::Result<Vec<String>> {
        let (mut folders, mut files) = (vec![self.folder.clone()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(name) = path.strip_prefix(&self.folder) {
                    files.push(name.to_string_lossy().into_owned());
                }
            }
        }
        Ok(files)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Err(error) = Self::forget_builds() {
            println!(
                "builds of mutants may be taken for those of the workspace: {error}; run `cargo clean`"
            );
        }
    }
}

/// Returns the commit that is checked out.
pub(super) fn commit() -> Result<String, String> {
    let mut command = Command::new("git");
    output(command.args(["rev-parse", "HEAD"]).current_dir(root()))
}
