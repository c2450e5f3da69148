//! The album: which files of a folder are photographs, and in which rounds they are developed.
//!
//! A file that is no photograph is an answer (`Skipped`), never an error of the run. Names come
//! back sorted, so that runs are alike. Nothing is decoded here: `photos.rs` does that.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::files::{Found, Skipped};
use super::photos;
use crate::exit::CommandError;

/// What is held in memory at once: each pixel takes 8 bytes on the host (photograph, reference,
/// result).
const MAX_ROUND_PIXELS: u64 = 128_000_000;

/// What a folder holds.
#[derive(Debug, Default)]
pub(crate) struct Album {
    pub(crate) found: Vec<Found>,
    pub(crate) skipped: Vec<Skipped>,
}

/// The folder to use when none is named: that of the current directory, else that of the clone
/// which this program was built from.
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
/// passed over; any other file is either found or skipped with a reason.
pub(crate) fn find(folder: &Path) -> Result<Album, CommandError> {
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

    let mut album = Album::default();
    let mut outputs = HashSet::new();
    for path in paths {
        let file = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        match photos::size(&path) {
            Ok((width, height)) => {
                let output = unique_output(&path, &mut outputs);
                album.found.push(Found {
                    path,
                    file,
                    output,
                    pixels: u64::from(width) * u64::from(height),
                });
            }
            Err(reason) => album.skipped.push(Skipped {
                file,
                reason: reason.to_string(),
            }),
        }
    }
    Ok(album)
}

/// Cuts the album into rounds that fit into memory; every round has at least one photograph.
pub(crate) fn rounds(found: &[Found]) -> Vec<&[Found]> {
    rounds_within(found, MAX_ROUND_PIXELS)
}

fn rounds_within(found: &[Found], pixels_max: u64) -> Vec<&[Found]> {
    let mut rounds = Vec::new();
    let (mut start, mut pixels) = (0, 0);
    for (index, photo) in found.iter().enumerate() {
        if index > start && pixels + photo.pixels > pixels_max {
            rounds.push(&found[start..index]);
            (start, pixels) = (index, 0);
        }
        pixels += photo.pixels;
    }
    if start < found.len() {
        rounds.push(&found[start..]);
    }
    rounds
}

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// `cat.jpg` becomes `cat.png`; where that is taken (say, by `cat.png`), `cat-jpg.png`, and so on.
fn unique_output(path: &Path, taken: &mut HashSet<String>) -> String {
    let part = |part: Option<&OsStr>| {
        part.map_or_else(String::new, |part| part.to_string_lossy().into_owned())
    };
    let (stem, extension) = (part(path.file_stem()), part(path.extension()));
    let mut candidates = [format!("{stem}.png"), format!("{stem}-{extension}.png")]
        .into_iter()
        .chain((2u64..).map(|n| format!("{stem}-{extension}-{n}.png")));
    // Case is ignored, as some file systems do. The candidates never end, and `taken` does.
    candidates
        .find(|name| taken.insert(name.to_lowercase()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn found(pixels: u64) -> Found {
        Found {
            path: "x".into(),
            file: "x".into(),
            output: "x".into(),
            pixels,
        }
    }

    #[test]
    fn photographs_are_found_in_order() {
        let folder = Scratch::new("photos_in_order");
        folder.photograph("b.png", 5, 3);
        folder.photograph("a.jpg", 16, 8);
        let album = find(folder.path()).unwrap();
        let names: Vec<_> = album
            .found
            .iter()
            .map(|found| found.file.as_str())
            .collect();
        assert_eq!(names, ["a.jpg", "b.png"]);
        assert!(album.skipped.is_empty());
        assert_eq!(album.found[1].pixels, 15);
    }

    #[test]
    fn what_is_no_photograph_is_skipped_with_its_reason() {
        let folder = Scratch::new("photos_skipped");
        folder.photograph("good.png", 2, 2);
        fs::write(folder.path().join("empty.png"), b"").unwrap();
        fs::write(folder.path().join("notes.txt"), b"hello").unwrap();
        fs::write(folder.path().join("noise.jpg"), [0xff, 0xd8, 0xff, 1, 2, 3]).unwrap();
        fs::write(folder.path().join(".hidden"), b"left alone").unwrap();
        fs::create_dir(folder.path().join("inner.png")).unwrap();
        let album = find(folder.path()).unwrap();
        assert_eq!(album.found.len(), 1);
        let skipped: Vec<_> = album
            .skipped
            .iter()
            .map(|s| (s.file.as_str(), s.reason.as_str()))
            .collect();
        assert_eq!(skipped[0], ("empty.png", "it is empty"));
        assert_eq!(skipped[1].0, "noise.jpg");
        assert!(
            skipped[1].1.starts_with("it cannot be decoded"),
            "{}",
            skipped[1].1
        );
        assert_eq!(skipped[2], ("notes.txt", "it is neither JPEG nor PNG"));
        assert_eq!(skipped.len(), 3);
    }

    #[test]
    fn results_of_files_that_differ_by_extension_or_case_do_not_collide() {
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
    fn a_missing_folder_and_a_file_are_told_apart() {
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
    fn rounds_hold_every_photograph_once_and_stay_within_the_limit() {
        let album: Vec<_> = [3, 3, 3, 20, 1, 9].map(found).into();
        let sizes: Vec<_> = rounds_within(&album, 10)
            .into_iter()
            .map(<[Found]>::len)
            .collect();
        assert_eq!(sizes, [3, 1, 2]);
        assert!(rounds_within(&[], 10).is_empty());
    }
}
