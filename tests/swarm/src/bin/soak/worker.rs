//! A thread of the mixed load: opens a client, runs a random program with it, drops it, and opens the next.

use std::time::Duration;

use millstream::{ComputeClient, Device, Error, Health, Priority, device::Feature};
use millstream_testkit::{Count, Dice, End, Kernels, Program, ProgramConfig};

use crate::gpu_sources::with_gpu_sources;

/// How often a thread checks for the end of the soak while the device is lost.
const LOST_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A session has `STEPS_MIN` steps plus a random number below `STEPS_EXTRA`.
const STEPS_MIN: usize = 20;
const STEPS_EXTRA: usize = 200;

/// The device and settings that all threads share.
pub(crate) struct Load {
    pub(crate) device: Device,
    /// What every program may do, and which failures are expected.
    pub(crate) config: ProgramConfig,
    /// The hard limit of the clients that have one.
    pub(crate) limit_bytes: u64,
}

impl Load {
    /// Waits until the device runs. Returns `false` if the soak ends first.
    pub(crate) fn is_running(&self) -> bool {
        let mut watch = self.device.watch_health();
        while !self.config.tally.stopped() {
            match watch.health() {
                Health::Running { .. } => return true,
                Health::Lost { .. } => drop(watch.wait_timeout(LOST_POLL_INTERVAL)),
                _ => return false,
            }
        }
        false
    }

    /// Creates a client with random limits, priority and weight, and the config of its program.
    fn client(&self, dice: &mut Dice) -> (ComputeClient, ProgramConfig) {
        let mut config = self.config.clone();
        let mut builder = self
            .device
            .client_builder()
            .name(format!("soak {}", dice.below(1000)))
            .priority(dice.one_of(&[Priority::Low, Priority::Normal, Priority::High]))
            .weight(1 + dice.below(4) as u32);
        if dice.one_in(3) {
            builder = builder.hard_limit(self.limit_bytes);
            config.limit_bytes = Some(self.limit_bytes);
        }
        if dice.one_in(3) {
            builder = builder.max_tasks(1 + dice.below(16) as u64);
        }
        if dice.one_in(3) {
            builder = builder.max_upload_bytes(1 + dice.below(100_000) as u64);
        }
        (builder.build(), config)
    }
}

/// Prepares the kernels of a program: on a GPU those that are not Rust.
pub(crate) fn kernels(client: &ComputeClient) -> Result<Kernels, Error> {
    match client.properties().has(Feature::NativeKernels) {
        true => Kernels::native(client),
        false => Kernels::prepared(|kernel| client.kernel(with_gpu_sources(kernel))),
    }
}

/// A thread ends above this number of violations. More would add no information, and each missing answer takes a
/// minute.
const VIOLATIONS_MAX: u64 = 100;

/// Runs sessions one after the other: `rounds` of them, or until the soak ends.
pub(crate) fn work(load: &Load, dice: &mut Dice, rounds: Option<u64>) {
    let mut done = 0;
    while rounds.is_none_or(|rounds| done < rounds) && load.is_running() {
        done += 1;
        let ended = session(load, dice);
        if ended == Err(End::Wrong) && load.config.tally.violation_count() > VIOLATIONS_MAX {
            return;
        }
    }
}

/// Runs one client's random program, and checks every answer.
fn session(load: &Load, dice: &mut Dice) -> Result<(), End> {
    let steps = STEPS_MIN + dice.below(STEPS_EXTRA);
    let (client, config) = load.client(dice);
    let kernels = kernels(&client).map_err(|error| config.refused("kernel", &error))?;
    let mut program = Program::new(config, vec![client], kernels, dice)?;
    for _ in 0..steps {
        load.config.tally.increment(Count::Steps);
        program.step(dice)?;
        if load.config.tally.stopped() {
            break;
        }
    }
    program.finish(dice)
}
