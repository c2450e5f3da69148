//! Order statistics. Every quantile is one of the samples, so that quantiles of counts are counts.

/// Returns the value below which `share` (0 to 1) of the values lie, by the nearest rank; NaN if there are no values.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let rank = (last as f64 * share).round() as usize;
    sorted.get(rank).copied().unwrap_or(f64::NAN)
}

/// Returns the middle value; of two middle values, the greater. NaN if there are no values.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&values, 0.0), 1.0);
        assert_eq!(quantile(&values, 1.0), 4.0);
        assert_eq!(median(&values), 3.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
    }
}
