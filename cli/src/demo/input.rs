//! The input folder: finds its photographs and splits them into rounds.
//!
//! A file that is not a photograph is `Skipped`; it never ends the run. Names are sorted, so that
//! runs are repeatable. This module decodes nothing; `photos.rs` does.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::files::{PhotoFile, Skipped};
use super::photos;
use crate::exit::CommandError;

/// The pixels in memory at once. Each takes 8 bytes on the host (photograph, reference, result).
const MAX_ROUND_PIXELS: u64 = 128_000_000;

/// The files of an input folder.
#[derive(Debug, Default)]
pub(crate) struct Input {
    pub(crate) photos: Vec<PhotoFile>,
    pub(crate) skipped: Vec<Skipped>,
}

/// Returns the default input folder: `assets/photos` of the current directory, or else of the
/// clone that this program was built from.
pub(crate) fn default_folder() -> Result<PathBuf, CommandError> {
    let here = PathBuf::from("assets/photos");
    if here.is_dir() {
        return Ok(here);
    }
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/photos");
    match built.canonicalize() {
        Ok(path) if path.is_dir() => Ok(path),
        _ => Err(CommandError::NoDefaultInput { path: built }),
    }
}

/// Lists the photographs directly inside `folder`. Folders and names that begin with a dot are
/// ignored; any other file that is not a photograph is skipped with a reason.
pub(crate) fn find(folder: &Path) -> Result<Input, CommandError> {
    let unreadable = |source| CommandError::InputUnreadable {
        path: folder.to_owned(),
        source,
    };
    let folder_kind = fs::metadata(folder).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => CommandError::InputMissing {
            path: folder.to_owned(),
        },
        _ => unreadable(source),
    })?;
    if !folder_kind.is_dir() {
        return Err(CommandError::InputNotAFolder {
            path: folder.to_owned(),
        });
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if !is_hidden(&path) && !path.is_dir() {
            paths.push(path);
        }
    }
    paths.sort();

    let mut input = Input::default();
    let mut outputs = HashSet::new();
    for path in paths {
        let file = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        match photos::size(&path) {
            Ok((width, height)) => {
                let output = unique_output(&path, &mut outputs);
                input.photos.push(PhotoFile {
                    path,
                    file,
                    output,
                    pixels: u64::from(width) * u64::from(height),
                });
            }
            Err(reason) => input.skipped.push(Skipped {
                file,
                reason: reason.to_string(),
            }),
        }
    }
    Ok(input)
}

/// Splits the photographs into rounds that fit in memory. Every round has at least one photograph.
pub(crate) fn rounds(photos: &[PhotoFile]) -> Vec<&[PhotoFile]> {
    rounds_within(photos, MAX_ROUND_PIXELS)
}

fn rounds_within(photos: &[PhotoFile], pixels_max: u64) -> Vec<&[PhotoFile]> {
    let mut rounds = Vec::new();
    let (mut start, mut pixels) = (0, 0);
    for (index, photo) in photos.iter().enumerate() {
        if index > start && pixels + photo.pixels > pixels_max {
            rounds.push(&photos[start..index]);
            (start, pixels) = (index, 0);
        }
        pixels += photo.pixels;
    }
    if start < photos.len() {
        rounds.push(&photos[start..]);
    }
    rounds
}

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Returns the name of the result: `cat.png` for `cat.jpg`, or `cat-jpg.png` if another photograph has taken that.
fn unique_output(path: &Path, taken: &mut HashSet<String>) -> String {
    let part = |part: Option<&OsStr>| {
        part.map_or_else(String::new, |part| part.to_string_lossy().into_owned())
    };
    let (stem, extension) = (part(path.file_stem()), part(path.extension()));
    let mut candidates = [format!("{stem}.png"), format!("{stem}-{extension}.png")]
        .into_iter()
        .chain((2u64..).map(|n| format!("{stem}-{extension}-{n}.png")));
    // Names are compared without case, as some file systems do. There are more candidates than taken names.
    candidates
        .find(|name| taken.insert(name.to_lowercase()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn photo(pixels: u64) -> PhotoFile {
        PhotoFile {
            path: "x".into(),
            file: "x".into(),
            output: "x".into(),
            pixels,
        }
    }

    #[test]
    fn photographs_are_sorted_by_name() {
        let folder = Scratch::new("photos_in_order");
        folder.photograph("b.png", 5, 3);
        folder.photograph("a.jpg", 16, 8);
        let input = find(folder.path()).unwrap();
        let names: Vec<_> = input
            .photos
            .iter()
            .map(|photo| photo.file.as_str())
            .collect();
        assert_eq!(names, ["a.jpg", "b.png"]);
        assert!(input.skipped.is_empty());
        assert_eq!(input.photos[1].pixels, 15);
    }

    #[test]
    fn other_files_are_skipped_with_a_reason() {
        let folder = Scratch::new("photos_skipped");
        folder.photograph("good.png", 2, 2);
        fs::write(folder.path().join("empty.png"), b"").unwrap();
        fs::write(folder.path().join("notes.txt"), b"hello").unwrap();
        fs::write(folder.path().join("noise.jpg"), [0xff, 0xd8, 0xff, 1, 2, 3]).unwrap();
        fs::write(folder.path().join(".hidden"), b"ignored").unwrap();
        fs::create_dir(folder.path().join("inner.png")).unwrap();
        let input = find(folder.path()).unwrap();
        assert_eq!(input.photos.len(), 1);
        let skipped: Vec<_> = input
            .skipped
            .iter()
            .map(|s| (s.file.as_str(), s.reason.as_str()))
            .collect();
        assert_eq!(skipped[0], ("empty.png", "empty file"));
        assert_eq!(skipped[1].0, "noise.jpg");
        assert!(
            skipped[1].1.starts_with("cannot be decoded"),
            "{}",
            skipped[1].1
        );
        assert_eq!(skipped[2], ("notes.txt", "neither JPEG nor PNG"));
        assert_eq!(skipped.len(), 3);
    }

    #[test]
    fn files_that_differ_by_extension_or_case_get_distinct_results() {
        let mut taken = HashSet::new();
        let names: Vec<_> = ["cat.jpg", "cat.png", "CAT.jpg", "CAT.JPG", "dog"]
            .map(|name| unique_output(Path::new(name), &mut taken))
            .into();
        assert_eq!(
            names,
            [
                "cat.png",
                "cat-png.png",
                "CAT-jpg.png",
                "CAT-JPG-2.png",
                "dog.png"
            ]
        );
    }

    #[test]
    fn missing_folder_and_plain_file_give_different_errors() {
        let folder = Scratch::new("photos_missing");
        let nowhere = folder.path().join("nowhere");
        assert!(matches!(
            find(&nowhere),
            Err(CommandError::InputMissing { .. })
        ));
        folder.photograph("a.png", 1, 1);
        assert!(matches!(
            find(&folder.path().join("a.png")),
            Err(CommandError::InputNotAFolder { .. })
        ));
    }

    #[test]
    fn rounds_have_every_photograph_once_and_stay_within_the_limit() {
        let photos: Vec<_> = [3, 3, 3, 20, 1, 9].map(photo).into();
        let sizes: Vec<_> = rounds_within(&photos, 10)
            .into_iter()
            .map(<[PhotoFile]>::len)
            .collect();
        assert_eq!(sizes, [3, 1, 2]);
        assert!(rounds_within(&[], 10).is_empty());
    }
}
