//! The pencil filter in plain code, one pixel after the other in `f64`, and the comparison of a device's results with
//! it. It shares no arithmetic with the kernels and uses no device. Borders repeat the outermost pixel.
//!
//! A device adds in `f32`, may reorder additions and may fuse operations. So tones agree only within a bound, and a
//! tone close to the boundary between two bytes may round either way. [`check`] requires:
//! - *image*: every byte is the rounding of *some* value within `TONE_BOUND` of the reference's tone. That permits one
//!   byte nearly everywhere, and two next to a rounding boundary.
//! - *histogram*: exact equality, since it counts the device's own bytes.

use super::photos::Photo;
use super::pipeline::{HALF_INK, LEVELS, LUMA, PAPER, RADIUS, SIGMA};

/// The largest permitted difference between a device's tone and the reference's (tones are in 0..=1).
///
/// Rounding in `f32` (2^-24 each) through luma and two sums of eleven taps stays below 1.5e-6.
/// Sobel at most doubles that per direction: 4.3e-6 for both. The steepest slope of the tone
/// curve, 1 / `HALF_INK` = 12.5, makes it 5.4e-5. The bound leaves a factor of about two.
const TONE_BOUND: f32 = 1e-4;

/// A grey picture in `f64`.
struct Plane {
    width: usize,
    height: usize,
    values: Vec<f64>,
}

impl Plane {
    fn from_fn(width: usize, height: usize, value: impl Fn(isize, isize) -> f64) -> Self {
        let row = |y| (0..width).map(move |x| (x as isize, y as isize));
        Self {
            width,
            height,
            values: (0..height)
                .flat_map(row)
                .map(|(x, y)| value(x, y))
                .collect(),
        }
    }

    /// Returns the value at (x, y), or that of the nearest pixel if (x, y) is outside.
    fn at(&self, x: isize, y: isize) -> f64 {
        let x = x.clamp(0, self.width as isize - 1) as usize;
        let y = y.clamp(0, self.height as isize - 1) as usize;
        self.values[y * self.width + x]
    }
}

/// Computes the tone of every pixel, in 0..=1, row by row, before rounding to a byte.
pub(super) fn tones(photo: &Photo) -> Vec<f32> {
    let (width, height) = (photo.width as usize, photo.height as usize);
    let luma = Plane::from_fn(width, height, |x, y| {
        let pixel = (y as usize * width + x as usize) * 3;
        let weighted = LUMA.iter().zip(&photo.pixels.rgb[pixel..]);
        weighted
            .map(|(weight, value)| f64::from(*weight) * f64::from(*value) / 255.0)
            .sum()
    });
    let taps = taps();
    let steps = || taps.iter().zip(-(RADIUS as isize)..);
    let across = Plane::from_fn(width, height, |x, y| {
        steps().map(|(tap, k)| tap * luma.at(x + k, y)).sum()
    });
    let blurred = Plane::from_fn(width, height, |x, y| {
        steps().map(|(tap, k)| tap * across.at(x, y + k)).sum()
    });
    let tones = Plane::from_fn(width, height, |x, y| {
        let paper = f64::from(PAPER) + (1.0 - f64::from(PAPER)) * blurred.at(x, y);
        let edge = edge(&blurred, x, y);
        paper * (1.0 - edge / (edge + f64::from(HALF_INK)))
    });
    tones.values.into_iter().map(|tone| tone as f32).collect()
}

fn taps() -> Vec<f64> {
    let radius = RADIUS as i32;
    let bell = |k: i32| (-f64::from(k * k) / (2.0 * f64::from(SIGMA) * f64::from(SIGMA))).exp();
    let sum: f64 = (-radius..=radius).map(bell).sum();
    (-radius..=radius).map(|k| bell(k) / sum).collect()
}

/// Computes the Sobel gradient at (x, y).
fn edge(plane: &Plane, x: isize, y: isize) -> f64 {
    let (mut across, mut down) = (0.0, 0.0);
    for (weight, step) in [1.0, 2.0, 1.0].into_iter().zip(-1..=1) {
        across += weight * (plane.at(x + 1, y + step) - plane.at(x - 1, y + step)) / 4.0;
        down += weight * (plane.at(x + step, y + 1) - plane.at(x + step, y - 1)) / 4.0;
    }
    across.hypot(down)
}

