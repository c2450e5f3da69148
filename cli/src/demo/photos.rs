//! Finds and reads photographs, as rows of RGB, and writes drawings.
//!
//! A file is decoded only after its size is known to be within the limit. Only plain files are opened, since reading a
//! named pipe could block forever. The content decides the format, not the name.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufWriter, Cursor};
use std::path::{Path, PathBuf};

use png::{BitDepth, ColorType, Transformations};
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
    /// The file's name, for messages.
    pub(super) file: String,
    /// The name of its drawing, unique in the folder.
    pub(super) output: String,
}

/// A photograph in memory: rows of 8-bit RGB, upright.
pub(super) struct Photo {
    pub(super) file: String,
    pub(super) output: String,
    pub(super) width: u32,
    pub(super) height: u32,
    /// `width * height * 3` bytes, at least one pixel.
    pub(super) rgb: Vec<u8>,
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
        file: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
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
    let skipped = |reason| Skipped {
        file: source.file.clone(),
        reason,
    };
    let ([width, height], rgb) = read(&source.path).map_err(skipped)?;
    Ok(Photo {
        file: source.file.clone(),
        output: source.output.clone(),
        width,
        height,
        rgb,
    })
}

/// The width and height of a picture, and its pixels.
type Pixels = ([u32; 2], Vec<u8>);

