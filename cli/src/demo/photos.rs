//! Finds and reads photographs, as rows of RGB, and writes drawings.
//!
//! A file is decoded only after its size is known to be within the limit. Only plain files are opened, since reading a
//! named pipe could block forever. The content decides the format, not the name.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs;
use std::io::{self, BufWriter, Cursor};
use std::path::{Path, PathBuf};

use png::Transformations;
use serde::Serialize;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::exit::{CommandError, FileRole};

/// The largest photograph that is converted. Each pixel takes 12 bytes on the device.
const PIXELS_MAX: u64 = 64_000_000;
/// The bytes that a decoder may allocate: 16-bit RGBA of the largest photograph.
const DECODER_BYTES_MAX: usize = PIXELS_MAX as usize * 8;

/// A file that may be a photograph.
pub(super) struct PhotoFile {
    pub(super) path: PathBuf,
    /// The name of its drawing, unique in the folder.
    pub(super) output: String,
}

/// A photograph, and what became of it.
#[derive(Default, Serialize)]
pub(super) struct Photo {
    pub(super) file: String,
    pub(super) width: u32,
    pub(super) height: u32,
    /// The first difference or failure.
    pub(super) wrong: Option<String>,
    pub(super) drawing: Option<PathBuf>,
    /// The name of its drawing.
    #[serde(skip)]
    pub(super) output: String,
    #[serde(skip)]
    pub(super) pixels: Pixels,
}

/// What is in memory of a photograph until its round is over.
#[derive(Default)]
pub(super) struct Pixels {
    /// Rows of 8-bit RGB: at least one pixel.
    pub(super) rgb: Vec<u8>,
    /// The tones that the reference computes.
    pub(super) tones: Vec<f32>,
    /// Its Exif data, which the drawing gets, too: viewers apply the orientation in it.
    exif: Option<Vec<u8>>,
}

/// A skipped file, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Skipped {
    pub(super) file: String,
    pub(super) reason: String,
}

/// The input folder, for messages.
pub(super) fn input(path: &Path) -> FileRole<'_> {
    FileRole::new(
        "input folder",
        path,
        "name a folder of JPEG or PNG files with --input, or omit --input in a clone of the repository",
    )
}

/// Returns the default input folder: `assets/photos` of the current directory, as in a bundle, or else those of the clone that this
/// program was built from.
pub(super) fn default_folder() -> PathBuf {
    let here = PathBuf::from("assets/photos");
    match here.is_dir() {
        true => here,
        false => Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/photos"),
    }
}

/// Lists the files directly inside `folder`, by name. Folders and names that begin with a dot are ignored.
pub(super) fn find(folder: &Path) -> Result<Vec<PhotoFile>, CommandError> {
    let unreadable = |source| input(folder).unreadable(source);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !is_hidden && !path.is_dir() {
            paths.push(path);
        }
    }
    paths.sort();
    let mut outputs = HashSet::new();
    let photo = |path: PathBuf| PhotoFile {
        output: unique_output(&path, &mut outputs),
        path,
    };
    Ok(paths.into_iter().map(photo).collect())
}

/// Returns the name of the drawing: `cat.png` for `cat.jpg`, or `cat-jpg.png` if another photograph has taken that.
fn unique_output(path: &Path, taken: &mut HashSet<String>) -> String {
    let [stem, extension] = [path.file_stem(), path.extension()]
        .map(|part| part.unwrap_or_default().to_string_lossy().into_owned());
    let mut candidates = [format!("{stem}.png"), format!("{stem}-{extension}.png")]
        .into_iter()
        .chain((2u64..).map(|n| format!("{stem}-{extension}-{n}.png")));
    // Names are compared without case, as some file systems do. There are more candidates than taken names.
    candidates
        .find(|name| taken.insert(name.to_lowercase()))
        .unwrap_or_default()
}

/// Reads one photograph into memory.
pub(super) fn load(source: &PhotoFile) -> Result<Photo, Skipped> {
    let file = source.path.file_name().unwrap_or_default();
    let file = file.to_string_lossy().into_owned();
    match read(&source.path) {
        Ok(photo) => Ok(Photo {
            file,
            output: source.output.clone(),
            ..photo
        }),
        Err(reason) => Err(Skipped { file, reason }),
    }
}

fn read(path: &Path) -> Result<Photo, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("not a plain file".to_owned());
    }
    let bytes = fs::read(path).map_err(unreadable)?;
    match &bytes[..] {
        [] => Err("empty file".to_owned()),
        [0xff, 0xd8, 0xff, ..] => read_jpeg(&bytes),
        [0x89, b'P', b'N', b'G', ..] => read_png(&bytes),
        _ => Err("neither JPEG nor PNG".to_owned()),
    }
}

