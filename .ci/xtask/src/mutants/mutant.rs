//! A mutant: a patch, its description, and the checks that must find it.

use std::fs;
use std::path::{Path, PathBuf};

use super::finder::Finder;

/// A patch that plants a mistake:
///
/// ```text
/// The cursor is read with a relaxed load.                          the mistake, a sentence
/// invariant: I5                                                    an invariant of `docs/design.md`
/// found-by: models timeline::what_was_done_before_is_seen          what must fail; several lines, and each must
///
/// --- a/runtime/sync/src/timeline.rs                               a patch for `git apply`
/// ```
#[derive(Debug)]
pub(super) struct Mutant {
    /// The path below `tests/mutants`, without the extension.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) breaks: String,
    pub(super) invariant: String,
    pub(super) finders: Vec<Finder>,
}

impl Mutant {
    /// Reads all patches below a folder, sorted by name.
    pub(super) fn all(folder: &Path) -> Result<Vec<Self>, String> {
        let mut paths = Vec::new();
        patches(folder, &mut paths).map_err(|error| format!("{}: {error}", folder.display()))?;
        paths.sort();
        let mut mutants = Vec::new();
        for path in paths {
            let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
            let name = path.strip_prefix(folder).unwrap_or(&path);
            let name = name.with_extension("").to_string_lossy().into_owned();
            mutants.push(Self::parse(name, path, &text)?);
        }
        match mutants.is_empty() {
            true => Err(format!("no patches below {}", folder.display())),
            false => Ok(mutants),
        }
    }

    fn parse(name: String, path: PathBuf, text: &str) -> Result<Self, String> {
        let error = |reason: &str| format!("{name}.patch: {reason}");
        let (head, _) = text
            .split_once("\n--- ")
            .ok_or_else(|| error("expected a line that begins with `--- `"))?;
        let mut lines = head.lines();
        let breaks = lines.next().unwrap_or_default().trim().to_owned();
        if !breaks.ends_with('.') {
            return Err(error(
                "expected a sentence with a full stop in the first line",
            ));
        }
        let (mut invariant, mut finders) = (String::new(), Vec::new());
        for line in lines.filter(|line| !line.trim().is_empty()) {
            match line.split_once(": ") {
                Some(("invariant", name)) => name.clone_into(&mut invariant),
                Some(("found-by", finder)) => {
                    finders.push(finder.parse().map_err(|reason: String| error(&reason))?);
                }
                _ => {
                    return Err(error(&format!(
                        "expected `invariant: ` or `found-by: `, got `{line}`"
                    )));
                }
            }
        }
        if invariant.is_empty() || finders.is_empty() {
            return Err(error(
                "expected a line `invariant: ` and a line `found-by: `",
            ));
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

    fn parse(text: &str) -> Result<Mutant, String> {
        Mutant::parse("a/b".to_owned(), PathBuf::new(), text)
    }

    #[test]
    fn patch_has_a_description_and_finders() {
        let text = "A drop wakes no thread.\ninvariant: I5\nfound-by: swarm\nfound-by: models slots::x\n\n--- a/x.rs\n+++ b/x.rs\n@@\n";
        let mutant = parse(text).unwrap();
        assert_eq!(mutant.breaks, "A drop wakes no thread.");
        assert_eq!(mutant.finders.len(), 2);
    }

    #[test]
    fn patch_without_description_invariant_or_finder_is_refused() {
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
            assert!(parse(&format!("{head}\n{patch}")).is_err(), "{head}");
        }
        assert!(parse("A sentence.\ninvariant: I1\nfound-by: swarm\n").is_err());
    }
}
