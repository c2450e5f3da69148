//! The state of the folder in which tuned choices are kept.

use std::fmt;
use std::path::PathBuf;

use millstream::tune::KeptChoices;
use serde::Serialize;

use crate::units::counted;

/// What lies there.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Choices {
    folder: Option<PathBuf>,
    files: usize,
    choices: usize,
    bytes: u64,
    damaged: usize,
}

impl From<KeptChoices> for Choices {
    fn from(kept: KeptChoices) -> Self {
        Self {
            folder: Some(kept.folder),
            files: kept.files,
            choices: kept.choices,
            bytes: kept.bytes,
            damaged: kept.damaged,
        }
    }
}

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(folder) = &self.folder else {
            return f.write_str(
                "- no tuned choice is kept by default: neither XDG_CACHE_HOME nor HOME names a folder; set one of them, or use `FileStore::new`.",
            );
        };
        let choices = counted(self.choices, "tuned choice");
        let devices = counted(self.files, "file");
        write!(f, "- {choices} ({devices}) in `{}`", folder.display())?;
        match self.damaged {
            0 => f.write_str("."),
            damaged => write!(f, "; {damaged} more are damaged, and will be tuned anew."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_told_and_what_becomes_of_it() {
        let mut choices = Choices {
            folder: Some("/cache".into()),
            files: 1,
            choices: 12,
            bytes: 4096,
            damaged: 0,
        };
        assert_eq!(
            choices.to_string(),
            "- 12 tuned choices (1 file) in `/cache`."
        );
        choices.damaged = 2;
        assert!(
            choices
                .to_string()
                .ends_with("; 2 more are damaged, and will be tuned anew.")
        );
    }
}