fn read(path: &Path) -> Result<Pixels, String> {
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

/// Refuses empty and too large pictures.
fn check_size([width, height]: [u32; 2]) -> Result<[u32; 2], String> {
    match u64::from(width) * u64::from(height) {
        1..=PIXELS_MAX => Ok([width, height]),
        _ => Err(format!(
            "{width} x {height} pixels, expected at most {} million",
            PIXELS_MAX / 1_000_000
        )),
    }
}

fn broken(error: impl std::fmt::Debug + ToString) -> String {
    format!("cannot be decoded: {}", error.to_string())
}

fn read_jpeg(bytes: &[u8]) -> Result<Pixels, String> {
    let options = DecoderOptions::default()
        .set_max_width(u16::MAX.into())
        .set_max_height(u16::MAX.into())
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(broken)?;
    let (width, height) = decoder.dimensions().unwrap_or_default();
    let size = check_size([width as u32, height as u32])?;
    let rgb = decoder.decode().map_err(broken)?;
    let orientation = decoder.exif().and_then(|exif| orientation(exif));
    match rgb.len() == width * height * 3 {
        true => Ok(upright(size, rgb, orientation.unwrap_or(1))),
        false => Err("cannot be decoded: not RGB".to_owned()),
    }
}

fn read_png(bytes: &[u8]) -> Result<Pixels, String> {
    let limits = png::Limits {
        bytes: DECODER_BYTES_MAX,
    };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(Transformations::normalize_to_color8());
    let header = decoder.read_header_info().map_err(broken)?;
    let size = check_size([header.width, header.height])?;
    let mut reader = decoder.read_info().map_err(broken)?;
    let mut data = vec![0; reader.output_buffer_size().unwrap_or(0)];
    let frame = reader.next_frame(&mut data).map_err(broken)?;
    data.truncate(frame.buffer_size());
    let channels = frame.color_type.samples();
    let rgb = match channels {
        3 => data,
        4 => data
            .chunks_exact(4)
            .flat_map(|pixel| [pixel[0], pixel[1], pixel[2]])
            .collect(),
        _ => data
            .chunks_exact(channels)
            .flat_map(|pixel| [pixel[0]; 3])
            .collect(),
    };
    let exif = reader.info().exif_metadata.as_deref();
    Ok(upright(size, rgb, exif.and_then(orientation).unwrap_or(1)))
}

/// Returns the orientation in Exif data, 1 to 8, if it has one.
fn orientation(exif: &[u8]) -> Option<u16> {
    const ORIENTATION: u64 = 0x0112;
    let is_little = exif.starts_with(b"II");
    let number = |at: usize, len: usize| {
        let bytes = exif.get(at..at.checked_add(len)?)?.iter();
        let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(match is_little {
            true => bytes.rev().fold(0, join),
            false => bytes.fold(0, join),
        })
    };
    let directory = number(4, 4)? as usize;
    let entries = 0..number(directory, 2)? as usize;
    let mut entries = entries.map(|entry| directory + 2 + 12 * entry);
    let entry = entries.find(|entry| number(*entry, 2) == Some(ORIENTATION))?;
    number(entry + 8, 2).map(|orientation| orientation as u16)
}

/// Turns a picture of this orientation upright.
fn upright([width, height]: [u32; 2], rgb: Vec<u8>, orientation: u16) -> Pixels {
    if !(2..=8).contains(&orientation) {
        return ([width, height], rgb);
    }
    let is_turned = orientation >= 5;
    let size = if is_turned {
        [height, width]
    } else {
        [width, height]
    };
    let mut turned = Vec::with_capacity(rgb.len());
    for y in 0..size[1] {
        for x in 0..size[0] {
            let (x, y) = if is_turned { (y, x) } else { (x, y) };
            let x = if matches!(orientation, 2 | 3 | 7 | 8) {
                width - 1 - x
            } else {
                x
            };
            let y = if matches!(orientation, 3 | 4 | 6 | 7) {
                height - 1 - y
            } else {
                y
            };
            let at = (y as usize * width as usize + x as usize) * 3;
            turned.extend_from_slice(&rgb[at..at + 3]);
        }
    }
    (size, turned)
}

/// Writes a drawing as a grey PNG.
pub(super) fn save(path: &Path, [width, height]: [u32; 2], grey: &[u8]) -> io::Result<()> {
    let file = BufWriter::new(fs::File::create(path)?);
    let mut encoder = png::Encoder::new(file, width, height);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header()?;
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
            let photo = load(file).unwrap();
            assert_eq!(photo.rgb.len(), (photo.width * photo.height * 3) as usize);
        }
    }

    #[test]
    fn huge_photograph_is_skipped_before_it_is_decoded() {
        // A PNG header of 100,000 x 100,000 pixels, without data.
        let mut header = b"\x89PNG\r\n\x1a\n".to_vec();
        header.extend_from_slice(&13u32.to_be_bytes());
        header.extend_from_slice(b"IHDR");
        header.extend_from_slice(&100_000u32.to_be_bytes());
        header.extend_from_slice(&100_000u32.to_be_bytes());
        header.extend_from_slice(&[8, 2, 0, 0, 0]);
        let crc = header[12..].iter().fold(!0u32, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                (crc >> 1) ^ (0xedb8_8320 & (0u32.wrapping_sub(crc & 1)))
            })
        });
        header.extend_from_slice(&(!crc).to_be_bytes());
        let reason = read_png(&header).unwrap_err();
        assert_eq!(
            reason,
            "100000 x 100000 pixels, expected at most 64 million"
        );
    }

    #[test]
    fn grey_picture_with_transparency_becomes_rgb() {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 1, 1);
        encoder.set_color(ColorType::GrayscaleAlpha);
        encoder
            .write_header()
            .unwrap()
            .write_image_data(&[9, 128])
            .unwrap();
        assert_eq!(read_png(&file), Ok(([1, 1], vec![9, 9, 9])));
        let cut = read_png(&file[..file.len() / 2]).unwrap_err();
        assert!(cut.starts_with("cannot be decoded"), "{cut}");
    }

    /// The eight pictures of the letter F with their orientations, as the standard draws them.
    #[test]
    fn every_orientation_is_turned_upright() {
        const UPRIGHT: &str = "##\n#.\n#.";
        for (orientation, stored) in [
            (1, UPRIGHT),
            (2, "##\n.#\n.#"),
            (3, ".#\n.#\n##"),
            (4, "#.\n#.\n##"),
            (5, "###\n#.."),
            (6, "#..\n###"),
            (7, "..#\n###"),
            (8, "###\n..#"),
        ] {
            let lines: Vec<&str> = stored.lines().collect();
            let size = [lines[0].len() as u32, lines.len() as u32];
            let rgb = stored
                .bytes()
                .filter(|byte| *byte != b'\n')
                .flat_map(|byte| [byte; 3]);
            let ([width, _], rgb) = upright(size, rgb.collect(), orientation);
            let pixels: Vec<u8> = rgb.iter().copied().step_by(3).collect();
            let rows = pixels.chunks(width as usize).map(String::from_utf8_lossy);
            assert_eq!(
                rows.collect::<Vec<_>>().join("\n"),
                UPRIGHT,
                "{orientation}"
            );
        }
    }

    #[test]
    fn orientation_is_read_in_both_byte_orders() {
        let little = b"II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0";
        let big = b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0";
        assert_eq!((orientation(little), orientation(big)), (Some(6), Some(6)));
        for len in 0..little.len() {
            orientation(&little[..len]);
        }
    }
}
