//! Formats durations, bytes and counts, and chooses the ticks of an axis.

/// Returns the distance between ticks: 1, 2 or 5 times a power of ten, so that an axis has about eight to sixteen.
pub(crate) fn tick_step(length_ns: u64) -> u64 {
    let mut decade = 1;
    loop {
        for factor in [1, 2, 5] {
            if length_ns / (decade * factor) < 16 {
                return decade * factor;
            }
        }
        decade *= 10;
    }
}

/// Returns the unit for an axis of this length, and its nanoseconds. No number of the axis is above 1,000, unless it is
/// in seconds.
pub(crate) fn unit(length_ns: u64) -> (&'static str, u64) {
    match length_ns {
        0..=1_000 => ("ns", 1),
        1_001..=1_000_000 => ("µs", 1_000),
        1_000_001..=1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    }
}

/// Formats a duration in its largest fitting unit.
pub(crate) fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

/// Formats a count with its noun, which gets a plural "s" unless the count is 1.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Formats a number of bytes in its largest fitting unit.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{:.1} KiB", count as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", count as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", count as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_of_any_length_has_six_to_sixteen_ticks() {
        let mut length = 1u64;
        while length < 1 << 50 {
            let step = tick_step(length);
            assert!(length / step < 16, "{length} in steps of {step}");
            assert!(
                length < 16 || length / step >= 6,
                "{length} in steps of {step}"
            );
            length = length * 3 + 1;
        }
    }

    #[test]
    fn axis_above_1000_is_in_the_next_unit() {
        let units = [7, 1_000, 1_001, 999_000, 1_000_000_000, 1_000_000_001].map(|ns| unit(ns).0);
        assert_eq!(units, ["ns", "ns", "µs", "µs", "ms", "s"]);
    }

    #[test]
    fn duration_uses_the_largest_fitting_unit() {
        let texts = [7, 1_500, 2_345_678, 3_000_000_000].map(duration);
        assert_eq!(texts, ["7 ns", "1.5 µs", "2.35 ms", "3.000 s"]);
    }
}
