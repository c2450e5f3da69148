//! The clock of a punctual device, for an owner that runs several devices in one virtual time.

use std::sync::{Arc, Weak};

use millstream_sync::facade::{Mutex, lock};

use crate::shared::Shared;
use crate::state::State;
use crate::step::next_ns;

/// The virtual clock of a [punctual](crate::Sim::punctual), driven device: a handle that is kept beside it.
///
/// Without it, a punctual device runs its steps as fast as it is pumped. With it, several devices share one virtual
/// time: their owner pumps the device whose next step comes first, up to the time of that step.
///
/// ```
/// use std::time::Duration;
///
/// use millstream_actors::Device;
/// use millstream_protocol::DeviceOptions;
/// use millstream_sim::{CostModel, Sim};
///
/// let mut cost = CostModel::default();
/// cost.copy_ns = 700;
/// let sim = Sim::seed(1).cost(cost).punctual();
/// let clock = sim.clock();
/// let (device, mut driver) = Device::open_driven(sim, DeviceOptions::default())?;
/// let values = device.new_client().new_stream().create(&[0_u8; 0])?;
/// clock.set_horizon(0);
/// while driver.pump(Duration::ZERO) {}
/// assert_eq!((clock.now_ns(), clock.next_ns()), (0, Some(700)));
/// clock.set_horizon(700);
/// while driver.pump(Duration::ZERO) {}
/// assert_eq!((clock.now_ns(), clock.next_ns()), (700, None));
/// # drop((values, driver, device));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Clock(Arc<Mutex<Weak<Shared>>>);

impl Clock {
    /// The device is opened.
    pub(crate) fn attach(&self, device: &Arc<Shared>) {
        *lock(&self.0) = Arc::downgrade(device);
    }

    /// Returns the virtual time of the host: the end of the last task that it has seen, or the time to which the clock
    /// was advanced. 0 if the device is not open.
    pub fn now_ns(&self) -> u64 {
        self.with(|state| state.timing.now_ns).unwrap_or(0)
    }

    /// Returns the time of the device's next step. `None` if it has none: a pump may find
    /// messages, whose tasks are not counted before.
    pub fn next_ns(&self) -> Option<u64> {
        self.with(next_ns)?
    }

    /// Advances the clock: later tasks do not begin before `to_ns`. A clock does not go back.
    pub fn advance(&self, to_ns: u64) {
        self.with(|state| state.timing.advance_clock(to_ns));
    }

    /// Sets the time until which a pump runs steps. Without a horizon it runs all.
    pub fn set_horizon(&self, until_ns: u64) {
        self.with(|state| state.horizon_ns = until_ns);
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> Option<R> {
        let device = lock(&self.0).upgrade()?;
        Some(device.with(f))
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock({} ns)", self.now_ns())
    }
}
