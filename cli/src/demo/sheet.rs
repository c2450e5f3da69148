//! The contact sheet: every photograph next to its drawing, with its name, size and histogram.
//!
//! A `Pair` keeps small copies, cut while the originals are in memory, so that a sheet of
//! thousands needs little memory.

use image::imageops::{self, FilterType};
use image::{GrayImage, ImageBuffer, ImageError, Luma, Rgb, RgbImage};

use super::filter::LEVELS;
use super::glyphs::Face;
use super::photos::Photo;

/// The limit of pairs on a sheet. Viewers refuse larger pictures.
pub(crate) const MAX_PAIRS: usize = 400;

const TILE: u32 = 240;
const GAP_IN_PAIR: u32 = 2;
const PAIR: u32 = 2 * TILE + GAP_IN_PAIR;
const HISTOGRAM: u32 = 28;
const GUTTER: u32 = 28;
const MARGIN: u32 = 40;
const HEADER: u32 = 84;
/// The target aspect ratio of the grid, width over height.
const ASPECT: f64 = 1.45;

const GROUND: Rgb<u8> = Rgb([0x17, 0x1a, 0x1f]);
const CARD: Rgb<u8> = Rgb([0x20, 0x24, 0x2b]);
const BARS: Rgb<u8> = Rgb([0xe0, 0xa4, 0x58]);
const BRIGHT: Rgb<u8> = Rgb([0xf2, 0xef, 0xe8]);
const QUIET: Rgb<u8> = Rgb([0x95, 0x9c, 0xa8]);
const ALARM: Rgb<u8> = Rgb([0xff, 0x6b, 0x5e]);

/// One photograph on the sheet.
pub(crate) struct Pair {
    name: String,
    size: String,
    equal: bool,
    before: RgbImage,
    after: GrayImage,
    histogram: Vec<u32>,
}

impl Pair {
    /// Crops the central square of a photograph and its drawing. Returns `None` if their sizes
    /// differ.
    pub(crate) fn cut(
        photo: &Photo,
        drawing: &[u8],
        histogram: &[u32],
        equal: bool,
    ) -> Option<Self> {
        let before =
            ImageBuffer::<Rgb<u8>, _>::from_raw(photo.width, photo.height, photo.rgb.as_slice())?;
        let after = ImageBuffer::<Luma<u8>, _>::from_raw(photo.width, photo.height, drawing)?;
        let side = photo.width.min(photo.height);
        let (x, y) = ((photo.width - side) / 2, (photo.height - side) / 2);
        // Pixels of small pictures stay visible; large pictures are smoothed.
        let filter = if side < TILE {
            FilterType::Nearest
        } else {
            FilterType::CatmullRom
        };
        Some(Self {
            name: photo.file.clone(),
            size: format!("{} × {}", photo.width, photo.height),
            equal,
            before: imageops::resize(
                &*imageops::crop_imm(&before, x, y, side, side),
                TILE,
                TILE,
                filter,
            ),
            after: imageops::resize(
                &*imageops::crop_imm(&after, x, y, side, side),
                TILE,
                TILE,
                filter,
            ),
            histogram: histogram.to_vec(),
        })
    }
}

/// Draws the sheet, with `title` and `subtitle` above the pairs.
pub(crate) fn draw(pairs: &[Pair], title: &str, subtitle: &str) -> Result<RgbImage, ImageError> {
    let (label, heading) = (Face::label()?, Face::title()?);
    let card_height = TILE + HISTOGRAM + label.height() + 22;
    let columns = columns(
        pairs.len(),
        f64::from(PAIR + GUTTER),
        f64::from(card_height + GUTTER),
    );
    let rows = (pairs.len() as u32).div_ceil(columns);
    let width = 2 * MARGIN + columns * (PAIR + GUTTER) - GUTTER;
    let height = HEADER + MARGIN + rows * (card_height + GUTTER) - GUTTER.min(rows * GUTTER);

    let mut sheet = RgbImage::from_pixel(width, height, GROUND);
    heading.draw(
        &mut sheet,
        (MARGIN, 18),
        &heading.fitted(title, width - 2 * MARGIN),
        BRIGHT,
    );
    label.draw(
        &mut sheet,
        (MARGIN, 52),
        &label.fitted(subtitle, width - 2 * MARGIN),
        QUIET,
    );
    for (index, pair) in pairs.iter().enumerate() {
        let index = index as u32;
        let x = MARGIN + index % columns * (PAIR + GUTTER);
        let y = HEADER + index / columns * (card_height + GUTTER);
        fill(&mut sheet, (x, y), (PAIR, card_height), CARD);
        draw_pair(&mut sheet, (x, y), pair, &label);
    }
    Ok(sheet)
}

