//! Random programs over everything at once: streams, queues, parts of slices, failures, too little memory, host
//! functions, guards, recordings, refusals of all kinds, and completion in any order, also in the middle of a call.
//! Some end with an abandoned device.
//!
//! Checked: the calls of the backend by the ledger (I2, I3, I4); the results by the oracle (I1, I2, I7); every request
//! is answered by a device that sleeps and wakes only as the real one does, or is abandoned (I5); nothing is left
//! (I10); no caller waits for credit of an abandoned device (I12).

use std::cell::RefCell;

use millstream_protocol::{Access, Binding, DeviceOptions, MemoryOptions, Strategy as Order};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::build::{Answer, Recording, Slice, Stream};
use super::coverage::Coverage;
use super::ledger::Ledger;
use super::oracle::Sent;
use super::rig::Rig;

/// One step, interpreted as the program runs: its kind, and three numbers.
type Step = (u8, u32, u32, u32);

#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) queues: usize,
    sequential: bool,
    max_tasks: usize,
    max_in_flight: usize,
    /// The tasks that a queue of the driver takes; fewer than some replays have.
    driver_depth: usize,
    burst: usize,
    memory_pages: u64,
    isolate: bool,
    refused_of_16: u64,
    dice: (u64, u8),
    /// Whether the device is abandoned after the steps.
    is_abandoned: bool,
}

fn devices() -> impl Strategy<Value = Device> {
    let shape = (1..=4_usize, any::<bool>(), 1..=6_usize, 1..=8_usize);
    let memory = (1..=8_u64, any::<bool>(), 0..=3_u64);
    let end = prop_oneof![3 => Just(false), 1 => Just(true)];
    let chance = prop_oneof![Just(0_u8), Just(30), Just(120)];
    let driver_depth = prop_oneof![Just(usize::MAX), 1..=4_usize];
    (
        shape,
        driver_depth,
        memory,
        1..=12_usize,
        1..=u64::MAX,
        chance,
        end,
    )
        .prop_map(
            |(shape, driver_depth, memory, burst, seed, chance, is_abandoned)| Device {
                queues: shape.0,
                sequential: shape.1,
                max_tasks: shape.2,
                max_in_flight: shape.3,
                driver_depth,
                burst,
                memory_pages: memory.0,
                isolate: memory.1,
                refused_of_16: memory.2,
                dice: (seed, chance),
                is_abandoned,
            },
        )
}

/// The sizes of slices: none, blocks, ranges, whole pages.
pub(super) const SIZES: [u64; 8] = [64, 16, 200, 600, 1000, 1024, 3000, 0];
const PAGE_BYTES: u64 = 4096;
/// The numbers of recorded tasks begin here.
pub(super) const RECORDED: u64 = 1 << 32;

pub(super) struct Run {
    pub(super) rig: Rig,
    pub(super) device: Device,
    pub(super) streams: Vec<Stream>,
    pub(super) slices: Vec<Slice>,
    pub(super) points: Vec<(Slice, Option<u64>)>,
    pub(super) recordings: Vec<Recording>,
    pub(super) sent: Vec<Sent>,
    pub(super) answers: Vec<Answer>,
    pub(super) number: u64,
    /// The last numbered task of each stream, by slot.
    pub(super) last: std::collections::HashMap<u32, u64>,
    /// Streams whose next tasks wait for a task.
    pub(super) edges: Vec<(u32, u64)>,
    /// Pairs of numbered tasks of which the first comes first.
    pub(super) orders: Vec<(u64, u64)>,
}

impl Run {
    pub(super) fn new(device: Device) -> Self {
        let memory = MemoryOptions::default()
            .page_bytes(PAGE_BYTES)
            .small_max(128)
            .max_pages_cached(2)
            .isolate(device.isolate);
        let order = if device.sequential {
            Order::Sequential
        } else {
            Order::Interleave
        };
        let options = DeviceOptions::default()
            .memory(memory)
            .strategy(order)
            .max_tasks(device.max_tasks)
            .max_in_flight(device.max_in_flight);
        let bytes = device.memory_pages * PAGE_BYTES;
        let mut ledger = Ledger::new(device.queues, bytes);
        ledger.driver_depth = device.driver_depth;
        let mut rig = Rig::on(ledger, options);
        rig.burst = device.burst;
        rig.ledger.get().dice = device.dice;
        rig.ledger.get().copies_refused_of_16 = device.refused_of_16;
        let streams = (0..3).map(|_| rig.stream()).collect();
        let mut run = Self {
            rig,
            device,
            streams,
            slices: Vec::new(),
            points: Vec::new(),
            recordings: Vec::new(),
            sent: Vec::new(),
            answers: Vec::new(),
            number: 0,
            last: Default::default(),
            edges: Vec::new(),
            orders: Vec::new(),
        };
        (0..3).for_each(|stream| run.reserve(stream, 3, 2));
        run
    }

