//! Round values for linear axes, and the text of ticks.

use crate::digits;

/// Returns round values from zero to at least `most`: three to nine of them, a constant step apart. From zero to one if
/// `most` is not above zero.
pub(crate) fn levels(most: f64) -> Vec<f64> {
    let most = if most > 0.0 { most } else { 1.0 };
    let unit = 10_f64.powf((most / 4.0).log10().floor());
    let round = [1.0, 2.0, 2.5, 5.0].map(|factor| factor * unit);
    let step = round.into_iter().rfind(|step| *step <= most / 4.0);
    let step = step.unwrap_or(unit);
    // A value that rounding puts a little above a tick needs no further one.
    let last = (most / step - 1e-9).ceil() as u32;
    (0..=last).map(|level| step * f64::from(level)).collect()
}

/// Formats a tick with three significant digits, without zeros at the end of a fraction: 0.25, 2.5, 25, 1024.
pub(crate) fn tick_text(value: f64) -> String {
    let text = digits(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_round() {
        assert_eq!(levels(102.0), [0.0, 25.0, 50.0, 75.0, 100.0, 125.0]);
        assert_eq!(levels(1.0), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(levels(f64::NEG_INFINITY).len(), 5);
        for tenth in 1..2_000 {
            let levels = levels(f64::from(tenth) / 10.0);
            assert!((5..=9).contains(&levels.len()), "{levels:?}");
        }
    }

    #[test]
    fn ticks_have_no_zeros_at_the_end_of_a_fraction() {
        let texts = [0.0, 0.25, 0.5, 2.5, 7.5, 25.0, 100.0, 1024.0, 0.1 + 0.2].map(tick_text);
        let expected = ["0", "0.25", "0.5", "2.5", "7.5", "25", "100", "1024", "0.3"];
        assert_eq!(texts, expected);
    }
}
