//! The properties and limits of a device.

use std::collections::BTreeSet;
use std::fmt;

use crate::error::OpenError;
use crate::feature::Feature;
use crate::id::MAX_QUEUES;
use crate::priority::Priority;

/// The smallest alignment that a device may report, in bytes: that of the largest element type.
pub const ALIGNMENT_MIN: u64 = 8;
/// The largest alignment that a device may report, in bytes. A larger value is rejected as a mistake.
pub const ALIGNMENT_MAX: u64 = 1 << 30;

/// The properties and limits of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceProperties {
    /// The kind of backend: `cpu`, `sim`, `cuda`.
    pub backend: &'static str,
    /// The name of the device.
    pub name: String,
    /// The number of queues, fixed at opening: from 1 to [`MAX_QUEUES`].
    pub queues: usize,
    /// The priority of the streams that each queue serves, if the device itself runs some queues before others. Empty
    /// if it does not: then streams of any priority are assigned to any queue. At most as long as the number of
    /// queues.
    pub queue_priorities: Vec<Priority>,
    /// The number of threads or multiprocessors that run the cubes of one launch.
    pub compute_units: usize,
    /// Every slice starts at a multiple of this, in bytes: a power of two from [`ALIGNMENT_MIN`] to [`ALIGNMENT_MAX`].
    pub alignment: u64,
    /// Rows of pitched tensors start at a multiple of this, in bytes: a power of two up to [`ALIGNMENT_MAX`].
    pub pitch_alignment: u64,
    /// The memory that the device can allocate, in bytes, if it is known.
    pub memory_bytes: Option<u64>,
    /// The largest single allocation, in bytes.
    pub max_allocation_bytes: u64,
    /// The maximum number of cubes along each axis.
    pub max_cube_count: [u32; 3],
    /// The maximum number of bindings of one launch.
    pub max_bindings: usize,
    /// The number of tasks that one queue accepts before the driver blocks. The runtime has at most as many in flight; a
    /// replay that the backend runs by one call counts as one more.
    pub max_queue_depth: usize,
    /// The optional features of the device.
    pub features: BTreeSet<Feature>,
}

impl DeviceProperties {
    /// Returns `true` if the device has `feature`.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Returns the first field in which `other` differs, with both values.
    pub fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        // Names all fields in the pattern, so that a new field does not compile until it is compared.
        macro_rules! texts {
            ($($field:ident),*) => {{
                let Self { $($field),* } = self;
                [$((stringify!($field), format!("{:?}", $field), format!("{:?}", other.$field))),*]
            }};
        }
        let fields = texts!(
            backend,
            name,
            queues,
            queue_priorities,
            compute_units,
            alignment,
            pitch_alignment,
            memory_bytes,
            max_allocation_bytes,
            max_cube_count,
            max_bindings,
            max_queue_depth,
            features
        );
        fields.into_iter().find(|(_, mine, theirs)| mine != theirs)
    }

    /// Checks the properties that a backend reports. The check runs when a device is opened, so that a mistake of the
    /// backend fails the opening and not the first task.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`], which names the first invalid field.
    pub fn check(&self) -> Result<(), OpenError> {
        let is_aligned = |bytes: u64, least: u64| {
            bytes.is_power_of_two() && (least..=ALIGNMENT_MAX).contains(&bytes)
        };
        let require = |field: &str, is_right: bool, given: &dyn fmt::Debug, must: &str| {
            let why = || format!("`{field}` of its `properties()` must be {must}, got {given:?}");
            let wrong = || OpenError::Unavailable {
                backend: self.backend,
                why: why(),
            };
            is_right.then_some(()).ok_or_else(wrong)
        };
        let positive = |field, given: u64| require(field, given > 0, &given, "at least 1");
        require(
            "queues",
            (1..=MAX_QUEUES).contains(&self.queues),
            &self.queues,
            const { stated_limit(MAX_QUEUES == 16, "from 1 to 16 (`MAX_QUEUES`)") },
        )?;
        require(
            "queue_priorities",
            self.queue_priorities.len() <= self.queues,
            &self.queue_priorities,
            "no longer than there are `queues`",
        )?;
        positive("compute_units", self.compute_units as u64)?;
        require(
            "alignment",
            is_aligned(self.alignment, ALIGNMENT_MIN),
            &self.alignment,
            "a power of two from 8 (`ALIGNMENT_MIN`) to 2^30 (`ALIGNMENT_MAX`)",
        )?;
        require(
            "pitch_alignment",
            is_aligned(self.pitch_alignment, 1),
            &self.pitch_alignment,
            "a power of two up to 2^30 (`ALIGNMENT_MAX`)",
        )?;
        positive("max_allocation_bytes", self.max_allocation_bytes)?;
        let cubes = self.max_cube_count;
        let all_positive = cubes.iter().all(|most| *most > 0);
        require(
            "max_cube_count",
            all_positive,
            &cubes,
            "at least 1 in each dimension",
        )?;
        positive("max_bindings", self.max_bindings as u64)?;
        positive("max_queue_depth", self.max_queue_depth as u64)
    }
}

/// Returns `text` if it states the right limit: a changed constant does not compile until its text is changed as well.
const fn stated_limit(holds: bool, text: &'static str) -> &'static str {
    assert!(holds, "the text states another limit than the constant");
    text
}
