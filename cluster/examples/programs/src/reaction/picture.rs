//! Draws the second substance.

use std::path::Path;

use millstream_picture::{Picture, Rgb};

use super::{Domain, Failure};

/// The colours from none of the second substance to its maximum.
const COLOURS: [[u8; 3]; 6] = [
    [10, 14, 46],
    [22, 52, 110],
    [18, 122, 142],
    [110, 190, 130],
    [246, 214, 110],
    [255, 248, 224],
];
/// The concentration that has the last colour.
const MAXIMUM: f32 = 0.385;

/// Writes a picture with one pixel for each cell.
///
/// # Errors
/// A cell that is not finite; a file that cannot be written.
pub fn save(domain: Domain, second: &[f32], file: &Path) -> Result<(), Failure> {
    if second.iter().any(|cell| !cell.is_finite()) {
        return Err("the simulation diverged: a cell is not finite".into());
    }
    let (width, height) = (u32::try_from(domain.columns)?, u32::try_from(domain.rows)?);
    if second.len() != domain.columns * domain.rows {
        return Err("the picture has another size than the domain".into());
    }
    let picture = Picture::from_fn(width, height, |x, y| {
        let cell = second[y as usize * domain.columns + x as usize];
        colour(cell / MAXIMUM)
    });
    picture.save(file)?;
    Ok(())
}

/// Returns the colour of a share of the maximum, between two of the list.
fn colour(share: f32) -> Rgb {
    let position = share.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f32;
    let below = (position as usize).min(COLOURS.len() - 2);
    let part = position - below as f32;
    let channel = |channel: usize| {
        let (from, to) = (COLOURS[below][channel], COLOURS[below + 1][channel]);
        (f32::from(from) + (f32::from(to) - f32::from(from)) * part) as u8
    };
    Rgb([0, 1, 2].map(channel))
}