/// Returns the number of columns that best combines the target aspect ratio with few empty places.
fn columns(pairs: usize, card_width: f64, card_height: f64) -> u32 {
    let pairs = pairs.max(1) as u32;
    let penalty = |columns: u32| {
        let rows = pairs.div_ceil(columns);
        let aspect = f64::from(columns) * card_width / (f64::from(rows) * card_height);
        let holes = f64::from(columns * rows - pairs) / f64::from(columns * rows);
        (aspect / ASPECT).ln().abs() + holes
    };
    (1..=pairs)
        .min_by(|a, b| penalty(*a).total_cmp(&penalty(*b)))
        .unwrap_or(1)
}

fn draw_pair(sheet: &mut RgbImage, (x, y): (u32, u32), pair: &Pair, label: &Face) {
    imageops::replace(sheet, &pair.before, i64::from(x), i64::from(y));
    for (dx, dy, grey) in pair.after.enumerate_pixels() {
        sheet.put_pixel(x + TILE + GAP_IN_PAIR + dx, y + dy, Rgb([grey.0[0]; 3]));
    }
    draw_histogram(sheet, (x, y + TILE + 4), &pair.histogram);
    let text_y = y + TILE + HISTOGRAM + 12;
    let right = if pair.equal {
        pair.size.clone()
    } else {
        format!("{} · DIFFERS", pair.size)
    };
    let right_width = label.width(&right);
    label.draw(
        sheet,
        (x + 10, text_y),
        &label.fitted(&pair.name, PAIR - 30 - right_width),
        BRIGHT,
    );
    label.draw(
        sheet,
        (x + PAIR - 10 - right_width, text_y),
        &right,
        if pair.equal { QUIET } else { ALARM },
    );
}

/// Draws the levels from black on the left to white on the right. A bar's height is the square
/// root of its count, so that the many pixels of paper do not hide those of ink.
fn draw_histogram(sheet: &mut RgbImage, (x, y): (u32, u32), histogram: &[u32]) {
    let highest = histogram.iter().copied().max().unwrap_or(0);
    if highest == 0 {
        return;
    }
    for column in 0..PAIR {
        let level = column as usize * LEVELS / PAIR as usize;
        let share = f64::from(histogram.get(level).copied().unwrap_or(0)) / f64::from(highest);
        let height = (share.sqrt() * f64::from(HISTOGRAM)).round() as u32;
        fill(
            sheet,
            (x + column, y + HISTOGRAM - height),
            (1, height),
            BARS,
        );
    }
}

fn fill(sheet: &mut RgbImage, (x, y): (u32, u32), (width, height): (u32, u32), colour: Rgb<u8>) {
    for dy in 0..height {
        for dx in 0..width {
            sheet.put_pixel(x + dx, y + dy, colour);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn photo(width: u32, height: u32) -> Photo {
        let rgb = (0..width * height * 3).map(|i| i as u8).collect();
        Photo {
            file: "a picture.jpg".into(),
            output: "x.png".into(),
            width,
            height,
            rgb,
        }
    }

    fn pair(width: u32, height: u32) -> Pair {
        let photo = photo(width, height);
        Pair::cut(
            &photo,
            &vec![200; (width * height) as usize],
            &[1; LEVELS],
            true,
        )
        .unwrap()
    }

    #[test]
    fn photograph_of_any_shape_gives_two_square_tiles() {
        for (width, height) in [(1, 1), (3, 500), (500, 3), (640, 427)] {
            let pair = pair(width, height);
            assert_eq!(pair.before.dimensions(), (TILE, TILE));
            assert_eq!(pair.after.dimensions(), (TILE, TILE));
            assert!(pair.after.pixels().all(|pixel| pixel.0[0] == 200));
        }
    }

    #[test]
    fn drawing_of_another_size_gives_no_pair() {
        assert!(Pair::cut(&photo(4, 4), &[0; 15], &[0; LEVELS], true).is_none());
    }

    #[test]
    fn any_number_of_pairs_fits_on_the_sheet() {
        for count in [0, 1, 2, 7, 12] {
            let pairs: Vec<_> = (0..count).map(|_| pair(2, 2)).collect();
            let sheet = draw(&pairs, "a title", "a subtitle").unwrap();
            assert!(sheet.width() >= PAIR && sheet.height() >= HEADER, "{count}");
        }
    }

    #[test]
    fn twelve_pairs_fill_their_grid() {
        let columns = columns(12, 510.0, 330.0);
        assert_eq!(12 % columns, 0, "{columns} columns leave empty places");
    }

    #[test]
    fn photograph_and_drawing_of_a_pair_are_side_by_side() {
        let sheet = draw(&[pair(2, 2)], "", "").unwrap();
        assert_eq!(sheet.get_pixel(MARGIN + 1, HEADER + 1).0, [0, 1, 2]);
        assert_eq!(sheet.get_pixel(MARGIN + PAIR - 1, HEADER + 1).0, [200; 3]);
    }
}
