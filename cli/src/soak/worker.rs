//! A thread that opens a client, makes it work for a while, drops it, and opens the next one.

use std::time::Duration;

use millstream::{ComputeClient, Device, Health, Priority};
use millstream_testkit::{Count, Dice, End, Ground, Kernels, Program};

/// How often a thread looks whether it is to stop while the device is lost.
const LOST_NAP: Duration = Duration::from_millis(100);

/// Steps of a session: the fewest, and how many more there may be.
const STEPS_MIN: usize = 20;
const STEPS_MORE: usize = 200;

/// What all threads work on.
pub(crate) struct Load {
    pub(crate) device: Device,
    /// What every program may do, and what may go wrong with it.
    pub(crate) ground: Ground,
    /// The hard limit of those clients that have one.
    pub(crate) limit_bytes: u64,
}

impl Load {
    /// Waits until the device runs. Returns false if the soak ends first.
    pub(crate) fn is_running(&self) -> bool {
        let mut watch = self.device.watch_health();
        while !self.ground.tally.stopped() {
            match watch.health() {
                Health::Running { .. } => return true,
                Health::Lost { .. } => drop(watch.wait_timeout(LOST_NAP)),
                _ => return false,
            }
        }
        false
    }

    /// A client with limits, priority and weight of its own, and the ground of its program.
    fn client(&self, dice: &mut Dice) -> (ComputeClient, Ground) {
        let mut ground = self.ground.clone();
        let mut builder = self
            .device
            .client_builder()
            .name(format!("soak {}", dice.below(1000)))
            .priority(dice.one_of(&[Priority::Low, Priority::Normal, Priority::High]))
            .weight(1 + dice.below(4) as u32);
        if dice.one_in(3) {
            builder = builder.hard_limit(self.limit_bytes);
            ground.limit_bytes = Some(self.limit_bytes);
        }
        if dice.one_in(3) {
            builder = builder.max_tasks(1 + dice.below(16) as u64);
        }
        if dice.one_in(3) {
            builder = builder.max_upload_bytes(1 + dice.below(100_000) as u64);
        }
        (builder.build(), ground)
    }
}

/// Above this many violations a thread ends: more of them say nothing new, and each answer that never comes takes a minute.
const VIOLATIONS_MAX: u64 = 100;

/// Sessions one after another, `rounds` of them or until the soak ends.
pub(crate) fn work(load: &Load, dice: &mut Dice, rounds: Option<u64>) {
    let mut done = 0;
    while rounds.is_none_or(|rounds| done < rounds) && load.is_running() {
        done += 1;
        let ended = session(load, dice);
        if ended == Err(End::Wrong) && load.ground.tally.violations() > VIOLATIONS_MAX {
            return;
        }
    }
}

/// One client's life: a random program, of which every answer is checked.
fn session(load: &Load, dice: &mut Dice) -> Result<(), End> {
    let steps = STEPS_MIN + dice.below(STEPS_MORE);
    let (client, ground) = load.client(dice);
    let kernels = Kernels::native(&client).map_err(|error| ground.refused("kernel", &error))?;
    let mut program = Program::new(ground, vec![client], kernels, dice)?;
    for _ in 0..steps {
        load.ground.tally.one(Count::Steps);
        program.step(dice)?;
        if load.ground.tally.stopped() {
            break;
        }
    }
    program.finish(dice)
}
