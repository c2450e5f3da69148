//! Compares the device's results with the reference.
//!
//! A device adds in `f32`, may reorder additions and may fuse operations; the reference adds in
//! `f64`. So tones agree only within a bound, and a tone close to the boundary between two bytes
//! may round either way. The check requires:
//! - *image*: every byte is the rounding of *some* value within `TONE_BOUND` of the reference's
//!   tone. That permits one byte nearly everywhere, and two next to a rounding boundary.
//! - *histogram*: exact equality, since it counts the device's own bytes.

use super::filter::LEVELS;

/// The largest permitted difference between a device's tone and the reference's (tones are in 0..=1).
///
/// Rounding in `f32` (2^-24 each) through luma and two sums of eleven taps stays below 1.5e-6.
/// Sobel at most doubles that per direction: 4.3e-6 for both. The steepest slope of the tone
/// curve, 1 / `HALF_INK` = 12.5, makes it 5.4e-5. The bound leaves a factor of about two.
pub(crate) const TONE_BOUND: f32 = 1e-4;

/// The outcome of the check of one result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// The result is correct. `rounded_otherwise` pixels next to a rounding boundary rounded the other way.
    Equal { rounded_otherwise: u64 },
    /// The result is wrong.
    Different(Difference),
}

/// The first difference between a result and the reference.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Difference {
    #[error("{what}: expected {expected} entries, got {got}")]
    Length {
        what: &'static str,
        got: usize,
        expected: usize,
    },
    #[error("wrong pixels: {wrong}; the first at ({x}, {y}): expected {expected:.3}, got {got}")]
    Image {
        wrong: u64,
        x: usize,
        y: usize,
        got: u8,
        expected: f32,
    },
    #[error("histogram: expected {expected} pixels of level {level} as in the image, got {got}")]
    Histogram {
        level: usize,
        got: u32,
        expected: u32,
    },
}

/// Checks an image and its histogram against the reference `tones`. `width` locates a wrong pixel.
pub(crate) fn check(tones: &[f32], width: usize, image: &[u8], histogram: &[u32]) -> Verdict {
    match difference(tones, width, image, histogram) {
        Ok(rounded_otherwise) => Verdict::Equal { rounded_otherwise },
        Err(difference) => Verdict::Different(difference),
    }
}

fn difference(
    tones: &[f32],
    width: usize,
    image: &[u8],
    histogram: &[u32],
) -> Result<u64, Difference> {
    if image.len() != tones.len() {
        return Err(Difference::Length {
            what: "image",
            got: image.len(),
            expected: tones.len(),
        });
    }
    if histogram.len() != LEVELS {
        return Err(Difference::Length {
            what: "histogram",
            got: histogram.len(),
            expected: LEVELS,
        });
    }
    let mut counted = [0u32; LEVELS];
    let (mut rounded_otherwise, mut wrong, mut first) = (0, 0, None);
    for (index, (&got, &tone)) in image.iter().zip(tones).enumerate() {
        counted[usize::from(got)] += 1;
        if got != level(tone) {
            if (level(tone - TONE_BOUND)..=level(tone + TONE_BOUND)).contains(&got) {
                rounded_otherwise += 1;
            } else {
                wrong += 1;
                first.get_or_insert(index);
            }
        }
    }
    if let Some(index) = first {
        return Err(Difference::Image {
            wrong,
            x: index % width,
            y: index / width,
            got: image[index],
            expected: tones[index] * 255.0,
        });
    }
    match (0..LEVELS).find(|&level| histogram[level] != counted[level]) {
        Some(level) => Err(Difference::Histogram {
            level,
            got: histogram[level],
            expected: counted[level],
        }),
        None => Ok(rounded_otherwise),
    }
}

/// Returns the byte of a tone: the nearest one, halves rounded up.
fn level(tone: f32) -> u8 {
    (tone * 255.0 + 0.5) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(image: &[u8]) -> Vec<u32> {
        let mut bins = vec![0; LEVELS];
        for &level in image {
            bins[usize::from(level)] += 1;
        }
        bins
    }

    #[test]
    fn result_equal_to_the_reference_passes() {
        let image = [0, 128, 255];
        let tones = [0.0, 128.0 / 255.0, 1.0];
        assert_eq!(
            check(&tones, 3, &image, &histogram(&image)),
            Verdict::Equal {
                rounded_otherwise: 0
            }
        );
    }

    #[test]
    fn one_level_off_passes_only_next_to_a_rounding_boundary() {
        let image = [100];
        let bins = histogram(&image);
        let edge = 100.5 / 255.0;
        assert_eq!(
            check(&[edge + 5e-5], 1, &image, &bins),
            Verdict::Equal {
                rounded_otherwise: 1
            }
        );
        let off = 101.0 / 255.0;
        let verdict = check(&[off], 1, &image, &bins);
        assert!(
            matches!(
                verdict,
                Verdict::Different(Difference::Image { wrong: 1, .. })
            ),
            "{verdict:?}"
        );
    }

    #[test]
    fn wrong_pixel_is_reported_with_its_coordinates() {
        let mut image = vec![10u8; 12];
        image[7] = 200;
        let Verdict::Different(difference) =
            check(&[10.0 / 255.0; 12], 5, &image, &histogram(&image))
        else {
            panic!("the check accepted a wrong pixel");
        };
        assert_eq!(
            difference.to_string(),
            "wrong pixels: 1; the first at (2, 1): expected 10.000, got 200"
        );
    }

    #[test]
    fn histogram_that_is_off_by_one_is_different() {
        let image = [3u8; 4];
        let mut bins = histogram(&image);
        bins[3] -= 1;
        let verdict = check(&[3.0 / 255.0; 4], 4, &image, &bins);
        assert_eq!(
            verdict,
            Verdict::Different(Difference::Histogram {
                level: 3,
                got: 3,
                expected: 4
            })
        );
    }

    #[test]
    fn short_results_are_different_and_do_not_panic() {
        let verdict = check(&[0.0; 4], 2, &[0; 3], &[0; LEVELS]);
        assert!(matches!(
            verdict,
            Verdict::Different(Difference::Length { what: "image", .. })
        ));
        let verdict = check(&[0.0; 4], 2, &[0; 4], &[4]);
        assert!(matches!(
            verdict,
            Verdict::Different(Difference::Length {
                what: "histogram",
                ..
            })
        ));
    }
}
