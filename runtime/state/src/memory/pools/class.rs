//! Size classes: how a size is rounded, and where slices of a size are placed.
//!
//! Sizes are in *units* of the alignment. Classes are the bins of the `offset-allocator` crate, a floating-point format
//! with three bits of mantissa: 1 to 16 are exact, then there are eight steps from one power of two to the next, with a
//! padding of at most 1/8. So the hole that a freed range leaves always serves its own class again.
//!
//! Invariant: `units(round_up(u)) >= u`, and `round_up` of a class's own units is that class.

use millstream_protocol::{ALIGNMENT_MAX, MemoryOptions};

/// The number of steps from one power of two to the next, as a power of two.
const STEPS_LOG2: u32 = 3;

/// The smallest alignment of a slice: no two slices share a cache line or a memory transaction.
const ALIGNMENT_MIN: u64 = 256;
/// The fewest units of a page.
const PAGE_UNITS_MIN: u64 = 256;
/// The most units of a page: `offset-allocator` counts in `u32`.
const PAGE_UNITS_MAX: u64 = 1 << 31;
/// The number of blocks of the smallest class in a chunk: as many as a chunk has bits.
pub(super) const BLOCKS_MAX: u32 = 256;
/// The fewest blocks of a chunk: few enough that one long-lived block pins little memory.
const BLOCKS_MIN: u32 = 16;
/// The largest request. Sums of sizes stay far from overflow.
pub(super) const REQUEST_BYTES_MAX: u64 = 1 << 48;

/// A size class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Class(pub(super) u16);

/// More classes than any size has.
pub(super) const CLASSES: usize = 512;

impl Class {
    /// The class of ranges that are not reused before their points have passed.
    pub(super) const QUIET: Class = Class(CLASSES as u16 - 1);

    /// Returns the smallest class that holds `units`.
    #[inline]
    pub(super) fn round_up(units: u64) -> Class {
        if units < 1 << STEPS_LOG2 {
            return Class(units as u16);
        }
        let shift = units.ilog2() - STEPS_LOG2;
        let mantissa = (units >> shift) & ((1 << STEPS_LOG2) - 1);
        let carry = u64::from(units & ((1 << shift) - 1) != 0);
        // A carry out of the mantissa is the next power of two, as in any floating-point format.
        Class((u64::from(shift + 1) << STEPS_LOG2) as u16 + (mantissa + carry) as u16)
    }

    /// Returns the largest class that `units` holds.
    #[inline]
    pub(super) fn round_down(units: u64) -> Class {
        if units < 1 << STEPS_LOG2 {
            return Class(units as u16);
        }
        let shift = units.ilog2() - STEPS_LOG2;
        let mantissa = (units >> shift) & ((1 << STEPS_LOG2) - 1);
        Class(((shift + 1) << STEPS_LOG2) as u16 + mantissa as u16)
    }

    /// Returns the size of the class in units.
    #[inline]
    pub(super) fn units(self) -> u64 {
        let (exponent, mantissa) = (
            self.0 >> STEPS_LOG2,
            u64::from(self.0) & ((1 << STEPS_LOG2) - 1),
        );
        match exponent {
            0 => mantissa,
            _ => (mantissa | 1 << STEPS_LOG2) << (exponent - 1),
        }
    }

    /// Returns the class as an index into tables.
    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The placement of slices by size, derived from the options once.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// The bytes of a unit, as a power of two.
    unit_log2: u32,
    /// The units of a shared page.
    pub(super) page_units: u64,
    /// The largest class that is placed in chunks; class 0 if none is.
    pub(super) small_max: Class,
    /// The most units of a range of a shared page.
    pub(super) range_max: u64,
    /// The bytes of large pages are multiples of this.
    large_step_bytes: u64,
}

impl Layout {
    pub(super) fn new(options: &MemoryOptions, alignment: u64) -> Self {
        let unit = alignment
            .clamp(ALIGNMENT_MIN, ALIGNMENT_MAX)
            .next_power_of_two();
        let page_units = options
            .page_bytes
            .div_ceil(unit)
            .clamp(PAGE_UNITS_MIN, PAGE_UNITS_MAX);
        // The size of a class, so that a quarter of a page fits exactly.
        let range_max = Class::round_down(page_units / 4).units();
        let mut small_max = Class::round_down(options.small_max / unit);
        while small_max.0 > 0 && u64::from(chunk_units(small_max)) > range_max {
            small_max.0 -= 1;
        }
        let large_step_bytes = (page_units * unit / 32).max(unit).next_multiple_of(unit);
        Self {
            unit_log2: unit.ilog2(),
            page_units,
            small_max,
            range_max,
            large_step_bytes,
        }
    }

    /// Returns the units that hold `bytes`.
    #[inline]
    pub(super) fn units(&self, bytes: u64) -> u64 {
        (bytes + (1 << self.unit_log2) - 1) >> self.unit_log2
    }

    /// Returns the whole units in `bytes`.
    #[inline]
    pub(super) fn units_in(&self, bytes: u64) -> u64 {
        bytes >> self.unit_log2
    }

    /// Returns the bytes of `units`.
    #[inline]
    pub(super) fn bytes(&self, units: u64) -> u64 {
        units << self.unit_log2
    }

    /// Returns the bytes of a page for a large slice of `bytes`.
    pub(super) fn large_bytes(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.large_step_bytes)
    }

    /// Returns the units of the smallest range that a shared page may have to hold.
    pub(super) fn range_min(&self) -> u64 {
        match self.small_max.0 {
            0 => 1,
            small => u64::from(chunk_units(Class(1))).min(Class(small + 1).units()),
        }
    }
}

/// Returns the units of a chunk of blocks of `class`. That is the size of a class, so the hole of a chunk serves the
/// next one.
#[inline]
pub(super) fn chunk_units(class: Class) -> u32 {
    let units = class.units().min(1 << 24) as u32;
    BLOCKS_MAX.max(BLOCKS_MIN * units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_holds_what_is_rounded_to_it_with_at_most_an_eighth_of_padding() {
        for units in
            (1..5000).chain((12..40).flat_map(|log| [(1 << log) - 1, 1 << log, (1 << log) + 1]))
        {
            let (up, down) = (Class::round_up(units), Class::round_down(units));
            assert!(up.units() >= units && down.units() <= units);
            assert!(
                up.units() - units <= units / 8,
                "{units} padded to {}",
                up.units()
            );
            assert_eq!(Class::round_up(up.units()), up);
            assert_eq!(Class::round_down(down.units()), down);
            assert!(up.0 - down.0 <= 1);
        }
    }

    #[test]
    fn largest_request_has_a_class_of_the_table() {
        assert!(Class::round_up(REQUEST_BYTES_MAX).0 < Class::QUIET.0);
    }

    #[test]
    fn extreme_options_are_clamped() {
        for (page_bytes, small_max, alignment) in [
            (0, 0, 0),
            (u64::MAX, u64::MAX, 1),
            (1, u64::MAX, u64::MAX),
            (1 << 20, 1 << 30, 3000),
            (64 << 20, 32 << 10, 2 << 20),
        ] {
            let options = MemoryOptions::default()
                .page_bytes(page_bytes)
                .small_max(small_max);
            let layout = Layout::new(&options, alignment);
            assert!(
                layout.page_units >= PAGE_UNITS_MIN && layout.range_max * 4 <= layout.page_units
            );
            assert!(
                layout.small_max.0 == 0
                    || u64::from(chunk_units(layout.small_max)) <= layout.range_max
            );
            assert!(layout.range_min() >= 1 && layout.bytes(1) >= alignment.min(ALIGNMENT_MAX));
        }
    }
}