/// Returns a photograph without its pixels, if it is neither empty nor too large.
fn of_size(width: u32, height: u32) -> Result<Photo, String> {
    match u64::from(width) * u64::from(height) {
        1..=PIXELS_MAX => Ok(Photo {
            width,
            height,
            ..Photo::default()
        }),
        _ => Err(format!(
            "{width} x {height} pixels, expected at most {} million",
            PIXELS_MAX / 1_000_000
        )),
    }
}

fn broken(error: impl std::fmt::Debug + ToString) -> String {
    format!("cannot be decoded: {}", error.to_string())
}

fn read_jpeg(bytes: &[u8]) -> Result<Photo, String> {
    let options = DecoderOptions::default()
        .set_max_width(u16::MAX.into())
        .set_max_height(u16::MAX.into())
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(broken)?;
    let (width, height) = decoder.dimensions().unwrap_or_default();
    let mut photo = of_size(width as u32, height as u32)?;
    photo.pixels.rgb = decoder.decode().map_err(broken)?;
    photo.pixels.exif = decoder.exif().cloned();
    match photo.pixels.rgb.len() == width * height * 3 {
        true => Ok(photo),
        false => Err("cannot be decoded: not RGB".to_owned()),
    }
}

fn read_png(bytes: &[u8]) -> Result<Photo, String> {
    let limits = png::Limits {
        bytes: DECODER_BYTES_MAX,
    };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(Transformations::normalize_to_color8());
    let header = decoder.read_header_info().map_err(broken)?;
    let mut photo = of_size(header.width, header.height)?;
    let mut reader = decoder.read_info().map_err(broken)?;
    let mut data = vec![0; reader.output_buffer_size().unwrap_or(0)];
    let frame = reader.next_frame(&mut data).map_err(broken)?;
    let channels = frame.color_type.samples();
    let pixels = data[..frame.buffer_size()].chunks_exact(channels);
    photo.pixels.rgb = match channels {
        3 | 4 => pixels
            .flat_map(|pixel| [pixel[0], pixel[1], pixel[2]])
            .collect(),
        _ => pixels.flat_map(|pixel| [pixel[0]; 3]).collect(),
    };
    photo.pixels.exif = reader.info().exif_metadata.as_deref().map(<[u8]>::to_vec);
    Ok(photo)
}

/// Writes the drawing of a photograph as a grey PNG.
pub(super) fn save(path: &Path, photo: &Photo, grey: &[u8]) -> io::Result<()> {
    let file = BufWriter::new(fs::File::create(path)?);
    let mut info = png::Info::with_size(photo.width, photo.height);
    info.exif_metadata = photo.pixels.exif.as_deref().map(Cow::Borrowed);
    let mut writer = png::Encoder::with_info(file, info)?.write_header()?;
    writer.write_image_data(grey)?;
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_by_extension_or_case_get_distinct_results() {
        let mut taken = HashSet::new();
        let names = ["cat.jpg", "cat.png", "CAT.jpg", "CAT.JPG", "dog"]
            .map(|name| unique_output(Path::new(name), &mut taken));
        let expected = [
            "cat.png",
            "cat-png.png",
            "CAT-jpg.png",
            "CAT-JPG-2.png",
            "dog.png",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn every_photograph_of_the_repository_loads() {
        let files = find(&default_folder()).unwrap();
        assert!(files.len() >= 8);
        for file in &files {
            let photo = load(file).ok().unwrap();
            let bytes = (photo.width * photo.height * 3) as usize;
            assert_eq!(photo.pixels.rgb.len(), bytes);
        }
    }

    #[test]
    fn huge_photograph_is_skipped_before_it_is_decoded() {
        let mut file = Vec::new();
        let encoder = png::Encoder::new(&mut file, 100_000, 100_000);
        drop(encoder.write_header().unwrap());
        assert_eq!(
            read_png(&file).err().unwrap(),
            "100000 x 100000 pixels, expected at most 64 million"
        );
    }

    #[test]
    fn grey_picture_with_transparency_becomes_rgb_and_its_drawing_has_its_exif_data() {
        let mut info = png::Info::with_size(1, 1);
        info.color_type = png::ColorType::GrayscaleAlpha;
        info.exif_metadata = Some(b"II*\0 a camera".into());
        let mut file = Vec::new();
        let encoder = png::Encoder::with_info(&mut file, info).unwrap();
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&[9, 128]).unwrap();
        writer.finish().unwrap();
        let photo = read_png(&file).ok().unwrap();
        assert_eq!(photo.pixels.rgb, [9; 3]);
        let cut = read_png(&file[..file.len() / 2]).err().unwrap();
        assert!(cut.starts_with("cannot be decoded"), "{cut}");
        let path = std::env::temp_dir().join(format!("millstream-exif-{}", std::process::id()));
        save(&path, &photo, &[7]).unwrap();
        let drawing = read(&path).ok().unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(drawing.pixels.rgb, [7; 3]);
        assert_eq!(drawing.pixels.exif, photo.pixels.exif);
    }
}
