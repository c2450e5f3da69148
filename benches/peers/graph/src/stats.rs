//! Order statistics, and nothing else.

/// The median (nearest rank); NaN of no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The least; NaN of no values.
pub(crate) fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_odd_count_is_the_middle_one() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(least(&[3.0, 1.0, 2.0]), 1.0);
    }

    #[test]
    fn no_values_have_no_median() {
        assert!(median(&[]).is_nan());
        assert!(least(&[]).is_nan());
    }
}
