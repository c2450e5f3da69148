//! A mutant: a patch, what it breaks, and what must find it.

use std::fs;
use std::path::{Path, PathBuf};

use super::finder::Finder;

/// A mistake in the product, as a patch:
///
/// ```text
/// The cursor is read with a relaxed load.                          what it breaks, a sentence
/// invariant: I5                                                    which one of `docs/design.md`
/// found-by: models timeline::what_was_done_before_is_seen          what must fail; several lines, and each must
///
/// --- a/runtime/sync/src/timeline.rs                               what `git apply` takes
/// ```
#[derive(Debug)]
pub(super) struct Mutant {
    /// Folder and file below `tests/mutants`, without the ending.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) breaks: String,
    pub(super) invariant: String,
    pub(super) finders: Vec<Finder>,
}

impl Mutant {
    /// All below a folder, in the order of their names.
    pub(super) fn all(folder: &Path) -> Result<Vec<Self>, String> {
        let mut paths = Vec::new();
        patches(folder, &mut paths).map_err(|error| format!("{}: {error}", folder.display()))?;
        paths.sort();
        let mut mutants = Vec::new();
        for path in paths {
            let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
            let name = path.strip_prefix(folder).unwrap_or(&path);
            let name = name.with_extension("").to_string_lossy().into_owned();
            let read = Self::read(name, path, &text);
            mutants.push(read?);
        }
        match mutants.is_empty() {
            true => Err(format!("there are no patches below {}", folder.display())),
            false => Ok(mutants),
        }
    }

    fn read(name: String, path: PathBuf, text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{name}.patch: {what}");
        let (head, _) = text
            .split_once("\n--- ")
            .ok_or_else(|| wrong("there is no patch in it"))?;
        let mut lines = head.lines();
        let breaks = lines.next().unwrap_or_default().trim().to_owned();
        if !breaks.ends_with('.') {
            return Err(wrong(
                "its first line is no sentence that says what it breaks",
            ));
        }
        let (mut invariant, mut finders) = (String::new(), Vec::new());
        for line in lines.filter(|line| !line.trim().is_empty()) {
            match line.split_once(": ") {
                Some(("invariant", which)) => which.clone_into(&mut invariant),
                Some(("found-by", finder)) => {
                    finders.push(finder.parse().map_err(|error: String| wrong(&error))?);
                }
                _ => {
                    return Err(wrong(&format!(
                        "`{line}` is neither `invariant: ` nor `found-by: `"
                    )));
                }
            }
        }
        if invariant.is_empty() || finders.is_empty() {
            return Err(wrong("it needs a line `invariant: `, and one `found-by: `"));
        }
        Ok(Self {
            name,
            path,
            breaks,
            invariant,
            finders,
        })
    }
}

fn patches(folder: &Path, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            patches(&path, into)?;
        } else if path.extension().is_some_and(|end| end == "patch") {
            into.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Mutant, String> {
        Mutant::read("a/b".to_owned(), PathBuf::new(), text)
    }

    #[test]
    fn a_patch_says_what_it_breaks_and_what_finds_it() {
        let text = "A drop wakes nobody.\ninvariant: I5\nfound-by: swarm\nfound-by: models slots::x\n\n--- a/x.rs\n+++ b/x.rs\n@@\n";
        let mutant = read(text).unwrap();
        assert_eq!(mutant.breaks, "A drop wakes nobody.");
        assert_eq!(mutant.finders.len(), 2);
    }

    #[test]
    fn a_patch_without_that_is_refused() {
        let patch = "\n--- a/x.rs\n+++ b/x.rs\n";
        for head in [
            "",
            "no sentence\ninvariant: I1\nfound-by: swarm",
            "A sentence.\nfound-by: swarm",
            "A sentence.\ninvariant: I1",
            "A sentence.\ninvariant: I1\nfound-by: luck",
            "A sentence.\ninvariant: I1\nfound-by: models",
            "A sentence.\ninvariant: I1\nfound-by: swarm\nmore",
        ] {
            assert!(read(&format!("{head}\n{patch}")).is_err(), "{head}");
        }
        assert!(read("A sentence.\ninvariant: I1\nfound-by: swarm\n").is_err());
    }
}
