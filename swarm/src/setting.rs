//! How the device of a case is opened.

use millstream::sim::{Call, Faults, Sim};
use millstream::{DeviceOptions, MemoryOptions, Strategy};

use crate::dice::Dice;

/// The device of a case, and how sure its program can be of what it computes.
pub(crate) struct Setting {
    pub(crate) sim: Sim,
    pub(crate) options: DeviceOptions,
    /// Nothing fails but what the program itself makes fail.
    pub(crate) sound: bool,
}

/// What the dice are for.
const PURPOSE: u64 = 1 << 40;

/// Memory of a device that runs out of it: a few buffers.
const SCARCE_BYTES: u64 = 16 << 10;

impl Setting {
    pub(crate) fn new(seed: u64) -> Self {
        let dice = &mut Dice::new(seed, PURPOSE);
        let (faulty, scarce) = (dice.once_in(4), dice.once_in(5));
        let mut sim = Sim::seed(dice.next()).queues(1 + dice.roll(4));
        if dice.once_in(4) {
            sim = sim.slow(millstream::QueueId(0), 2 + dice.roll(8) as u32);
        }
        if faulty {
            sim = sim.faults(faults(dice));
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
            .max_held(dice.one_of(&[4, 64, 65_536]))
            .memory(memory);
        Self {
            sim,
            options,
            sound: !faulty && !scarce,
        }
    }
}

fn faults(dice: &mut Dice) -> Faults {
    let kinds = [
        Call::Allocate,
        Call::Launch,
        Call::CopyIn,
        Call::CopyOut,
        Call::Copy,
        Call::Fill,
        Call::Run,
    ];
    (0..1 + dice.roll(4)).fold(Faults::none(), |faults, _| {
        let kind = dice.one_of(&kinds);
        match dice.once_in(3) {
            true => faults.chance(kind, 0.02),
            false => faults.nth(kind, 1 + dice.roll(40) as u64),
        }
    })
}
