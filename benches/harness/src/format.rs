//! Formats numbers as text.

/// The content of a cell without a figure.
const NONE: &str = "-";

/// Formats a value with three significant digits, but keeps all digits before the point and at most six after it:
/// 0.0123, 1.23, 12.3, 123, 12345.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        magnitude => (2 - magnitude.log10().floor() as i64).clamp(0, 6) as usize,
    };
    format!("{value:.decimals$}")
}

/// Formats a value like [`digits`]; `-` if there is none.
pub(crate) fn digits_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), digits)
}

/// Formats a ratio with two decimals; `-` if there is none.
pub(crate) fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| NONE.to_owned(), |ratio| format!("{ratio:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_significant_digits() {
        let actual = [0.0, 0.012_34, 1.234, 12.34, 123.4, 12_345.0, -2.0].map(digits);
        let expected = ["0", "0.0123", "1.23", "12.3", "123", "12345", "-2.00"];
        assert_eq!(actual, expected);
        assert_eq!(digits(1e-9), "0.000000");
        assert_eq!(digits(f64::INFINITY), "inf");
    }

    #[test]
    fn missing_values_are_dashes() {
        assert_eq!([digits_or_dash(None), ratio(None)], ["-", "-"]);
    }

    #[test]
    fn ratios_are_rounded() {
        assert_eq!(ratio(Some(0.256)), "0.26");
    }
}
