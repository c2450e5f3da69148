//! Holds what came back from the device against the reference.
//!
//! **What is demanded, and why.** A device adds in `f32`, in an order and with fused operations
//! of its own choice; the reference adds in `f64`. So tones are equal only within a bound, and a
//! tone that lies on the edge between two bytes may be rounded either way. Hence:
//! - *image*: every byte is the rounding of *some* value within `TONE_BOUND` of the reference's
//!   tone. Nearly everywhere that leaves exactly one byte; beside a rounding edge it leaves two.
//! - *histogram*: exact. It counts the device's own bytes, and integers have no excuse.

use super::recipe::LEVELS;

/// How far a device's tone may lie from the reference's (tones go from 0 to 1).
///
/// Rounding in `f32` (2^-24 each) through luma and two sums of eleven taps stays below 1.5e-6;
/// Sobel at most doubles that per direction, 4.3e-6 for both; the steepest place of the tone
/// curve, 1 / `HALF_INK` = 12.5, makes it 5.4e-5. The bound leaves a factor of about two.
pub(crate) const TONE_BOUND: f32 = 1e-4;

/// What the check found in one result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// Right; so many pixels lie beside a rounding edge and went the other way.
    Equal { rounded_otherwise: u64 },
    /// Wrong, and how.
    Different(Difference),
}

/// The first thing that is wrong with a result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Difference {
    #[error("the {what} has {got} entries, expected {expected}")]
    Length {
        what: &'static str,
        got: usize,
        expected: usize,
    },
    #[error(
        "wrong pixels: {wrong}; the first at ({x}, {y}) is {got}, the reference says {expected:.3}"
    )]
    Image {
        wrong: u64,
        x: usize,
        y: usize,
        got: u8,
        expected: f32,
    },
    #[error("the histogram counts {got} pixels of level {level}, the image has {expected}")]
    Histogram {
        level: usize,
        got: u32,
        expected: u32,
    },
}

/// Checks an image and its histogram; `tones` is the reference, `width` places a wrong pixel.
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

/// The byte of a tone: nearest, halves up.
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
    fn equal_is_equal() {
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
    fn one_level_off_passes_only_beside_a_rounding_edge() {
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
    fn a_wrong_pixel_is_named_by_its_place() {
        let mut image = vec![10u8; 12];
        image[7] = 200;
        let Verdict::Different(difference) =
            check(&[10.0 / 255.0; 12], 5, &image, &histogram(&image))
        else {
            panic!("a wrong pixel passed");
        };
        assert_eq!(
            difference.to_string(),
            "wrong pixels: 1; the first at (2, 1) is 200, the reference says 10.000"
        );
    }

    #[test]
    fn a_histogram_must_be_exact() {
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
    fn short_answers_are_different_and_do_not_panic() {
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
