//! Clocks whose time depends on the candidates.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use millstream_tune::{
    Begun, Choice, Failure, Measure, Policy, Summary, Tunable, TunableSet, TuneError, Tuner, Tuning,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Candidates that take the given nanoseconds and return their index, a tuner, and a clock.
pub(crate) struct Rig {
    pub(crate) costs: Arc<Costs>,
    pub(crate) set: TunableSet<u32, u32, usize>,
    pub(crate) tuner: Tuner<u32>,
    pub(crate) clock: Virtual,
}

impl Rig {
    pub(crate) fn new(nanoseconds: &[u64]) -> Self {
        Self::noisy(nanoseconds, 0, 0.0)
    }

    pub(crate) fn noisy(nanoseconds: &[u64], seed: u64, noise: f64) -> Self {
        let costs = Arc::new(Costs::default());
        Self {
            set: timed(&costs, nanoseconds),
            tuner: Tuner::new(),
            clock: Virtual::noisy(&costs, seed, noise),
            costs,
        }
    }

    /// Chooses for key 1.
    pub(crate) fn choose(&mut self, policy: Policy) -> Result<Choice, TuneError> {
        let (set, clock) = (&self.set, &mut self.clock);
        self.tuner.choose(set, &1, &0, clock, policy)
    }

    /// Returns the statistics of the winner for key 1.
    pub(crate) fn best(&self) -> Summary {
        let outcome = self.tuner.outcome(&1).unwrap();
        outcome.best().unwrap().result.clone().unwrap()
    }

    /// The number of runs of candidates.
    pub(crate) fn runs(&self) -> u32 {
        self.costs.runs.load(Ordering::Relaxed)
    }
}

/// Returns the choice for key 1, and waits for it.
pub(crate) fn choose<O>(
    tuner: &Tuner<u32>,
    set: &TunableSet<u32, u32, O>,
    measure: &mut dyn Measure,
) -> Choice {
    tuner.choose(set, &1, &0, measure, Policy::Wait).unwrap()
}

/// A candidate that returns its input.
pub(crate) fn plain(name: &str) -> Tunable<u32, u32> {
    Tunable::new(name, |x: u32| Ok::<_, String>(x))
}

/// An empty set whose first generation of inputs waits at a gate.
pub(crate) struct Gated<O> {
    pub(crate) set: TunableSet<u32, u32, O>,
    /// Receives when the first generation has begun.
    pub(crate) begun: mpsc::Receiver<()>,
    /// Lets it go on; it panics if this is dropped.
    pub(crate) go: mpsc::Sender<()>,
    /// The number of generations.
    pub(crate) generated: Arc<AtomicU32>,
}

pub(crate) fn gated<O>() -> Gated<O> {
    let (begins, begun) = mpsc::channel::<()>();
    let (go, wait_go) = mpsc::channel::<()>();
    let gates = Mutex::new(Some((begins, wait_go)));
    let generated = Arc::new(AtomicU32::new(0));
    let count = generated.clone();
    let set = TunableSet::new("gated", move |_: &u32, inputs: &u32| {
        count.fetch_add(1, Ordering::Relaxed);
        let gates = gates.lock().unwrap().take();
        if let Some((begins, wait_go)) = gates {
            begins.send(()).unwrap();
            wait_go.recv().unwrap();
        }
        *inputs
    });
    Gated {
        set,
        begun,
        go,
        generated,
    }
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
