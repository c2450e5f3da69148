//! What a device takes at most.

use std::fmt;

use millstream::DeviceProperties;
use serde::Serialize;

use crate::units::bytes;

/// More than any device has: one that allows so much knows no limit.
const BOUNDLESS: u64 = 1 << 50;

/// Limits of a device, as it tells them.
#[derive(Debug, Serialize)]
pub(crate) struct Limits {
    allocation_bytes: u64,
    /// Slices start at a multiple of this, rows of pitched tensors of that.
    alignment: u64,
    pitch_alignment: u64,
    cubes: [u32; 3],
    bindings: usize,
    /// Tasks of a queue.
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
            [u32::MAX, u32::MAX, u32::MAX] => "as many cubes as are asked for".to_owned(),
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
    fn limits_are_one_sentence() {
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
        let told = boundless.to_string();
        assert!(
            told.contains("allocations of any size, ") && told.contains("as many cubes as"),
            "{told}"
        );
    }
}
