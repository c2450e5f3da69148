//! The tree that mutants are made in: a copy of ours, below `target`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{output, root};

/// A copy of the files that Git knows, or would.
pub(crate) struct Tree {
    folder: PathBuf,
}

impl Tree {
    /// Copies what differs from the copy that is there, so that Cargo builds no more than it must.
    pub(super) fn copy() -> Result<Self, String> {
        let tree = Self {
            folder: root().join("target/mutants/tree"),
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

    /// Would a patch apply?
    pub(super) fn check(&self, patch: &Path) -> Result<(), String> {
        self.git_apply(patch, &["--check"])
    }

    /// Applies a patch.
    pub(super) fn apply(&self, patch: &Path) -> Result<(), String> {
        self.git_apply(patch, &[])
    }

    /// Takes a patch back.
    pub(super) fn restore(&self, patch: &Path) -> Result<(), String> {
        self.git_apply(patch, &["--reverse"])
    }

    fn git_apply(&self, patch: &Path, options: &[&str]) -> Result<(), String> {
        let mut command = Command::new("git");
        command.arg("apply").args(options).arg(patch);
        // Not in our repository, where it would leave out what lies in an ignored folder.
        command.env("GIT_CEILING_DIRECTORIES", root().join("target/mutants"));
        command.env_remove("GIT_DIR").current_dir(&self.folder);
        let ended = command.output().map_err(|error| error.to_string())?;
        match ended.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&ended.stderr).trim().to_owned()),
        }
    }

    fn copy_file(&self, name: &str) -> io::Result<()> {
        let (from, to) = (root().join(name), self.folder.join(name));
        let bytes = fs::read(&from)?;
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            return Ok(());
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        // With its permissions: there are scripts.
        fs::copy(from, to).map(drop)
    }

    /// What is there, by paths from its folder.
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

/// The commit that is checked out.
pub(super) fn commit() -> Result<String, String> {
    let mut command = Command::new("git");
    output(command.args(["rev-parse", "HEAD"]).current_dir(root()))
}
