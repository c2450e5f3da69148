//! Random programs over everything at once: streams, queues, parts of slices, failures, too little
//! memory, host functions, recordings, completion in any order, also in the middle of a call.
//!
//! Checked: what the ledger checks (I2, I3, I4), what the oracle computes (I1, I2, I7), that every ask
//! is answered by a device that only sleeps and wakes as the real one (I5), that nothing is left (I10).

use proptest::collection::vec;
use proptest::prelude::*;

use crate::access::Access;
use crate::handle::{Binding, Hold};
use crate::memory::{AllocationMode, MemoryOptions};
use crate::message::{Op, Task};
use crate::options::{DeviceOptions, Strategy as Order};
use crate::recording::overlapping_task;
use crate::report::{Ask, Scope};

use super::build::{Answer, CLIENT, Recording, Slice, Stream};
use super::oracle::{Oracle, Sent};
use super::rig::Rig;

/// One step, made sense of as the program goes: what, and three numbers.
type Step = (u8, u32, u32, u32);

#[derive(Clone, Debug)]
struct Device {
    queues: usize,
    sequential: bool,
    max_tasks: usize,
    max_in_flight: usize,
    burst: usize,
    memory_pages: u64,
    isolate: bool,
    refused_of_16: u64,
    dice: (u64, u8),
}

fn devices() -> impl Strategy<Value = Device> {
    let shape = (1..=4_usize, any::<bool>(), 1..=6_usize, 1..=8_usize);
    let memory = (1..=8_u64, any::<bool>(), 0..=3_u64);
    let chance = prop_oneof![Just(0_u8), Just(30), Just(120)];
    (shape, memory, 1..=12_usize, 1..=u64::MAX, chance).prop_map(
        |(shape, memory, burst, seed, chance)| Device {
            queues: shape.0,
            sequential: shape.1,
            max_tasks: shape.2,
            max_in_flight: shape.3,
            burst,
            memory_pages: memory.0,
            isolate: memory.1,
            refused_of_16: memory.2,
            dice: (seed, chance),
        },
    )
}

/// Slices of these sizes: none, blocks, ranges, whole pages.
const SIZES: [u64; 8] = [64, 16, 200, 600, 1000, 1024, 3000, 0];
const PAGE_BYTES: u64 = 4096;
/// Tasks of recordings are numbered from here.
const RECORDED: u64 = 1 << 32;

struct Run {
    rig: Rig,
    device: Device,
    kernel: Hold,
    streams: Vec<Stream>,
    slices: Vec<Slice>,
    points: Vec<(Slice, Option<u64>)>,
    recordings: Vec<Recording>,
    sent: Vec<Sent>,
    answers: Vec<Answer>,
    number: u64,
    /// The last numbered task of each stream, by slot.
    last: std::collections::HashMap<u32, u64>,
    /// Streams that wait for a task from their next one on.
    edges: Vec<(u32, u64)>,
    /// Of two numbered tasks the first comes first.
    orders: Vec<(u64, u64)>,
}

