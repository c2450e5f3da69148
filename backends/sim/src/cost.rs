//! The cost of work in virtual time, so that schedules can be compared without a real device.

use std::collections::BTreeMap;

/// Costs in virtual nanoseconds. The defaults have the proportions of a mid-sized GPU.
///
/// A launch of `cubes` cubes takes `launch_ns`, plus `cube_ns` for each wave of `compute_units` cubes. Contention
/// between launches of different queues is not modelled, nor is the host's time.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct CostModel {
    /// Nanoseconds of each launch.
    pub launch_ns: u64,
    /// Nanoseconds of each wave of cubes.
    pub cube_ns: u64,
    /// The number of cubes that run at once.
    pub compute_units: u64,
    /// Nanoseconds of each copy and fill.
    pub copy_ns: u64,
    /// Bandwidth between host and device.
    pub host_bytes_per_us: u64,
    /// Bandwidth within the device, also for fills.
    pub device_bytes_per_us: u64,
    /// Nanoseconds of each wait for another queue.
    pub wait_ns: u64,
    /// Nanoseconds of each custom task.
    pub custom_ns: u64,
    /// Costs of kernels by the names of their launches; all others have the costs above.
    pub kernels: BTreeMap<String, KernelCost>,
}

/// The cost of the launches of one kernel, in virtual nanoseconds: as measured on a device for some numbers of cubes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelCost {
    /// Nanoseconds of each launch.
    pub launch_ns: u64,
    /// Nanoseconds of each cube. Cubes that run at once share the time.
    pub cube_ns: u64,
}

impl Default for CostModel {
    fn default() -> Self {
        Self {
            launch_ns: 2_000,
            cube_ns: 1_000,
            compute_units: 64,
            copy_ns: 1_500,
            host_bytes_per_us: 24_000,
            device_bytes_per_us: 500_000,
            wait_ns: 500,
            custom_ns: 2_000,
            kernels: BTreeMap::new(),
        }
    }
}

/// The work of a task, from which its cost is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// A mark, or a task that did not run.
    Nothing,
    /// A launch with this number of cubes.
    Cubes(u64),
    /// A copy of this many bytes from or to the host.
    HostBytes(u64),
    /// A copy or fill of this many bytes within the device.
    DeviceBytes(u64),
    /// User code.
    Custom,
}

impl CostModel {
    /// Returns the nanoseconds that the task `name` takes for its work.
    pub(crate) fn of(&self, name: &str, work: Work) -> u64 {
        match work {
            Work::Nothing => 0,
            Work::Cubes(cubes) => {
                let (launch_ns, each_ns, number) = match self.kernels.get(name) {
                    Some(kernel) => (kernel.launch_ns, kernel.cube_ns, cubes),
                    None => {
                        let waves = cubes.div_ceil(self.compute_units.max(1));
                        (self.launch_ns, self.cube_ns, waves)
                    }
                };
                launch_ns.saturating_add(number.saturating_mul(each_ns))
            }
            Work::HostBytes(bytes) => self.moving(bytes, self.host_bytes_per_us),
            Work::DeviceBytes(bytes) => self.moving(bytes, self.device_bytes_per_us),
            Work::Custom => self.custom_ns,
        }
    }

    fn moving(&self, bytes: u64, bytes_per_us: u64) -> u64 {
        let ns = u128::from(bytes) * 1000 / u128::from(bytes_per_us.max(1));
        self.copy_ns
            .saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cubes_cost_waves_and_bytes_cost_bandwidth() {
        let mut cost = CostModel {
            launch_ns: 10,
            cube_ns: 5,
            compute_units: 4,
            copy_ns: 1,
            host_bytes_per_us: 1000,
            ..CostModel::default()
        };
        assert_eq!(
            [0, 1, 4, 5].map(|cubes| cost.of("task", Work::Cubes(cubes))),
            [10, 15, 15, 20]
        );
        let measured = KernelCost {
            launch_ns: 3,
            cube_ns: 2,
        };
        let mut measured = [("task".to_owned(), measured)].into();
        std::mem::swap(&mut cost.kernels, &mut measured);
        assert_eq!(cost.of("task", Work::Cubes(5)), 3 + 5 * 2);
        assert_eq!(cost.of("other", Work::Cubes(5)), 20);
        assert_eq!(cost.of("task", Work::HostBytes(64)), 65);
        assert_eq!(cost.of("task", Work::Nothing), 0);
        assert_eq!(
            CostModel {
                host_bytes_per_us: 0,
                ..cost
            }
            .of("task", Work::HostBytes(u64::MAX)),
            u64::MAX
        );
    }
}
