//! Pictures of 8 bits a channel, as PNG files: what the examples draw, and what tests write and compare.
//!
//! ```
//! use millstream_picture::{Picture, Rgb};
//!
//! let mut picture = Picture::from_fn(3, 2, |x, y| Rgb([x as u8, y as u8, 7]));
//! assert_eq!(picture.pixel_mut(2, 1), Some(&mut Rgb([2, 1, 7])));
//! assert_eq!(picture.pixel_mut(3, 0), None);
//! assert_eq!(Picture::from_png(&picture.to_png()?)?, picture);
//! # Ok::<_, std::io::Error>(())
//! ```

use std::io::{Cursor, Error, ErrorKind};
use std::path::Path;

/// A colour: red, green and blue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rgb(pub [u8; 3]);

/// A picture: rows of pixels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    width: u32,
    height: u32,
    pixels: Vec<Rgb>,
}

impl Picture {
    /// Creates a picture with the colour that `pixel` returns for each x and y.
    pub fn from_fn(width: u32, height: u32, mut pixel: impl FnMut(u32, u32) -> Rgb) -> Self {
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let pixels = places.map(|(x, y)| pixel(x, y)).collect();
        Self {
            width,
            height,
            pixels,
        }
    }

    /// Decodes a PNG file. Grey becomes a colour of three equal channels.
    ///
    /// # Errors
    /// The file is no valid PNG.
    pub fn from_png(png: &[u8]) -> Result<Self, Error> {
        let mut decoder = png::Decoder::new(Cursor::new(png));
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info()?;
        let bytes = reader.output_buffer_size();
        let mut data = vec![0; bytes.ok_or(ErrorKind::FileTooLarge)?];
        let frame = reader.next_frame(&mut data)?;
        let samples = data[..frame.buffer_size()].chunks_exact(frame.color_type.samples());
        let pixel = |samples: &[u8]| match *samples {
            [red, green, blue, ..] => Rgb([red, green, blue]),
            [grey, ..] => Rgb([grey; 3]),
            [] => Rgb([0; 3]),
        };
        Ok(Self {
            width: frame.width,
            height: frame.height,
            pixels: samples.map(pixel).collect(),
        })
    }

    /// Reads a PNG file.
    ///
    /// # Errors
    /// The file cannot be read, or is no valid PNG.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_png(&std::fs::read(path)?)
    }

    /// Encodes the picture as a PNG file.
    ///
    /// # Errors
    /// The picture has no pixels.
    pub fn to_png(&self) -> Result<Vec<u8>, Error> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        let bytes: Vec<u8> = self.pixels.iter().flat_map(|pixel| pixel.0).collect();
        encoder.write_header()?.write_image_data(&bytes)?;
        Ok(file)
    }

    /// Writes the picture to a PNG file.
    ///
    /// # Errors
    /// The file cannot be written, or the picture has no pixels.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        std::fs::write(path, self.to_png()?)
    }

    /// Returns the width and the height.
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// Returns all pixels, row by row.
    pub fn pixels(&self) -> &[Rgb] {
        &self.pixels
    }

    /// Returns a pixel, or `None` outside of the picture.
    pub fn pixel_mut(&mut self, x: u32, y: u32) -> Option<&mut Rgb> {
        let is_inside = x < self.width && y < self.height;
        let place = (y as usize) * (self.width as usize) + x as usize;
        self.pixels.get_mut(place).filter(|_| is_inside)
    }
}
