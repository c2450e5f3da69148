//! Writes the results: a PNG for each drawing, the contact sheet and the timeline.
//!
//! The folders are created and checked to be writable before the device is opened, so that a run
//! cannot compute results and then fail to store them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::thread;

use image::{ExtendedColorType, ImageError};

use super::pipeline::Drawing;
use super::progress::Progress;
use super::report::Files;
use super::sheet::{self, Pair};
use super::workers::{self, Prepared};
use crate::exit::CommandError;

/// The output folder, and the pairs of the contact sheet so far.
pub(crate) struct Results {
    files: Files,
    pairs: Vec<Pair>,
    written: usize,
}

impl Results {
    /// Creates the output folders. `input` must be another folder.
    pub(crate) fn new(output: &Path, input: &Path) -> Result<Self, CommandError> {
        let files = Files {
            drawings: output.join("photos"),
            contact_sheet: output.join("contact-sheet.png"),
            timeline: output.join("timeline.svg"),
            saved_timeline: None,
        };
        let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
        if same(output, input) || same(&files.drawings, input) {
            return Err(CommandError::OutputIsInput {
                path: output.to_owned(),
            });
        }
        fs::create_dir_all(&files.drawings)
            .map_err(|source| unwritable(&files.drawings, source))?;
        for folder in [output, &files.drawings] {
            let probe = folder.join(format!(".writable-{}", std::process::id()));
            fs::write(&probe, b"")
                .and_then(|()| fs::remove_file(&probe))
                .map_err(|source| unwritable(folder, source))?;
        }
        Ok(Self {
            files,
            pairs: Vec::new(),
            written: 0,
        })
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// Writes the drawings of a round on all cores. `equal` returns whether a photograph's results
    /// were correct. Returns the file of each drawing, in the order of `drawings`.
    pub(crate) fn write(
        &mut self,
        photos: &[Prepared],
        drawings: &[(usize, Drawing)],
        equal: impl Fn(usize) -> bool + Sync,
        progress: &Progress,
    ) -> Result<Vec<PathBuf>, CommandError> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let next = AtomicUsize::new(0);
        let pairs_left = sheet::MAX_PAIRS.saturating_sub(self.written);
        let mut written = workers::on_threads(cores.min(drawings.len()), |_| {
            let mut written = Vec::new();
            while let Some((index, (photo, drawing))) = workers::take(&next, drawings) {
                let source = &photos[*photo].photo;
                let path = self.files.drawings.join(&source.output);
                let result = save_grey(&path, &drawing.image, source.width, source.height);
                let pair = (index < pairs_left)
                    .then(|| Pair::cut(source, &drawing.image, &drawing.histogram, equal(*photo)))
                    .flatten();
                written.push((index, result.map(|()| (path, pair))));
                progress.step();
            }
            written
        })?;
        written.sort_by_key(|(index, _)| *index);
        self.written += drawings.len();
        let mut paths = Vec::with_capacity(written.len());
        for (_, result) in written {
            let (path, pair) = result?;
            paths.push(path);
            self.pairs.extend(pair);
        }
        Ok(paths)
    }

    /// Writes the contact sheet and the timeline.
    pub(crate) fn finish(&self, subtitle: &str, timeline: &str) -> Result<(), CommandError> {
        let hidden = self.written.saturating_sub(sheet::MAX_PAIRS);
        let more = if hidden > 0 {
            format!(" · {hidden} more are not shown")
        } else {
            String::new()
        };
        let sheet = sheet::draw(&self.pairs, "millstream demo", &format!("{subtitle}{more}"))
            .map_err(|source| CommandError::Encoding { source })?;
        let path = &self.files.contact_sheet;
        sheet.save(path).map_err(|error| save_error(path, error))?;
        let path = &self.files.timeline;
        fs::write(path, timeline).map_err(|source| unwritable(path, source))
    }
}

fn save_grey(path: &Path, pixels: &[u8], width: u32, height: u32) -> Result<(), CommandError> {
    // `save_buffer` panics on a wrong length. The check has already reported such a drawing as different.
    if pixels.len() as u64 != u64::from(width) * u64::from(height) {
        return Ok(());
    }
    image::save_buffer(path, pixels, width, height, ExtendedColorType::L8)
        .map_err(|error| save_error(path, error))
}

fn save_error(path: &Path, error: ImageError) -> CommandError {
    match error {
        ImageError::IoError(source) => unwritable(path, source),
        source => CommandError::Encoding { source },
    }
}

fn unwritable(path: &Path, source: io::Error) -> CommandError {
    CommandError::OutputUnwritable {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn output_folders_are_created_empty() {
        let scratch = Scratch::new("results_created");
        let output = scratch.path().join("a/b/c");
        let results = Results::new(&output, scratch.path()).unwrap();
        assert!(results.files().drawings.is_dir());
        assert_eq!(fs::read_dir(&results.files().drawings).unwrap().count(), 0);
    }

    #[test]
    fn output_path_that_is_a_file_is_unwritable() {
        let scratch = Scratch::new("results_file");
        let output = scratch.path().join("taken");
        fs::write(&output, b"").unwrap();
        assert!(matches!(
            Results::new(&output, scratch.path()),
            Err(CommandError::OutputUnwritable { .. })
        ));
    }

    #[test]
    fn output_folder_must_differ_from_the_input_folder() {
        let scratch = Scratch::new("results_same");
        assert!(matches!(
            Results::new(scratch.path(), scratch.path()),
            Err(CommandError::OutputIsInput { .. })
        ));
        assert_eq!(
            fs::read_dir(scratch.path()).unwrap().count(),
            0,
            "a folder was created in the input folder"
        );
        let inner = scratch.path().join("photos");
        fs::create_dir(&inner).unwrap();
        assert!(matches!(
            Results::new(scratch.path(), &inner),
            Err(CommandError::OutputIsInput { .. })
        ));
    }
}
