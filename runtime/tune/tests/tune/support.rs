//! Clocks whose time depends on the candidates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use millstream_tune::{
    Begun, Choice, Failure, Measure, Policy, Tunable, TunableSet, Tuner, Tuning,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Returns the choice for key 1, and waits for it.
pub(crate) fn choose<O>(
    tuner: &Tuner<u32>,
    set: &TunableSet<u32, u32, O>,
    measure: &mut dyn Measure,
) -> Choice {
    tuner.choose(set, &1, &0, measure, Policy::Wait).unwrap()
}

/// Begins to tune a key that no other caller tunes.
pub(crate) fn begin<O>(
    tuner: &Tuner<u32>,
    set: &TunableSet<u32, u32, O>,
    key: u32,
) -> Box<Tuning<u32, u32, O>> {
    match tuner.begin(set, &key, &0) {
        Begun::Tuning(tuning) => tuning,
        _ => panic!("no other caller tunes the key"),
    }
}

/// The costs of candidates, and counts of runs. The counts are read after all threads have ended, so any ordering
/// suffices.
#[derive(Default)]
pub(crate) struct Costs {
    last: AtomicU64,
    pub(crate) runs: AtomicU32,
    pub(crate) generated: AtomicU32,
}

/// A set of candidates that take the given nanoseconds, and return their index.
pub(crate) fn timed(costs: &Arc<Costs>, nanoseconds: &[u64]) -> TunableSet<u32, u32, usize> {
    let generated = costs.clone();
    let mut set = TunableSet::new("timed", move |_: &u32, inputs: &u32| {
        generated.generated.fetch_add(1, Ordering::Relaxed);
        *inputs
    });
    for (place, time) in nanoseconds.iter().copied().enumerate() {
        let costs = costs.clone();
        set = set.with(Tunable::new(format!("{time} ns"), move |_| {
            costs.runs.fetch_add(1, Ordering::Relaxed);
            costs.last.store(time, Ordering::Relaxed);
            Ok::<_, String>(place)
        }));
    }
    set
}

/// Returns the cost of the candidate that ran last, with the noise of a busy machine.
pub(crate) struct Virtual {
    costs: Arc<Costs>,
    random: Xoshiro256PlusPlus,
    /// The standard deviation of most samples, as a fraction.
    noise: f64,
    taken: Option<Duration>,
}

impl Virtual {
    pub(crate) fn exact(costs: &Arc<Costs>) -> Self {
        Self::noisy(costs, 0, 0.0)
    }

    pub(crate) fn noisy(costs: &Arc<Costs>, seed: u64, noise: f64) -> Self {
        Self {
            costs: costs.clone(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            noise,
            taken: None,
        }
    }

    /// Returns a random number from 0 to 1.
    fn chance(&mut self) -> f64 {
        self.random.next_u64() as f64 / u64::MAX as f64
    }
}

impl Measure for Virtual {
    fn clock(&self) -> &str {
        "a virtual clock"
    }

    fn start(&mut self, work: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
        work()?;
        let time = self.costs.last.load(Ordering::Relaxed) as f64;
        // Approximately normal, with standard deviation 1; one in twenty samples is interrupted.
        let normal = (0..12).map(|_| self.chance()).sum::<f64>() - 6.0;
        let interrupted = match self.chance() < 0.05 && self.noise > 0.0 {
            true => 1.0 + 4.0 * self.chance(),
            false => 1.0,
        };
        let time = time * (1.0 + self.noise * normal).max(0.2) * interrupted;
        self.taken = Some(Duration::from_nanos(time as u64));
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Duration>, Failure> {
        Ok(self.taken.take())
    }
}

/// All candidates take the same time, without a clock: the first that works wins.
pub(crate) struct Still;

impl Measure for Still {
    fn clock(&self) -> &str {
        "no clock"
    }

    fn start(&mut self, work: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
        work()
    }

    fn poll(&mut self) -> Result<Option<Duration>, Failure> {
        Ok(Some(Duration::from_nanos(100)))
    }
}
