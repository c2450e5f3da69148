//! The limits of a device.

use std::fmt;

use millstream::DeviceProperties;
use serde::Serialize;

use crate::units::bytes;

/// A larger allocation limit means that the device has none.
const BOUNDLESS: u64 = 1 << 50;

/// The limits that a device reports.
#[derive(Debug, Serialize)]
pub(crate) struct Limits {
    allocation_bytes: u64,
    /// Slices start at a multiple of this.
    alignment: u64,
    /// Rows of pitched tensors start at a multiple of this.
    pitch_alignment: u64,
    cubes: [u32; 3],
    bindings: usize,
    /// The most tasks of one queue.
    in_flight: usize,
}

impl Limits {
    pub(crate) fn of(properties: &DeviceProperties) -> Self {
        Self {
            allocation_bytes: properties.max_allocation_bytes,
            alignment: properties.alignment,
            pitch_alignment: properties.pitch_alignment,
            cubes: properties.max_cube_count,
            bindings: properties.max_bindings,
            in_flight: properties.max_queue_depth,
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allocations = match self.allocation_bytes {
            BOUNDLESS.. => "of any size".to_owned(),
            most => format!("of at most {}", bytes(most)),
        };
        let cubes = match self.cubes {
            [u32::MAX, u32::MAX, u32::MAX] => "any number of cubes".to_owned(),
            [x, y, z] => format!("at most {x} x {y} x {z} cubes"),
        };
        write!(
            f,
            "allocations {allocations}, aligned to {} bytes (rows to {}); launches of {cubes} and {} bindings; \
             queues of at most {} tasks",
            self.alignment, self.pitch_alignment, self.bindings, self.in_flight
        )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn some() -> Limits {
        Limits {
            allocation_bytes: 1 << 30,
            alignment: 256,
            pitch_alignment: 64,
            cubes: [7, 8, 9],
            bindings: 32,
            in_flight: 1024,
        }
    }

    #[test]
    fn limits_are_printed_as_one_sentence() {
        assert_eq!(
            some().to_string(),
            "allocations of at most 1.00 GiB, aligned to 256 bytes (rows to 64); launches of at most 7 x 8 x 9 cubes and 32 bindings; \
             queues of at most 1024 tasks"
        );
        let boundless = Limits {
            allocation_bytes: u64::MAX,
            cubes: [u32::MAX; 3],
            ..some()
        };
        let text = boundless.to_string();
        assert!(
            text.contains("allocations of any size, ") && text.contains("any number of cubes"),
            "{text}"
        );
    }
}