/// Compares an image and its histogram with the reference of the photograph. The error is the first difference.
pub(super) fn check(photo: &Photo, image: &[u8], bins: &[u32]) -> Result<(), String> {
    let (tones, width) = (&photo.pixels.tones, photo.width as usize);
    if image.len() != tones.len() {
        return Err(format!(
            "image: expected {} pixels, got {}",
            tones.len(),
            image.len()
        ));
    }
    let mut counted = vec![0u32; LEVELS];
    let (mut wrong, mut first) = (0, None);
    for (index, (&got, &tone)) in image.iter().zip(tones).enumerate() {
        counted[usize::from(got)] += 1;
        if !(level(tone - TONE_BOUND)..=level(tone + TONE_BOUND)).contains(&got) {
            wrong += 1;
            first.get_or_insert((index, got, tone * 255.0));
        }
    }
    if let Some((index, got, expected)) = first {
        let (x, y) = (index % width, index / width);
        return Err(format!(
            "wrong pixels: {wrong}; the first at ({x}, {y}): expected {expected:.3}, got {got}"
        ));
    }
    match bins == counted {
        true => Ok(()),
        false => Err("the histogram does not count the pixels of the image".to_owned()),
    }
}

/// Returns the byte of a tone: the nearest one, halves rounded up.
fn level(tone: f32) -> u8 {
    (tone * 255.0 + 0.5) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn photo(width: u32, height: u32, grey: impl Fn(u32, u32) -> u8) -> Photo {
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let mut photo = Photo {
            width,
            height,
            ..Photo::default()
        };
        photo.pixels.rgb = pixels.flat_map(|(x, y)| [grey(x, y); 3]).collect();
        photo
    }

    #[test]
    fn uniform_grey_has_no_ink() {
        for value in [0u8, 100, 255] {
            let paper = PAPER + (1.0 - PAPER) * f32::from(value) / 255.0;
            for tone in tones(&photo(7, 4, |_, _| value)) {
                assert!((tone - paper).abs() < 1e-6, "expected {paper}, got {tone}");
            }
        }
    }

    #[test]
    fn only_the_edge_has_ink() {
        let tones = tones(&photo(40, 3, |x, _| if x < 20 { 0 } else { 255 }));
        assert!(tones[19] < 0.5 && tones[20] < 0.5, "no ink at the edge");
        assert!((tones[0] - PAPER).abs() < 1e-6);
        assert!((tones[39] - 1.0).abs() < 1e-6);
    }

    #[test]
    fn transposed_photograph_gives_the_transposed_drawing() {
        let wave = |a: u32, b: u32| ((a * 37 + b * b * 11) % 251) as u8;
        let upright = tones(&photo(9, 6, wave));
        let turned = tones(&photo(6, 9, |x, y| wave(y, x)));
        for y in 0..6 {
            for x in 0..9 {
                assert!((upright[y * 9 + x] - turned[x * 6 + y]).abs() < 1e-6);
            }
        }
    }

    /// A photograph of this width whose reference has these tones.
    fn of_tones(width: u32, tones: &[f32]) -> Photo {
        let mut photo = photo(width, 0, |_, _| 0);
        photo.pixels.tones = tones.to_vec();
        photo
    }

    fn histogram(image: &[u8]) -> Vec<u32> {
        let mut bins = vec![0; LEVELS];
        image
            .iter()
            .for_each(|level| bins[usize::from(*level)] += 1);
        bins
    }

    #[test]
    fn one_level_off_passes_only_next_to_a_rounding_boundary() {
        let (image, edge) = ([100], 100.5 / 255.0);
        let bins = histogram(&image);
        assert_eq!(check(&of_tones(1, &[100.0 / 255.0]), &image, &bins), Ok(()));
        assert_eq!(check(&of_tones(1, &[edge + 5e-5]), &image, &bins), Ok(()));
        assert!(check(&of_tones(1, &[101.0 / 255.0]), &image, &bins).is_err());
    }

    #[test]
    fn wrong_pixel_is_reported_with_its_coordinates() {
        let mut image = vec![10u8; 12];
        image[7] = 200;
        assert_eq!(
            check(
                &of_tones(5, &[10.0 / 255.0; 12]),
                &image,
                &histogram(&image)
            )
            .unwrap_err(),
            "wrong pixels: 1; the first at (2, 1): expected 10.000, got 200"
        );
    }

    #[test]
    fn wrong_histogram_and_short_results_are_different() {
        let (mut bins, photo) = (histogram(&[3; 4]), of_tones(2, &[3.0 / 255.0; 4]));
        assert!(check(&photo, &[3; 3], &bins).is_err());
        assert!(check(&photo, &[3; 4], &bins[..4]).is_err());
        bins[3] -= 1;
        assert!(check(&photo, &[3; 4], &bins).is_err());
    }
}
