//! Order statistics, and nothing else.

/// The value below which `share` of the values lie (nearest rank); NaN of no values.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let rank = (last as f64 * share).round() as usize;
    sorted.get(rank).copied().unwrap_or(f64::NAN)
}

/// The median (nearest rank).
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_odd_count_is_the_middle_one() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn quantiles_reach_both_ends() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&values, 0.0), 1.0);
        assert_eq!(quantile(&values, 1.0), 4.0);
    }

    #[test]
    fn no_values_have_no_median() {
        assert!(median(&[]).is_nan());
    }
}
