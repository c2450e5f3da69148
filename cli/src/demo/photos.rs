//! Reads the size of photographs, and their pixels as rows of RGB.
//!
//! A file is decoded only after its size is known to be within the limits. Only plain files are
//! opened, since reading a named pipe could block forever. The content decides the format, not the
//! name. A file that is not a photograph gives a `SkipReason`, which `input.rs` reports.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::Path;

use image::{DynamicImage, ImageDecoder, ImageError, ImageReader, Limits};

use super::files::{PhotoFile, Skipped};

/// The largest photograph that is converted. Each pixel takes 12 bytes on the device.
pub(crate) const MAX_PIXELS: u64 = 64_000_000;
/// The bytes that a decoder may allocate: 16-bit RGBA of the largest photograph.
const MAX_DECODER_BYTES: u64 = MAX_PIXELS * 8;

/// A photograph in memory: rows of 8-bit RGB, upright.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Photo {
    pub(crate) file: String,
    pub(crate) output: String,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// `width * height * 3` bytes, at least one pixel.
    pub(crate) rgb: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SkipReason {
    #[error("neither JPEG nor PNG")]
    NotAPhotograph,
    #[error("empty file")]
    Empty,
    #[error("not a plain file")]
    NotAFile,
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("cannot be decoded: {0}")]
    Broken(String),
    #[error("{width} x {height} pixels, expected at most {} million", MAX_PIXELS / 1_000_000)]
    TooLarge { width: u32, height: u32 },
}

impl From<ImageError> for SkipReason {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::IoError(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
                Self::Unreadable(source)
            }
            ImageError::Unsupported(_) => Self::NotAPhotograph,
            other => Self::Broken(other.to_string()),
        }
    }
}

/// Reads one photograph into memory.
pub(crate) fn load(source: &PhotoFile) -> Result<Photo, Skipped> {
    decode(&source.path)
        .map(|image| {
            let rgb = image.into_rgb8();
            Photo {
                file: source.file.clone(),
                output: source.output.clone(),
                width: rgb.width(),
                height: rgb.height(),
                rgb: rgb.into_raw(),
            }
        })
        .map_err(|reason| Skipped {
            file: source.file.clone(),
            reason: reason.to_string(),
        })
}

fn open(path: &Path) -> Result<ImageReader<BufReader<File>>, SkipReason> {
    let kind = fs::metadata(path).map_err(SkipReason::Unreadable)?;
    if !kind.is_file() {
        return Err(SkipReason::NotAFile);
    }
    if kind.len() == 0 {
        return Err(SkipReason::Empty);
    }
    let file = File::open(path).map_err(SkipReason::Unreadable)?;
    // The format comes from the content, not from the name.
    let mut reader = ImageReader::new(BufReader::new(file))
        .with_guessed_format()
        .map_err(SkipReason::Unreadable)?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    Ok(reader)
}

/// Reads the width and height from the header, without decoding the image.
pub(crate) fn size(path: &Path) -> Result<(u32, u32), SkipReason> {
    let (width, height) = open(path)?.into_dimensions()?;
    if width == 0 || height == 0 {
        return Err(SkipReason::Empty);
    }
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(SkipReason::TooLarge { width, height });
    }
    Ok((width, height))
}

fn decode(path: &Path) -> Result<DynamicImage, SkipReason> {
    // The file may have changed since it was found, so its size is checked again.
    size(path)?;
    let mut decoder = open(path)?.into_decoder()?;
    let orientation = decoder.orientation()?;
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    Ok(image)
}

#[cfg(test)]
mod tests {
    use image::{GrayAlphaImage, RgbImage};

    use super::super::input;
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn photograph_is_loaded_as_rows_of_rgb() {
        let folder = Scratch::new("photos_rows");
        RgbImage::from_fn(5, 3, |x, y| image::Rgb([x as u8, y as u8, 7]))
            .save(folder.path().join("a.png"))
            .unwrap();
        let photo = load(&input::find(folder.path()).unwrap().photos[0]).unwrap();
        assert_eq!((photo.width, photo.height, photo.rgb.len()), (5, 3, 45));
        assert_eq!(photo.rgb[(2 * 5 + 4) * 3..], [4, 2, 7]);
    }

    #[test]
    fn file_truncated_after_its_header_is_skipped_on_load() {
        let folder = Scratch::new("photos_cut");
        folder.photograph("whole.png", 64, 64);
        let bytes = fs::read(folder.path().join("whole.png")).unwrap();
        fs::write(folder.path().join("cut.png"), &bytes[..bytes.len() / 2]).unwrap();
        let input = input::find(folder.path()).unwrap();
        let cut = input
            .photos
            .iter()
            .find(|photo| photo.file == "cut.png")
            .unwrap();
        assert!(
            load(cut)
                .unwrap_err()
                .reason
                .starts_with("cannot be decoded")
        );
    }

    #[test]
    fn huge_photograph_is_skipped_before_it_is_decoded() {
        // A PNG header of 100,000 x 100,000 pixels, without data.
        let folder = Scratch::new("photos_huge");
        let mut header = Vec::new();
        header.extend_from_slice(b"\x89PNG\r\n\x1a\n");
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
        header.extend_from_slice(&0u32.to_be_bytes());
        header.extend_from_slice(b"IDAT\x35\xaf\x06\x1e");
        fs::write(folder.path().join("huge.png"), header).unwrap();
        let input = input::find(folder.path()).unwrap();
        assert_eq!(
            input.skipped[0].reason,
            "100000 x 100000 pixels, expected at most 64 million"
        );
    }

    #[test]
    fn grey_and_transparent_pictures_are_converted_to_rgb() {
        let folder = Scratch::new("photos_grey");
        GrayAlphaImage::from_pixel(1, 1, image::LumaA([9, 128]))
            .save(folder.path().join("dot.png"))
            .unwrap();
        let input = input::find(folder.path()).unwrap();
        assert_eq!(load(&input.photos[0]).unwrap().rgb, [9, 9, 9]);
    }

    #[test]
    fn every_photograph_of_the_repository_loads() {
        let input =
            input::find(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/photos")).unwrap();
        assert_eq!(input.skipped, []);
        assert!(input.photos.len() >= 8);
        for photo in &input.photos {
            load(photo).unwrap();
        }
    }
}