    /// Returns a number for a task of this stream, and records that it comes after the tasks that the stream waits for.
    pub(super) fn number(&mut self, stream: usize) -> u64 {
        self.number += 1;
        let (number, slot) = (self.number, self.streams[stream].id().index());
        let before = self
            .edges
            .iter()
            .filter(|(waiting, _)| *waiting == slot)
            .map(|(_, first)| *first);
        self.orders.extend(
            before
                .chain(self.last.insert(slot, number))
                .map(|first| (first, number)),
        );
        number
    }

    pub(super) fn refuse(&mut self, number: u64) -> bool {
        let refuse = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60 < self.device.refused_of_16
            && number.is_multiple_of(2);
        if refuse {
            self.rig.ledger.get().refused.insert(number);
        }
        refuse
    }

    /// Returns a binding of a slice, or of a part of it.
    pub(super) fn part(&self, choice: u32, access: Access) -> Option<Binding> {
        let slice = self
            .slices
            .get(choice as usize % self.slices.len().max(1))?;
        let rest = u64::from(choice / 64);
        if !rest.is_multiple_of(3) || slice.bytes < 8 {
            return Some(slice.all(access));
        }
        let step = slice.bytes / 8;
        let (start, len) = (rest / 3 % 7, 1 + rest / 21 % 5);
        Some(slice.part(start * step..slice.bytes.min((start + len) * step), access))
    }

    /// Returns up to four bindings of one task, none of which conflicts with another.
    pub(super) fn bindings(&self, choice: u32, accesses: u32) -> Vec<Binding> {
        let mut bindings: Vec<Binding> = Vec::new();
        for index in 0..1 + accesses % 4 {
            let access = [Access::Read, Access::ReadWrite, Access::Write]
                [(accesses >> (2 + 2 * index)) as usize % 3];
            let choice = choice.rotate_right(8 * index).wrapping_add(index * 7);
            if let Some(binding) = self.part(choice, access)
                && !bindings.iter().any(|other| other.conflicts(&binding))
            {
                bindings.push(binding);
            }
        }
        bindings
    }

    pub(super) fn step(&mut self, (what, a, b, c): Step) {
        let stream = a as usize % self.streams.len();
        match what {
            0..10 => self.launch(stream, b, c),
            10..12 => self.fill(stream, b),
            12..14 => self.copy(stream, b, c),
            14..16 => self.copy_in(stream, b),
            16..18 => self.copy_out(stream, b, c),
            18..24 => self.reserve(stream, b, c),
            24..28 => {
                if !self.slices.is_empty() {
                    self.slices.swap_remove(b as usize % self.slices.len());
                }
            }
            28..30 => self.host(stream, b, c),
            30 => self.point(stream),
            31 => self.wait_for(stream, b),
            32 => self.record(b, c),
            33 => self.replay(stream, b, c),
            34 => self.rig.flush(&self.streams[stream]),
            35 => {
                let answer = self.rig.sync(&self.streams[stream]);
                self.answers.push(answer);
            }
            36 => self.query(stream, b),
            37 => self.streams_come_and_go(stream, b),
            38..44 => {
                self.rig.turn();
            }
            44..50 => {
                for _ in 0..1 + b % 4 {
                    self.rig.step(a as usize % self.device.queues);
                }
            }
            50..53 => {
                self.rig.run_host(a as usize);
            }
            53..55 => self.custom(stream, b, c),
            55..57 => self.guard(stream, b, c),
            // Guards live long.
            _ if b.is_multiple_of(2) => {}
            _ => {
                self.rig.end_guard(a as usize);
            }
        }
    }
}

/// Runs a program, checks it, and returns the cases that it met.
fn run(device: Device, steps: Vec<Step>) -> Coverage {
    let is_abandoned = device.is_abandoned;
    let mut run = Run::new(device);
    for step in steps {
        run.step(step);
    }
    let ledger = run.rig.ledger.clone();
    if is_abandoned {
        run.abandon();
    } else {
        run.finish();
    }
    std::mem::take(&mut ledger.get().coverage)
}

/// Enough for every kind of step to meet every other; `PROPTEST_CASES` sets another number.
const CASES: u32 = 2000;

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: cases.and_then(|cases| cases.parse().ok()).unwrap_or(CASES),
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[test]
fn random_program_computes_what_the_oracle_computes_and_leaves_nothing() {
    let config = config();
    let coverage = RefCell::new(Coverage::default());
    let programs = u64::from(config.cases);
    let mut runner = TestRunner::new(config);
    let step = (0..58_u8, any::<u32>(), any::<u32>(), any::<u32>());
    let outcome = runner.run(&(devices(), vec(step, 1..300)), |(device, steps)| {
        coverage.borrow_mut().add(&run(device, steps));
        Ok(())
    });
    if let Err(failed) = outcome {
        panic!("{failed}");
    }
    coverage.borrow().check(programs);
}
