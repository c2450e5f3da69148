//! Injected faults: at the nth call of a kind, at random, or by losing the device.

use crate::random::Random;

/// A kind of call that can fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Call {
    /// Allocating a page; it fails as out of memory.
    Allocate,
    /// Compiling a kernel; it fails to compile.
    Compile,
    /// Launching a kernel; the task is refused.
    Launch,
    /// Copying from the host; the task is refused.
    CopyIn,
    /// Copying to the host; the task is refused.
    CopyOut,
    /// Copying within the device; the task is refused.
    Copy,
    /// Filling memory; the task is refused.
    Fill,
    /// Running user code on a queue; the task is refused.
    Custom,
    /// Creating the resources of a guard; they are refused.
    Resources,
    /// Waiting for another queue. This fails only if the device is lost, so a fault here loses the device.
    QueueWait,
    /// Starting a task of any kind; it fails, with its outputs half written.
    Run,
}

impl Call {
    /// The calls that a program of copies, fills and kernels makes, and whose failure it survives.
    pub const OF_TASKS: [Self; 7] = [
        Self::Allocate,
        Self::Launch,
        Self::CopyIn,
        Self::CopyOut,
        Self::Copy,
        Self::Fill,
        Self::Run,
    ];
}

/// The number of kinds.
const CALLS: usize = Call::Run as usize + 1;

/// A plan of faults. Calls of a kind are counted from 1.
///
/// ```
/// use millstream_sim::{Call, Faults};
///
/// let faults = Faults::none().nth(Call::Launch, 3).chance(Call::Run, 0.01).lost_from(500);
/// # let _ = faults;
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Faults {
    nth: Vec<(Call, u64)>,
    chances: [f64; CALLS],
    lost_from: Option<u64>,
    lost_at_run: Option<u64>,
}

impl Faults {
    /// Creates a plan without faults.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Makes the `nth` call of this kind fail. May be called repeatedly.
    #[must_use]
    pub fn nth(mut self, call: Call, nth: u64) -> Self {
        self.nth.push((call, nth));
        self
    }

    /// Makes each call of this kind fail with this probability.
    #[must_use]
    pub fn chance(mut self, call: Call, probability: f64) -> Self {
        self.chances[call as usize] = probability;
        self
    }

    /// Loses the device at the `nth` call of any kind; `Call::Run` does not count. Tasks that have not run fail, and
    /// every later call is refused.
    #[must_use]
    pub fn lost_from(mut self, nth: u64) -> Self {
        self.lost_from = Some(nth);
        self
    }

    /// Loses the device while the `nth` task runs. No call reports that loss, and none has to.
    #[must_use]
    pub fn lost_at_run(mut self, nth: u64) -> Self {
        self.lost_at_run = Some(nth);
        self
    }

    /// Returns the same plan without losses.
    pub(crate) fn without_loss(mut self) -> Self {
        (self.lost_from, self.lost_at_run) = (None, None);
        self
    }
}

/// The outcome of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Proceeds,
    /// It fails; the number counts the calls of its kind.
    Fails(u64),
    /// It loses the device.
    LosesDevice,
}

/// The state of a plan.
pub(crate) struct FaultPlan {
    faults: Faults,
    counts: [u64; CALLS],
    calls: u64,
    random: Random,
}

impl FaultPlan {
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        Self {
            faults,
            counts: [0; CALLS],
            calls: 0,
            random: Random::new(seed),
        }
    }

    /// Counts a call and decides its outcome.
    pub(crate) fn judge(&mut self, call: Call) -> Verdict {
        let count = &mut self.counts[call as usize];
        *count += 1;
        let number = *count;
        self.calls += u64::from(call != Call::Run);
        if self
            .faults
            .lost_from
            .is_some_and(|from| self.calls >= from && call != Call::Run)
        {
            return Verdict::LosesDevice;
        }
        if call == Call::Run && self.faults.lost_at_run == Some(number) {
            return Verdict::LosesDevice;
        }
        let share = self.faults.chances[call as usize];
        let fails =
            self.faults.nth.contains(&(call, number)) || (share > 0.0 && self.random.chance(share));
        match fails {
            true if call == Call::QueueWait => Verdict::LosesDevice,
            true => Verdict::Fails(number),
            false => Verdict::Proceeds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_nth_call_of_a_kind_fails() {
        let mut plan = FaultPlan::new(Faults::none().nth(Call::Copy, 2).nth(Call::Copy, 4), 1);
        let all = [
            Call::Copy,
            Call::Fill,
            Call::Copy,
            Call::Copy,
            Call::Copy,
            Call::Copy,
        ];
        let verdicts = all.map(|call| plan.judge(call));
        let mut expected = [Verdict::Proceeds; 6];
        (expected[2], expected[4]) = (Verdict::Fails(2), Verdict::Fails(4));
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn lost_device_stays_lost_and_a_failed_wait_loses_it() {
        let mut plan = FaultPlan::new(Faults::none().lost_from(2).nth(Call::QueueWait, 1), 1);
        assert_eq!(plan.judge(Call::QueueWait), Verdict::LosesDevice);
        assert_eq!(plan.judge(Call::Run), Verdict::Proceeds);
        assert_eq!(
            [plan.judge(Call::Fill), plan.judge(Call::Allocate)],
            [Verdict::LosesDevice; 2]
        );
    }

    #[test]
    fn random_faults_depend_on_the_seed_only() {
        let verdicts = |seed| {
            let mut plan = FaultPlan::new(Faults::none().chance(Call::Launch, 0.5), seed);
            (0..64)
                .map(|_| plan.judge(Call::Launch))
                .collect::<Vec<_>>()
        };
        assert_eq!(verdicts(1), verdicts(1));
        assert_ne!(verdicts(1), verdicts(2));
    }
}
