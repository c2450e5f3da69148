//! Numbers as text.

/// What stands in a cell without a figure.
const NONE: &str = "-";

/// A value with three digits that matter, and at most six decimals: 0.0123, 1.23, 12.3, 123, 12300.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        size => (2 - size.log10().floor() as i64).clamp(0, 6) as usize,
    };
    format!("{value:.decimals$}")
}

/// A value as [`digits`] has it; `-` if there is none.
pub fn digits_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), digits)
}

/// A ratio with two decimals; `-` if there is none.
pub fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| NONE.to_owned(), |ratio| format!("{ratio:.2}"))
}

/// A share of 1 in percent, with one decimal: 0.5 is `50.0 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let told = [0.0, 0.012_34, 1.234, 12.34, 123.4, 12_345.0, -2.0].map(digits);
        let expected = ["0", "0.0123", "1.23", "12.3", "123", "12345", "-2.00"];
        assert_eq!(told, expected);
        assert_eq!(digits(1e-9), "0.000000");
        assert_eq!(digits(f64::INFINITY), "inf");
    }

    #[test]
    fn what_is_not_there_is_a_dash() {
        assert_eq!(digits_or_dash(None) + &ratio(None), "--");
        assert_eq!(ratio(Some(0.256)), "0.26");
        assert_eq!(percent(0.0456), "4.6 %");
    }
}