impl Run {
    fn new(device: Device) -> Self {
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
        let mut rig = Rig::with_memory(device.queues, bytes, options);
        rig.burst = device.burst;
        rig.ledger.get().dice = device.dice;
        let kernel = rig.kernel();
        let streams = (0..3).map(|_| rig.stream()).collect();
        let mut run = Self {
            rig,
            device,
            kernel,
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

    /// A number for a task of this stream, which comes after what the stream waits for.
    fn number(&mut self, stream: usize) -> u64 {
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

    fn refuse(&mut self, number: u64) -> bool {
        let refuse = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60 < self.device.refused_of_16
            && number % 2 == 0;
        if refuse {
            self.rig.ledger.get().refused.insert(number);
        }
        refuse
    }

    /// A part of a slice, whole more often than not.
    fn part(&self, choice: u32, access: Access) -> Option<Binding> {
        let slice = self
            .slices
            .get(choice as usize % self.slices.len().max(1))?;
        let rest = u64::from(choice / 64);
        if rest % 3 != 0 || slice.bytes < 8 {
            return Some(slice.all(access));
        }
        let step = slice.bytes / 8;
        let (start, len) = (rest / 3 % 7, 1 + rest / 21 % 5);
        Some(slice.part(start * step..slice.bytes.min((start + len) * step), access))
    }

    /// Up to four bindings of one task, none of which conflicts with another.
    fn bindings(&self, choice: u32, accesses: u32) -> Vec<Binding> {
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

    fn step(&mut self, (what, a, b, c): Step) {
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
            36 => self.ask(stream, b),
            37 => self.streams_come_and_go(stream, b),
            38..44 => {
                self.rig.turn();
            }
            44..50 => {
                for _ in 0..1 + b % 4 {
                    self.rig.step(a as usize % self.device.queues);
                }
            }
            _ => {
                self.rig.run_host(a as usize);
            }
        }
    }

    fn launch(&mut self, stream: usize, choice: u32, accesses: u32) {
        let bindings = self.bindings(choice, accesses);
        let number = self.number(stream);
        let fails = self.refuse(number);
        self.rig
            .launch(&self.streams[stream], &self.kernel, number, &bindings);
        self.sent.push(Sent::Run {
            number,
            bindings,
            fails,
        });
    }

    fn fill(&mut self, stream: usize, choice: u32) {
        let Some(target) = self.part(choice, Access::Write) else {
            return;
        };
        let number = self.number(stream);
        let fails = self.refuse(number);
        self.rig.fill(&self.streams[stream], number, target);
        self.sent.push(Sent::Run {
            number,
            bindings: vec![target],
            fails,
        });
    }

    fn copy(&mut self, stream: usize, from: u32, to: u32) {
        let (Some(mut source), Some(mut target)) =
            (self.part(from, Access::Read), self.part(to, Access::Write))
        else {
            return;
        };
        let len = source.len.min(target.len);
        (source.len, target.len) = (len, len);
        self.rig
            .submit(&self.streams[stream], Op::Copy, &[source, target]);
        self.sent.push(Sent::Copy { source, target });
    }

    fn copy_in(&mut self, stream: usize, choice: u32) {
        let Some(target) = self.part(choice, Access::Write) else {
            return;
        };
        let bytes = vec![choice as u8; target.len as usize];
        self.rig
            .copy_in(&self.streams[stream], bytes.clone(), target);
        self.sent.push(Sent::CopyIn { bytes, target });
    }

    fn copy_out(&mut self, stream: usize, choice: u32, more: u32) {
        let mut sources: Vec<_> = self.part(choice, Access::Read).into_iter().collect();
        if more % 3 == 0 {
            sources.extend(self.part(more, Access::Read));
        }
        if sources.is_empty() {
            return;
        }
        let answer = self.rig.copy_out(&self.streams[stream], &sources);
        self.sent.push(Sent::CopyOut {
            answer: self.answers.len(),
            sources,
        });
        self.answers.push(answer);
    }

    fn reserve(&mut self, stream: usize, size: u32, mode: u32) {
        if self.slices.len() >= 12 {
            return;
        }
        let mode = match mode % 8 {
            0 => AllocationMode::Persistent,
            1 => AllocationMode::Dedicated,
            _ => AllocationMode::Automatic,
        };
        let bytes = SIZES[size as usize % SIZES.len()];
        let slice = self
            .rig
            .slice_with(&self.streams[stream], bytes, Some(mode));
        self.sent.push(Sent::Reserve {
            slice: slice.id(),
            bytes,
            point: false,
        });
        self.slices.push(slice);
    }

    fn host(&mut self, stream: usize, choice: u32, accesses: u32) {
        let bindings = self.bindings(choice, accesses);
        self.number += 1;
        let number = self.number;
        let fails = accesses % 11 == 0;
        let outcome = if fails { Err("scripted") } else { Ok(()) };
        self.rig
            .host(&self.streams[stream], number, &bindings, outcome);
        self.sent.push(Sent::Run {
            number,
            bindings,
            fails,
        });
    }

    fn point(&mut self, stream: usize) {
        let point = self.rig.point(&self.streams[stream]);
        let before = self.last.get(&self.streams[stream].id().index()).copied();
        self.points.push((point, before));
    }

    fn wait_for(&mut self, stream: usize, choice: u32) {
        if self.points.is_empty() {
            return;
        }
        let nth = choice as usize % self.points.len();
        self.rig
            .wait_for(&self.streams[stream], &self.points[nth].0);
        if let Some(first) = self.points[nth].1 {
            self.edges.push((self.streams[stream].id().index(), first));
        }
        if choice % 3 == 0 {
            self.points.swap_remove(nth);
        }
    }

    fn record(&mut self, choice: u32, accesses: u32) {
        if self.recordings.len() >= 3 {
            self.recordings.swap_remove(choice as usize % 3);
        }
        let mut launches = Vec::new();
        for index in 0..1 + choice % 4 {
            self.number += 1;
            let number = RECORDED + self.number;
            self.refuse(number);
            let bindings = self.bindings(
                choice.rotate_left(5 * index),
                accesses.rotate_left(3 * index),
            );
            let bindings: Vec<_> = bindings
                .into_iter()
                .filter(|binding| binding.len > 0)
                .collect();
            launches.push((number, bindings));
        }
        let recording = self.rig.record(&self.kernel, &launches);
        // It would hold its slices; here a replay needs them rebound once they are gone.
        self.recordings.push(recording);
    }

    fn replay(&mut self, stream: usize, choice: u32, rebound: u32) {
        let Some(nth) = (choice as usize).checked_rem(self.recordings.len()) else {
            return;
        };
        let mut parameters = self.recordings[nth].parameters.clone();
        for (index, parameter) in parameters.iter_mut().enumerate() {
            let known = self
                .slices
                .iter()
                .any(|slice| slice.id() == parameter.slice);
            let other = rebound.rotate_right(4 * index as u32) as usize;
            if known && other % 3 != 0 {
                continue;
            }
            let fits: Vec<_> = self
                .slices
                .iter()
                .filter(|slice| slice.bytes >= parameter.len)
                .collect();
            let Some(slice) = other.checked_rem(fits.len()).map(|index| fits[index]) else {
                return;
            };
            let range = 0..parameter.len;
            *parameter = slice.part(range, parameter.access);
        }
        let tasks = self.recordings[nth].tasks.clone();
        if overlapping_task(&tasks, &parameters).is_some() {
            return;
        }
        self.rig
            .replay(&self.streams[stream], &self.recordings[nth], &parameters);
        self.sent.push(Sent::Replay { tasks, parameters });
    }

    fn ask(&mut self, stream: usize, choice: u32) {
        let scope = match choice % 3 {
            0 => Scope::Device,
            1 => Scope::Client(CLIENT),
            _ => Scope::Streams(vec![self.streams[stream].id()]),
        };
        if choice % 5 < 2 {
            let ask = match choice % 5 {
                0 => Ask::Flush { scope },
                _ => Ask::Cleanup(millstream_sync::reply::reply().0),
            };
            self.rig.send(Task::new(None, Op::Ask(Box::new(ask))));
        } else {
            let answer = self.rig.sync_all(scope);
            self.answers.push(answer);
        }
    }

    fn streams_come_and_go(&mut self, stream: usize, choice: u32) {
        if choice % 2 == 0 && self.streams.len() < 7 {
            let stream = self.rig.stream();
            self.forget(&stream);
            self.streams.push(stream);
        } else if self.streams.len() > 1 {
            self.streams.swap_remove(stream);
        }
    }

    /// A new stream in an old slot has no past.
    fn forget(&mut self, stream: &Stream) {
        let slot = stream.id().index();
        self.last.remove(&slot);
        self.edges.retain(|(waiting, _)| *waiting != slot);
    }

    /// Nothing more is sent: everything must end by itself.
    fn finish(mut self) {
        self.rig.drain();
        assert_eq!(self.rig.held(), 0, "tasks are held for ever (I5)");
        self.check_answers();
        self.check_orders();
        self.check_nothing_is_left();
    }

    fn check_answers(&mut self) {
        let (reserved, refused) = {
            let ledger = self.rig.ledger.get();
            (ledger.reserved.clone(), ledger.refused.clone())
        };
        let oracle = Oracle::run(&self.sent, &reserved, &refused);
        for (index, answer) in self.answers.iter_mut().enumerate() {
            let got = answer
                .look(&self.rig)
                .unwrap_or_else(|| panic!("ask {index} is never answered (I5)"));
            match oracle.answers.get(&index) {
                None => assert!(got.is_ok(), "a sync has no failure of its own"),
                Some(expected) => assert_eq!(
                    got.ok().as_ref(),
                    expected.as_ref(),
                    "answer {index} differs (I1, I2, I7)"
                ),
            }
        }
    }

    /// I1: the order within streams, and explicit edges.
    fn check_orders(&self) {
        let ledger = self.rig.ledger.get();
        for (first, second) in &self.orders {
            // A task that did not run has no place.
            if let (Some(first), Some(second)) =
                (ledger.issues.get(first), ledger.issues.get(second))
            {
                assert!(
                    second.comes_after(first.point),
                    "{second:?} must come after {first:?} (I1)"
                );
            }
        }
    }

    /// I10.
    fn check_nothing_is_left(mut self) {
        self.slices.clear();
        self.points.clear();
        self.recordings.clear();
        for stream in &self.streams {
            assert!(stream.credit.in_use() < 32, "credit is given back");
        }
        self.streams.clear();
        drop(self.kernel);
        self.rig.drain();
        let server = &self.rig.server;
        assert!(server.is_drained());
        assert_eq!((server.live_slices(), server.slices.len()), (0, 0));
        assert_eq!((server.streams.len(), server.kernels.len()), (0, 0));
        assert_eq!((server.recordings.len(), self.rig.table.live()), (0, 0));
        assert_eq!((server.dropped_in_use, server.hungry.len()), (0, 0));
        assert!(server.host_turns.is_empty() && server.early_drops.is_empty());
        let usage = server.pools.usage();
        assert_eq!((usage.in_use, usage.busy, usage.live), (0, 0, 0));
        assert_eq!(
            server
                .accounts
                .iter()
                .map(|(_, account)| account.in_use)
                .sum::<u64>(),
            0
        );
        for queue in &server.queues {
            assert_eq!((queue.turn.len(), queue.streams), (0, 0));
            assert!(queue.retiring.is_empty());
        }
        assert_eq!((self.rig.collects(), self.rig.hosts()), (0, 0));
        self.rig.server.free_pages();
        assert_eq!(self.rig.ledger.get().live(), (0, 0));
    }
}

fn run(device: Device, steps: Vec<Step>) {
    let mut run = Run::new(device);
    for step in steps {
        run.step(step);
    }
    run.finish();
}

/// Enough for every kind of step to meet every other; more with `PROPTEST_CASES`.
const CASES: u32 = 2000;

fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: asked.and_then(|cases| cases.parse().ok()).unwrap_or(CASES),
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_program_computes_what_its_messages_say_in_order_and_leaves_nothing(
        device in devices(),
        steps in vec((0..52_u8, any::<u32>(), any::<u32>(), any::<u32>()), 1..300),
    ) {
        run(device, steps);
    }
}
