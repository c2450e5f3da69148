//! How the device of a case is opened.

use millstream::sim::{Call, Faults, Sim};
use millstream::{DeviceOptions, MemoryOptions, Strategy};

use crate::case::Fault;
use crate::dice::Dice;

/// The device of a case, and how sure its program can be of what it computes.
pub(crate) struct Setting {
    pub(crate) sim: Sim,
    pub(crate) options: DeviceOptions,
    pub(crate) sureness: Sureness,
}

/// What may become of a program's tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sureness {
    /// Nothing fails but what the program itself makes fail.
    Sound,
    /// Tasks may fail, and say so.
    Faulty,
    /// The device may be lost, and everybody is told.
    Lost,
}

/// What the dice are for.
const PURPOSE: u64 = 1 << 40;

/// Memory of a device that runs out of it: a few buffers.
const SCARCE_BYTES: u64 = 16 << 10;

impl Setting {
    pub(crate) fn new(seed: u64, fault: Option<Fault>) -> Self {
        let dice = &mut Dice::new(seed, PURPOSE);
        let (mut faulty, scarce) = (dice.once_in(4), dice.once_in(5) && fault.is_none());
        let mut sim = Sim::seed(dice.next()).queues(1 + dice.roll(4));
        if dice.once_in(4) {
            sim = sim.slow(millstream::QueueId(0), 2 + dice.roll(8) as u32);
        }
        if faulty {
            sim = sim.faults(faults(dice));
        }
        if let Some(fault) = fault {
            faulty = true;
            sim = sim.faults(match fault {
                Fault::Nth(call, nth) => Faults::none().nth(call, nth),
                Fault::LostFrom(nth) => Faults::none().lost_from(nth),
            });
        }
        let mut memory = MemoryOptions::default();
        if scarce || dice.once_in(2) {
            memory = memory.page_bytes(4 << 10).small_max(256);
        }
        if scarce {
            sim = sim.memory_bytes(SCARCE_BYTES);
        }
        let options = DeviceOptions::default()
            .strategy(dice.one_of(&[Strategy::Interleave, Strategy::Sequential]))
            .max_tasks(dice.one_of(&[1, 3, 8, 32]))
            .max_in_flight(dice.one_of(&[1, 2, 7, 512]))
            .mailbox_capacity(dice.one_of(&[2, 8, 64]))
            .flush_every(dice.one_of(&[1, 3, 64]))
            // More than a program has steps: who waits for a task that never goes would wait for ever.
            .max_held(dice.one_of(&[1_024, 65_536]))
            .memory(memory);
        Self {
            sim,
            options,
            sureness: match fault {
                Some(Fault::LostFrom(_)) => Sureness::Lost,
                _ if faulty || scarce => Sureness::Faulty,
                _ => Sureness::Sound,
            },
        }
    }
}

fn faults(dice: &mut Dice) -> Faults {
    (0..1 + dice.roll(4)).fold(Faults::none(), |faults, _| {
        let kind = dice.one_of(&Call::OF_TASKS);
        match dice.once_in(3) {
            true => faults.chance(kind, 0.02),
            false => faults.nth(kind, 1 + dice.roll(40) as u64),
        }
    })
}
