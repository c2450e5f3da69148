//! What goes wrong, and when: at the nth call of a kind, by chance, or for good.

use crate::random::Random;

/// A kind of call that can fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Call {
    /// A page is allocated: out of memory.
    Allocate,
    /// A kernel is compiled: it does not compile.
    Compile,
    /// A kernel is launched: the task is refused.
    Launch,
    /// A copy from the host: the task is refused.
    CopyIn,
    /// A copy to the host: the task is refused.
    CopyOut,
    /// A copy within the device: the task is refused.
    Copy,
    /// A fill: the task is refused.
    Fill,
    /// User code on a queue: the task is refused.
    Custom,
    /// The resources of a guard: they are refused.
    Resources,
    /// A wait for another queue. It fails only where the device is lost, so this loses it.
    QueueWait,
    /// A task of any kind starts to run: it fails then, its outputs half written.
    Run,
}

impl Call {
    /// What a program of copies, fills and kernels makes on its way, and outlives when it fails.
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

/// All kinds, in the order of their discriminants.
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
    /// Nothing goes wrong.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The `nth` call of this kind fails. May be said often.
    #[must_use]
    pub fn nth(mut self, call: Call, nth: u64) -> Self {
        self.nth.push((call, nth));
        self
    }

    /// Each call of this kind fails with this probability.
    #[must_use]
    pub fn chance(mut self, call: Call, probability: f64) -> Self {
        self.chances[call as usize] = probability;
        self
    }

    /// From the `nth` call of any kind on (running not counted) the device is lost: whatever has not
    /// run fails, and every call is refused.
    #[must_use]
    pub fn lost_from(mut self, nth: u64) -> Self {
        self.lost_from = Some(nth);
        self
    }

    /// The device is lost while the `nth` task runs; no call has told, nor will need to.
    #[must_use]
    pub fn lost_at_run(mut self, nth: u64) -> Self {
        self.lost_at_run = Some(nth);
        self
    }

    /// The same plan without the losses.
    pub(crate) fn without_loss(mut self) -> Self {
        (self.lost_from, self.lost_at_run) = (None, None);
        self
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Proceeds,
    /// It fails; it is the call of its kind with this number.
    Fails(u64),
    /// The device is lost with it.
    LosesDevice,
}

/// A plan as it is carried out.
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

    /// Counts a call and says what becomes of it.
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
    fn the_nth_call_of_a_kind_fails_and_no_other() {
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
    fn a_lost_device_stays_lost_and_a_failed_wait_loses_it() {
        let mut plan = FaultPlan::new(Faults::none().lost_from(2).nth(Call::QueueWait, 1), 1);
        assert_eq!(plan.judge(Call::QueueWait), Verdict::LosesDevice);
        assert_eq!(plan.judge(Call::Run), Verdict::Proceeds);
        assert_eq!(
            [plan.judge(Call::Fill), plan.judge(Call::Allocate)],
            [Verdict::LosesDevice; 2]
        );
    }

    #[test]
    fn chance_is_the_seeds() {
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
