//! Finds and reads photographs, as rows of RGB, and writes drawings.
//!
//! A file is decoded only after its size is known to be within the limit. Only plain files are opened, since reading a
//! named pipe could block forever. The content decides the format, not the name.

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

/// The largest photograph that is converted. Each pixel takes 12 bytes on the device: the photograph, two planes of floats
/// and the drawing.
const PIXELS_MAX: u64 = 64_000_000;
/// The bytes that a decoder may allocate: 16-bit RGBA of the largest photograph.
const DECODER_BYTES_MAX: usize = PIXELS_MAX as usize * 8;

/// A file that may be a photograph.
pub(super) struct PhotoFile {
    pub(super) path: PathBuf,
    /// The name of its drawing: `cat.png` for `cat.jpg`, or `cat-2.png` if another photograph has taken that.
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
    /// How viewers turn it (Exif, 1 to 8). The drawing gets that, too, and nothing else of the Exif data, which may say
    /// where the photograph was taken.
    orientation: Option<u8>,
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
    let unreadable = |source| input(folder).cannot_be("read", source);
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
    let mut taken = HashSet::new();
    let photo = |path: PathBuf| PhotoFile {
        output: unique_output(&path, &mut taken),
        path,
    };
    Ok(paths.into_iter().map(photo).collect())
}

/// Returns the name of the drawing of a photograph. Names are compared without case, as some file systems do.
fn unique_output(path: &Path, taken: &mut HashSet<String>) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut name = format!("{stem}.png");
    for number in 2_u64.. {
        if taken.insert(name.to_lowercase()) {
            break;
        }
        name = format!("{stem}-{number}.png");
    }
    name
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
    photo.pixels.orientation = decoder.exif().and_then(|exif| orientation(exif));
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
    photo.pixels.orientation = reader.info().exif_metadata.as_deref().and_then(orientation);
    Ok(photo)
}

/// Exif data with one entry: the orientation, whose value is at [`EXIF_VALUE`].
const EXIF: [u8; 26] = *b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x01\0\0\0\0\0\0\0";
const EXIF_VALUE: usize = 18;

/// Returns the orientation of Exif data: a header, which locates a list of entries of twelve bytes with tag, type, count
/// and value. Numbers begin with their low byte after `II`, with their high byte after `MM`.
fn orientation(exif: &[u8]) -> Option<u8> {
    const TAG: usize = 0x112;
    let number = |at: usize, len: usize| {
        let bytes = exif.get(at..)?.get(..len)?.iter();
        let append = |number: usize, byte: &u8| number << 8 | usize::from(*byte);
        Some(match exif.starts_with(b"II") {
            true => bytes.rev().fold(0, append),
            false => bytes.fold(0, append),
        })
    };
    let list = number(4, 4)?;
    let mut entries = (0..number(list, 2)?).map(|entry| list + 2 + 12 * entry);
    let entry = entries.find(|entry| number(*entry, 2) == Some(TAG))?;
    let orientation = number(entry + 8, 2)?;
    (1..=8).contains(&orientation).then_some(orientation as u8)
}

/// Writes the drawing of a photograph as a grey PNG.
pub(super) fn save(path: &Path, photo: &Photo, grey: &[u8]) -> io::Result<()> {
    let file = BufWriter::new(fs::File::create(path)?);
    let mut info = png::Info::with_size(photo.width, photo.height);
    info.exif_metadata = photo.pixels.orientation.map(|orientation| {
        let mut exif = EXIF.to_vec();
        exif[EXIF_VALUE] = orientation;
        exif.into()
    });
    let mut writer = png::Encoder::with_info(file, info)?.write_header()?;
    writer.write_image_data(grey)?;
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// Exif data of a camera that stands on its side: its maker, its orientation and what follows the list.
    fn exif(is_little: bool) -> Vec<u8> {
        let (order, bytes) = match is_little {
            true => (b"II", u16::to_le_bytes as fn(u16) -> [u8; 2]),
            false => (b"MM", u16::to_be_bytes as fn(u16) -> [u8; 2]),
        };
        let long = |low| if is_little { [low, 0] } else { [0, low] };
        let maker = [&[0x10f, 2][..], &long(7), &long(38)].concat();
        let numbers = [
            &[42][..],
            &long(8),
            &[2],
            &maker,
            &[0x112, 3],
            &long(1),
            &[6, 0],
        ]
        .concat();
        let numbers = numbers.into_iter().chain([0, 0]).flat_map(bytes);
        order
            .iter()
            .copied()
            .chain(numbers)
            .chain(*b"secret\0")
            .collect()
    }

    #[test]
    fn drawing_keeps_the_orientation_and_nothing_else_of_the_exif_data() {
        let mut png = Vec::new();
        let mut info = png::Info::with_size(1, 1);
        info.color_type = png::ColorType::GrayscaleAlpha;
        info.exif_metadata = Some(exif(true).into());
        let encoder = png::Encoder::with_info(&mut png, info).unwrap();
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&[9, 128]).unwrap();
        writer.finish().unwrap();
        let (start, rest) = include_bytes!("../../tests/photos/gradient.jpg").split_at(2);
        let exif = [&b"Exif\0\0"[..], &exif(false)].concat();
        let length = (exif.len() as u16 + 2).to_be_bytes();
        let jpeg = [start, &[0xff, 0xe1], &length, &exif, rest].concat();

        let grey = read_png(&png).ok().unwrap();
        assert_eq!(
            grey.pixels.rgb, [9; 3],
            "grey with transparency becomes RGB"
        );
        let cut = read_png(&png[..png.len() / 2]).err().unwrap();
        assert!(cut.starts_with("cannot be decoded"), "{cut}");
        let path = std::env::temp_dir().join(format!("millstream-exif-{}", std::process::id()));
        for photo in [grey, read_jpeg(&jpeg).ok().unwrap()] {
            assert_eq!(photo.pixels.orientation, Some(6));
            let size = (photo.width * photo.height) as usize;
            save(&path, &photo, &vec![7; size]).unwrap();
            let drawing = fs::read(&path).unwrap();
            assert!(!drawing.windows(6).any(|bytes| bytes == b"secret"));
            let drawing = read_png(&drawing).ok().unwrap();
            assert_eq!(drawing.pixels.rgb, vec![7; 3 * size]);
            assert_eq!(drawing.pixels.orientation, Some(6));
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn damaged_exif_data_has_no_orientation() {
        for exif in [exif(true), exif(false)] {
            assert_eq!(orientation(&exif), Some(6));
            (0..32).for_each(|len| assert_eq!(orientation(&exif[..len]), None, "{len} bytes"));
            let mut wrong = exif;
            wrong[30..32].fill(9);
            assert_eq!(orientation(&wrong), None);
        }
    }
}
