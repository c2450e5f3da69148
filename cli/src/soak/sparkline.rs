//! A plot in one line of text: bars of one character each.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Plots the values with at most `width` bars, from zero to the greatest value. A bar of several values shows their
/// mean.
pub(crate) fn line(values: &[f64], width: usize) -> String {
    let columns = width.clamp(1, values.len().max(1));
    let most = values.iter().copied().fold(0.0, f64::max);
    let bar = |column: usize| {
        let start = column * values.len() / columns;
        let end = ((column + 1) * values.len() / columns).max(start + 1);
        let part = &values[start..end.min(values.len())];
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        let level = if most > 0.0 { mean / most * 7.0 } else { 0.0 };
        BARS[(level.round() as usize).min(7)]
    };
    match values.is_empty() {
        true => String::new(),
        false => (0..columns).map(bar).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_scale_with_values_and_do_not_exceed_the_width() {
        assert_eq!(line(&[0.0, 7.0, 3.5], 10), "▁█▅");
        assert_eq!(line(&[], 10), "");
        assert_eq!(line(&[0.0; 4], 10), "▁▁▁▁");
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(line(&many, 50).chars().count(), 50);
        assert!(line(&many, 50).ends_with('█'));
    }
}
