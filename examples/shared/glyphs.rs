//! Draws lines of text into a picture from two glyph atlases.
//!
//! The atlases (`assets/`) have printable ASCII, Latin-1 and the ellipsis in a fixed grid,
//! white on black. There is no shaping and no line breaking; a missing character becomes `?`.

use std::io::Error;

use millstream_picture::{Picture, Rgb};

/// Glyphs per row of an atlas.
const COLUMNS: u32 = 16;
// An atlas has printable ASCII, then printable Latin-1, then the ellipsis.
const ASCII: usize = '~' as usize - ' ' as usize + 1;
const LATIN: usize = 'ÿ' as usize - '¡' as usize + 1;
const GLYPHS: usize = ASCII + LATIN + 1;

#[rustfmt::skip]
const LABEL_ADVANCES: [u8; GLYPHS] = [
    5, 6, 7, 13, 10, 14, 12, 4, 6, 6, 8, 13, 5, 5, 5, 5, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10,
    5, 5, 13, 13, 13, 8, 15, 10, 10, 10, 12, 9, 9, 12, 11, 4, 4, 10, 8, 13, 11, 12, 9, 12, 10, 10,
    9, 11, 10, 15, 10, 9, 10, 6, 5, 6, 13, 8, 8, 9, 10, 8, 10, 9, 5, 10, 10, 4, 4, 9, 4, 15, 10,
    9, 10, 10, 6, 8, 6, 10, 9, 12, 9, 9, 8, 10, 5, 10, 13, 6, 10, 10, 10, 10, 5, 8, 8, 15, 7, 9,
    13, 0, 15, 8, 8, 13, 6, 6, 8, 10, 10, 5, 8, 6, 7, 9, 15, 15, 15, 8, 10, 10, 10, 10, 10, 10,
    15, 10, 9, 9, 9, 9, 4, 4, 4, 4, 12, 11, 12, 12, 12, 12, 12, 13, 12, 11, 11, 11, 11, 9, 9, 9,
    9, 9, 9, 9, 9, 9, 15, 8, 9, 9, 9, 9, 4, 4, 4, 4, 9, 10, 9, 9, 9, 9, 9, 13, 9, 10, 10, 10, 10,
    9, 10, 9, 15,
];
#[rustfmt::skip]
const TITLE_ADVANCES: [u8; GLYPHS] = [
    9, 12, 14, 22, 18, 26, 23, 8, 12, 12, 14, 22, 10, 11, 10, 10, 18, 18, 18, 18, 18, 18, 18, 18,
    18, 18, 10, 10, 22, 22, 22, 15, 26, 20, 20, 19, 22, 18, 18, 21, 22, 10, 10, 20, 17, 26, 22,
    22, 19, 22, 20, 19, 18, 21, 20, 29, 20, 19, 19, 12, 10, 12, 22, 13, 13, 18, 19, 15, 19, 18,
    11, 19, 19, 9, 9, 17, 9, 27, 19, 18, 19, 19, 13, 15, 12, 19, 17, 24, 17, 17, 15, 19, 10, 19,
    22, 12, 18, 18, 17, 18, 10, 13, 13, 26, 15, 17, 22, 0, 26, 13, 13, 22, 11, 11, 13, 19, 17, 10,
    13, 11, 15, 17, 27, 27, 27, 15, 20, 20, 20, 20, 20, 20, 28, 19, 18, 18, 18, 18, 10, 10, 10,
    10, 22, 22, 22, 22, 22, 22, 22, 22, 22, 21, 21, 21, 21, 19, 19, 19, 18, 18, 18, 18, 18, 18,
    27, 15, 18, 18, 18, 18, 9, 9, 9, 9, 18, 19, 18, 18, 18, 18, 18, 22, 18, 19, 19, 19, 19, 17,
    19, 17, 26,
];

/// A font of one size.
pub(crate) struct Face {
    atlas: Picture,
    advances: &'static [u8; GLYPHS],
}

impl Face {
    /// Loads the small font for labels, 18 pixels high.
    pub(crate) fn label() -> Result<Self, Error> {
        Self::from_png(include_bytes!("assets/label.png"), &LABEL_ADVANCES)
    }

    /// Loads the large bold font for titles, 32 pixels high.
    pub(crate) fn title() -> Result<Self, Error> {
        Self::from_png(include_bytes!("assets/title.png"), &TITLE_ADVANCES)
    }

    fn from_png(png: &[u8], advances: &'static [u8; GLYPHS]) -> Result<Self, Error> {
        Ok(Self {
            atlas: Picture::from_png(png)?,
            advances,
        })
    }

    fn cell(&self) -> (u32, u32) {
        let rows = (GLYPHS as u32).div_ceil(COLUMNS);
        let (width, height) = self.atlas.size();
        (width / COLUMNS, height / rows)
    }

    /// Returns the width of `text`, in pixels.
    pub(crate) fn width(&self, text: &str) -> u32 {
        text.chars()
            .map(|c| u32::from(self.advances[glyph(c)]))
            .sum()
    }

    /// Draws `text` with its upper left corner at (x, y), clipped to the picture.
    pub(crate) fn draw(&self, picture: &mut Picture, (x, y): (u32, u32), text: &str, colour: Rgb) {
        let (cell_width, cell_height) = self.cell();
        let mut left = x;
        for c in text.chars() {
            let index = glyph(c) as u32;
            let (atlas_x, atlas_y) = (index % COLUMNS * cell_width, index / COLUMNS * cell_height);
            for (dx, dy) in (0..cell_height).flat_map(|dy| (0..cell_width).map(move |dx| (dx, dy)))
            {
                let place = (atlas_y + dy) * self.atlas.size().0 + atlas_x + dx;
                let cover = u32::from(self.atlas.pixels()[place as usize].0[0]);
                if let Some(pixel) = picture.pixel_mut(left + dx, y + dy) {
                    for (under, over) in pixel.0.iter_mut().zip(colour.0) {
                        *under =
                            ((u32::from(*under) * (255 - cover) + u32::from(over) * cover + 127)
                                / 255) as u8;
                    }
                }
            }
            left += u32::from(self.advances[index as usize]);
        }
    }
}

fn glyph(c: char) -> usize {
    match c {
        ' '..='~' => c as usize - ' ' as usize,
        '¡'..='ÿ' => ASCII + c as usize - '¡' as usize,
        '…' => ASCII + LATIN,
        _ => '?' as usize - ' ' as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_glyph_of_both_atlases_has_ink() {
        for face in [Face::label().unwrap(), Face::title().unwrap()] {
            for c in ('!'..='~').chain('®'..='ÿ').chain(['…']) {
                let mut picture = Picture::from_fn(40, 40, |_, _| Rgb([0; 3]));
                face.draw(&mut picture, (2, 2), &c.to_string(), Rgb([255; 3]));
                assert!(
                    picture.pixels().iter().any(|pixel| pixel.0[0] > 100),
                    "{c} is blank"
                );
            }
        }
    }

    #[test]
    fn text_outside_the_picture_is_clipped() {
        let face = Face::title().unwrap();
        let mut picture = Picture::from_fn(10, 10, |_, _| Rgb([0; 3]));
        face.draw(&mut picture, (5, 8), "Träumerei 漢字", Rgb([255; 3]));
    }
}
