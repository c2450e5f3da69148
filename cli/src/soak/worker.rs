//! A thread that opens a client, makes it work for a while, drops it, and opens the next one.

use std::sync::Arc;
use std::time::Duration;

use millstream::{Device, Health};

use super::asks::End;
use super::dice::Dice;
use super::model::Excuses;
use super::session::Session;
use super::tally::{Count, Tally};

/// How often a thread looks whether it is to stop while the device is lost.
const LOST_NAP: Duration = Duration::from_millis(100);

/// What all threads work on.
pub(crate) struct Ground {
    pub(crate) device: Device,
    pub(crate) tally: Arc<Tally>,
    /// What may always go wrong: device memory runs out, and what the simulator was told.
    pub(crate) excuses: Excuses,
    /// Elements of the largest buffer.
    pub(crate) elements_max: usize,
}

impl Ground {
    /// The hard limit of those clients that have one: the largest buffer, which is met often.
    pub(crate) fn limit_bytes(&self) -> u64 {
        (self.elements_max * size_of::<u32>()) as u64
    }

    /// Waits until the device runs. False when the soak ends before.
    pub(crate) fn is_running(&self) -> bool {
        let mut watch = self.device.watch_health();
        while !self.tally.stopped() {
            match watch.health() {
                Health::Running { .. } => return true,
                Health::Lost { .. } => drop(watch.wait_timeout(LOST_NAP)),
                _ => return false,
            }
        }
        false
    }

    /// What ends a session of a device that answered so.
    pub(crate) fn refused(&self, what: &str, error: &millstream::Error) -> End {
        match error {
            millstream::Error::DeviceLost { .. } if self.excuses.has(Excuses::INJECTED) => {
                self.tally.one(Count::Lost);
                End::Lost
            }
            error => {
                self.tally.is_unexpected(format!("{what}: {error}"));
                End::Wrong
            }
        }
    }
}

/// With so many violations more of them tell nothing new, and an answer that never comes takes a minute each.
const VIOLATIONS_MAX: u64 = 100;

/// Sessions one after another, `rounds` of them or until the soak ends.
pub(crate) fn work(ground: &Ground, dice: &mut Dice, rounds: Option<u64>) {
    let mut done = 0;
    while rounds.is_none_or(|rounds| done < rounds) && ground.is_running() {
        done += 1;
        let ended = session(ground, dice);
        if ended == Err(End::Wrong) && ground.tally.violations() > VIOLATIONS_MAX {
            return;
        }
    }
}

fn session(ground: &Ground, dice: &mut Dice) -> Result<(), End> {
    let steps = 20 + dice.below(200);
    let mut session = Session::open(ground, dice)?;
    for _ in 0..steps {
        ground.tally.one(Count::Steps);
        session.step(dice)?;
        if ground.tally.stopped() {
            break;
        }
    }
    session.close(dice)
}
