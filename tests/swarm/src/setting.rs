//! The options of the device of a case.

use millstream::sim::{Call, Faults, Sim};
use millstream::{DeviceOptions, MemoryOptions, Strategy};
use millstream_testkit::{AllowedFailures, Dice, ProgramConfig};

/// A fault that is injected once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The nth call of a kind fails, counted from 1.
    Nth(Call, u64),
    /// The device is lost at the nth call of any kind, counted from 1.
    LostFrom(u64),
}

/// The device of a case, its options, and the failures that are accepted.
pub(crate) struct Setting {
    pub(crate) sim: Sim,
    pub(crate) queues: usize,
    pub(crate) options: DeviceOptions,
    pub(crate) config: ProgramConfig,
}

/// The number of elements of each buffer.
const ELEMENTS: usize = 64;

/// The purpose of the dice ([`Dice::new`]) that choose the setting.
const PURPOSE: u64 = 1 << 40;

/// The memory of a device that runs out of it: a few buffers.
const SCARCE_BYTES: u64 = 16 << 10;

impl Setting {
    pub(crate) fn new(seed: u64, fault: Option<Fault>) -> Self {
        let dice = &mut Dice::new(seed, PURPOSE);
        let (mut faulty, scarce) = (dice.one_in(4), dice.one_in(5) && fault.is_none());
        let (sim_seed, queues) = (dice.wide(), 1 + dice.below(4));
        let mut sim = Sim::seed(sim_seed).queues(queues);
        if dice.one_in(4) {
            sim = sim.slow(millstream::device::QueueId(0), 2 + dice.below(8) as u32);
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
        if scarce || dice.one_in(2) {
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
            // More than the steps of a program: otherwise a call could wait for ever for room behind a task that cannot
            // be issued.
            .max_held(dice.one_of(&[1_024, 65_536]))
            .memory(memory);
        let allowed = [
            (faulty, AllowedFailures::INJECTED),
            (scarce || faulty, AllowedFailures::MEMORY),
            (
                matches!(fault, Some(Fault::LostFrom(_))),
                AllowedFailures::LOST,
            ),
        ];
        let allowed = allowed
            .into_iter()
            .filter_map(|(may, excuse)| may.then_some(excuse));
        Self {
            sim,
            queues,
            options,
            config: Self::config(allowed.fold(AllowedFailures::NONE, AllowedFailures::and)),
        }
    }

    /// Returns the config of a program that accepts these failures.
    pub(crate) fn config(allowed: AllowedFailures) -> ProgramConfig {
        ProgramConfig {
            allowed,
            is_driven: true,
            ends_tasks_later: true,
            ..ProgramConfig::small(ELEMENTS)
        }
    }
}

fn faults(dice: &mut Dice) -> Faults {
    (0..1 + dice.below(4)).fold(Faults::none(), |faults, _| {
        let kind = dice.one_of(&Call::OF_TASKS);
        match dice.one_in(3) {
            true => faults.chance(kind, 0.02),
            false => faults.nth(kind, 1 + dice.below(40) as u64),
        }
    })
}
