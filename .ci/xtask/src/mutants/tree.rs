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
        let folder = root().join("target").join(FOLDER);
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        // With indexes of its own, so that the workspace's index stays as it is.
        let git = |index: &str, arguments: &[&str]| {
            let mut command = Command::new("git");
            command.env("GIT_INDEX_FILE", folder.with_file_name(index));
            output(command.args(arguments).current_dir(root()))
        };
        git("files", &["add", "--all"])?;
        let files = git("files", &["write-tree"])?;
        let copy = format!("--work-tree={}", folder.display());
        git("copied", &[&copy, "read-tree", "--reset", "-u", &files])?;
        Ok(Self { folder })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Applies a patch. `options` are those of `git apply`: `--check` only checks it, `--reverse` reverts it.
    pub(super) fn apply(&self, patch: &Path, options: &[&str]) -> Result<(), String> {
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

    /// Removes the fingerprints of the crates that were built in the copy below a target folder, in any profile.
    fn forget_builds(target: &Path) -> io::Result<()> {
        let source = format!("{FOLDER}/");
        let is_of_copy = |file: fs::DirEntry| {
            // `dep-lib-x` lists the sources of a crate.
            let is_list = file.file_name().to_string_lossy().starts_with("dep-");
            let list = fs::read(file.path()).unwrap_or_default();
            is_list && String::from_utf8_lossy(&list).contains(&source)
        };
        for profile in fs::read_dir(target)? {
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
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Err(error) = Self::forget_builds(&root().join("target")) {
            println!(
                "builds of mutants may be taken for those of the workspace: {error}; run `cargo clean`"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::Cargo;

    /// The models once ran a mistake: the workspace's sources are older than the build of the patched copy.
    #[test]
    fn workspace_is_built_again_after_a_patched_copy() {
        let name = format!("millstream-tree-{}", std::process::id());
        let workspace = std::env::temp_dir().join(name);
        let target = workspace.join("target");
        let copy = target.join(FOLDER);
        let manifest =
            "workspace = {}\nprofile.models.inherits = \"dev\"\npackage.name = \"says\"\n";
        let write = |folder: &Path, says: &str| {
            fs::create_dir_all(folder.join("src")).unwrap();
            fs::write(folder.join("Cargo.toml"), manifest).unwrap();
            let source = format!("fn main() {{ print!({says:?}) }}");
            fs::write(folder.join("src/main.rs"), source).unwrap();
        };
        let run = |folder: &Path| {
            let mut command = Cargo::default().command("run --quiet --offline --profile models");
            command.current_dir(folder).env("CARGO_TARGET_DIR", &target);
            output(&mut command).unwrap()
        };
        let said = [(&workspace, "right"), (&copy, "wrong")].map(|(folder, says)| {
            write(folder, says);
            run(folder)
        });
        Tree::forget_builds(&target).unwrap();
        let says = run(&workspace);
        // Nothing depends on the folder any more.
        _ = fs::remove_dir_all(&workspace);
        assert_eq!(
            (said, &*says),
            (["right", "wrong"].map(str::to_owned), "right")
        );
    }
}
