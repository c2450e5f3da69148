//! The reference: the pencil filter in plain code, one pixel after the other in `f64`.
//!
//! It shares no arithmetic with the kernels and uses no device. Borders repeat the outermost
//! pixel. It returns the tone of each pixel, in 0..=1, *before* rounding to a byte; `check.rs`
//! compares the device's bytes with it.

use super::filter::{HALF_INK, LUMA, PAPER, RADIUS, SIGMA};
use super::photos::Photo;

/// A grey picture in `f64`.
struct Plane {
    width: usize,
    height: usize,
    values: Vec<f64>,
}

impl Plane {
    fn from_fn(width: usize, height: usize, mut value: impl FnMut(isize, isize) -> f64) -> Self {
        let mut values = Vec::with_capacity(width * height);
        for y in 0..height {
            for x in 0..width {
                values.push(value(x as isize, y as isize));
            }
        }
        Self {
            width,
            height,
            values,
        }
    }

    /// Returns the value at (x, y), or that of the nearest pixel if (x, y) is outside.
    fn at(&self, x: isize, y: isize) -> f64 {
        let x = x.clamp(0, self.width as isize - 1) as usize;
        let y = y.clamp(0, self.height as isize - 1) as usize;
        self.values[y * self.width + x]
    }
}

/// Computes the tone of every pixel, row by row.
pub(crate) fn tones(photo: &Photo) -> Vec<f32> {
    let blurred = blur(&luma(photo));
    let mut tones = Vec::with_capacity(blurred.values.len());
    for y in 0..blurred.height as isize {
        for x in 0..blurred.width as isize {
            tones.push(tone(blurred.at(x, y), edge(&blurred, x, y)) as f32);
        }
    }
    tones
}

/// Blurs along the rows, then along the columns.
fn blur(plane: &Plane) -> Plane {
    let taps = taps();
    let steps = || taps.iter().zip(-(RADIUS as isize)..);
    let across = Plane::from_fn(plane.width, plane.height, |x, y| {
        steps().map(|(tap, k)| tap * plane.at(x + k, y)).sum()
    });
    Plane::from_fn(plane.width, plane.height, |x, y| {
        steps().map(|(tap, k)| tap * across.at(x, y + k)).sum()
    })
}

fn luma(photo: &Photo) -> Plane {
    let width = photo.width as usize;
    Plane::from_fn(width, photo.height as usize, |x, y| {
        let pixel = (y as usize * width + x as usize) * 3;
        (0..3)
            .map(|channel| f64::from(LUMA[channel]) * f64::from(photo.rgb[pixel + channel]) / 255.0)
            .sum()
    })
}

fn taps() -> Vec<f64> {
    let radius = RADIUS as i32;
    let bell = |k: i32| (-f64::from(k * k) / (2.0 * f64::from(SIGMA) * f64::from(SIGMA))).exp();
    let sum: f64 = (-radius..=radius).map(bell).sum();
    (-radius..=radius).map(|k| bell(k) / sum).collect()
}

/// Computes the Sobel gradient at (x, y).
fn edge(plane: &Plane, x: isize, y: isize) -> f64 {
    const WEIGHT: [f64; 3] = [1.0, 2.0, 1.0];
    let mut across = 0.0;
    let mut down = 0.0;
    for (weight, step) in WEIGHT.into_iter().zip(-1..=1) {
        across += weight * (plane.at(x + 1, y + step) - plane.at(x - 1, y + step)) / 4.0;
        down += weight * (plane.at(x + step, y + 1) - plane.at(x + step, y - 1)) / 4.0;
    }
    across.hypot(down)
}

fn tone(light: f64, edge: f64) -> f64 {
    let paper = f64::from(PAPER) + (1.0 - f64::from(PAPER)) * light;
    let ink = edge / (edge + f64::from(HALF_INK));
    paper * (1.0 - ink)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn photo(width: u32, height: u32, grey: impl Fn(u32, u32) -> u8) -> Photo {
        let mut rgb = Vec::new();
        for y in 0..height {
            for x in 0..width {
                rgb.extend([grey(x, y); 3]);
            }
        }
        Photo {
            file: "test".into(),
            output: "test.png".into(),
            width,
            height,
            rgb,
        }
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
    fn photograph_of_one_pixel_has_one_tone() {
        assert_eq!(tones(&photo(1, 1, |_, _| 255)).len(), 1);
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

    #[test]
    fn taps_sum_to_one_and_are_symmetric() {
        let taps = taps();
        assert!((taps.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(
            taps.iter()
                .zip(taps.iter().rev())
                .all(|(left, right)| left == right)
        );
        assert!(
            taps[0] < 0.002 * taps[RADIUS],
            "the radius truncates the Gaussian"
        );
    }
}
