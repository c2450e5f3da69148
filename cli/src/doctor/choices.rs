//! The state of the folder that stores tuned choices.

use std::fmt;
use std::path::PathBuf;

use millstream::tune::StoredChoices;
use serde::Serialize;

use crate::units::counted;

/// The contents of the folder.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Choices {
    folder: Option<PathBuf>,
    files: usize,
    choices: usize,
    bytes: u64,
    damaged: usize,
}

impl From<StoredChoices> for Choices {
    fn from(kept: StoredChoices) -> Self {
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
                "- tuned choices are not stored: neither XDG_CACHE_HOME nor HOME names a folder; set one of them, or use `FileStore::new`.",
            );
        };
        let choices = counted(self.choices, "tuned choice");
        let devices = counted(self.files, "file");
        write!(f, "- {choices} ({devices}) in `{}`", folder.display())?;
        match self.damaged {
            0 => f.write_str("."),
            damaged => write!(f, "; {damaged} more are damaged and will be tuned again."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_choices_are_reported_with_the_consequence() {
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
                .ends_with("; 2 more are damaged and will be tuned again.")
        );
    }
}
