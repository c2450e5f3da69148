//! A launch: block after block, and of each its warps in turn, from barrier to barrier.

mod compute;
mod meeting;
mod memory;
mod space;
mod warp;

use std::collections::BTreeSet;
use std::ops::Range;

use crate::arithmetic::compare;
use crate::instruction::{Instruction, Source, Special, Type, Vote};
use crate::shadow::{Now, Shadow, Stamp};
use crate::{Fault, Global, Kernel, Launch, Trap};

use memory::Memory;
use warp::{LANES, Lanes, Warp, lanes};

/// A launch whose warps run so many instructions is taken for one that never ends.
const INSTRUCTIONS_MAX: u64 = 100_000_000;
/// Instructions of a warp until it is another's turn: one may wait in a loop for what another does.
const TURN: u32 = 1 << 14;
/// Races that are told of one launch: the rest says nothing new.
const RACES_MAX: usize = 4;

/// What a launch did.
pub struct Ran {
    /// Bytes that were read, written and updated by atomic operations. A range lies within one [`Window`](crate::Window).
    pub touched: [Vec<Range<u64>>; 3],
    /// Races between its threads, a sentence each.
    pub races: Vec<String>,
    /// Why it stopped, if it did not end.
    pub ended: Result<(), Trap>,
}

/// What is the same for all threads of a block, or changes with them.
struct Block<'a, 'g, G> {
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    cube: [u32; 3],
    shared: Vec<u8>,
    shared_shadow: Shadow,
    global: &'a mut Memory<'g, G>,
    /// How many instructions may still run.
    budget: &'a mut u64,
    /// How many barriers and blocks were before, in the launch.
    epoch: &'a mut u32,
    first_epoch: u32,
    races: &'a mut Races,
}

/// Races that were found.
#[derive(Default)]
struct Races {
    said: Vec<String>,
    /// Lines that were told of.
    lines: BTreeSet<u32>,
    /// The first epoch of each block, in order.
    blocks: Vec<(u32, [u32; 3])>,
}

impl Races {
    /// The block of an epoch.
    fn block_of(&self, epoch: u32) -> [u32; 3] {
        let after = self.blocks.partition_point(|(first, _)| *first <= epoch);
        self.blocks[after.saturating_sub(1)].1
    }
}

/// Runs a launch. What it wrote before a trap stays written.
pub fn run(launch: &Launch<'_>, global: &mut impl Global) -> Ran {
    let mut memory = Memory::new(global);
    let mut races = Races::default();
    let ended = run_blocks(launch, &mut memory, &mut races);
    Ran {
        touched: memory.touched(),
        races: races.said,
        ended,
    }
}

fn run_blocks<G: Global>(
    launch: &Launch<'_>,
    memory: &mut Memory<'_, G>,
    races: &mut Races,
) -> Result<(), Trap> {
    let kernel = launch.kernel;
    let bytes = shared_dynamic_start(kernel) + launch.shared_bytes as usize;
    let (mut budget, mut epoch) = (INSTRUCTIONS_MAX, 0);
    let [x_end, y_end, z_end] = launch.cubes;
    let cubes =
        (0..z_end).flat_map(|z| (0..y_end).flat_map(move |y| (0..x_end).map(move |x| [x, y, z])));
    let mut warps = Vec::new();
    for cube in cubes {
        epoch += 1;
        races.blocks.push((epoch, cube));
        let mut block = Block {
            kernel,
            launch,
            cube,
            // Not zeros: shared memory is nothing in particular before it is written.
            shared: vec![0xCB; bytes],
            shared_shadow: Shadow::new(bytes as u64),
            global: memory,
            budget: &mut budget,
            first_epoch: epoch,
            epoch: &mut epoch,
            races,
        };
        block.run(&mut warps)?;
    }
    Ok(())
}

/// Dynamic shared memory is behind the static one.
fn shared_dynamic_start(kernel: &Kernel) -> usize {
    kernel.shared_bytes.next_multiple_of(16)
}

impl<G: Global> Block<'_, '_, G> {
    fn run(&mut self, warps: &mut Vec<Warp>) -> Result<(), Trap> {
        let threads = self.launch.threads.iter().product::<u32>();
        let count = threads.div_ceil(LANES as u32);
        warps.resize_with(count as usize, || Warp::new(self.kernel));
        for (number, warp) in warps.iter_mut().enumerate() {
            warp.begin(number as u32, self.launch.threads, self.kernel);
        }
        loop {
            for warp in warps.iter_mut() {
                self.run_warp(warp)?;
            }
            if warps.iter().any(Warp::can_run) {
                continue;
            }
            if warps.iter().all(Warp::has_ended) {
                return Ok(());
            }
            self.release(warps)?;
        }
    }

    /// Nobody can go on: if all who live are at one barrier, they go on from there.
    fn release(&mut self, warps: &mut [Warp]) -> Result<(), Trap> {
        let mut waiting = warps.iter().flat_map(|warp| &warp.at_barrier);
        let first = waiting.next().map(|waiting| waiting.id);
        let same = first.is_some_and(|id| waiting.all(|waiting| waiting.id == id));
        let stuck = warps
            .iter()
            .find_map(|warp| Some((warp, warp.parked.first()?)));
        if let Some((warp, group)) = stuck {
            let instruction = &self.kernel.instructions[group.at];
            let said = "its lanes wait for others of their warp, which wait elsewhere: for ever";
            return Err(self.trap(
                warp,
                group.lanes.trailing_zeros() as usize,
                instruction,
                Fault::LaunchTimeout,
                said,
            ));
        }
        if !same {
            let said = "threads of a block wait at different barriers: for ever".to_owned();
            return Err(Trap {
                fault: Fault::LaunchTimeout,
                said: format!("kernel `{}`: {said}", self.kernel.name),
            });
        }
        *self.epoch += 1;
        let count = |ayes: bool| -> u32 {
            let waiting = warps.iter().flat_map(|warp| &warp.at_barrier);
            waiting
                .map(|of| match ayes {
                    true => of.ayes.count_ones(),
                    false => of.lanes.count_ones(),
                })
                .sum()
        };
        let (all, ayes) = (count(false), count(true));
        for warp in warps {
            for waiting in std::mem::take(&mut warp.at_barrier) {
                if let Some((how, target)) = waiting.vote {
                    let result = match how {
                        Vote::Count => u64::from(ayes),
                        Vote::All => u64::from(ayes == all),
                        _ => u64::from(ayes > 0),
                    };
                    for lane in lanes(waiting.lanes) {
                        warp.registers[target][lane] = result;
                    }
                }
                warp.put(waiting.at + 1, waiting.lanes);
            }
        }
        Ok(())
    }

    #[cold]
    fn trap(&self, warp: &Warp, lane: usize, at: &Instruction, fault: Fault, said: &str) -> Trap {
        Trap {
            fault,
            said: format!(
                "kernel `{}`, line {} of its PTX, thread {:?} of cube {:?}: {said}",
                self.kernel.name,
                at.line,
                warp.place(lane),
                self.cube
            ),
        }
    }

    /// What a source is for each lane.
    fn read(&self, warp: &Warp, source: Source) -> [u64; LANES] {
        match source {
            Source::Register(register) => warp.registers[register],
            Source::Value(bits) => [bits; LANES],
            Source::Special(special) => self.special(warp, special),
        }
    }

    fn special(&self, warp: &Warp, special: Special) -> [u64; LANES] {
        let start = shared_dynamic_start(self.kernel) as u64;
        let dynamic = u64::from(self.launch.shared_bytes);
        let threads = self.launch.threads.iter().product::<u32>();
        let same = match special {
            Special::Thread(axis) => return warp.places[axis],
            Special::Lane => return std::array::from_fn(|lane| lane as u64),
            Special::Lanes(how) => {
                return std::array::from_fn(|lane| {
                    let with = |other: &usize| {
                        let (a, b) = (*other as u64, lane as u64);
                        compare(how, Type::Unsigned(8), false, a, b)
                    };
                    (0..LANES).filter(with).map(|other| 1 << other).sum()
                });
            }
            Special::Threads(axis) => u64::from(self.launch.threads[axis]),
            Special::Cube(axis) => u64::from(self.cube[axis]),
            Special::Cubes(axis) => u64::from(self.launch.cubes[axis]),
            Special::Warp => u64::from(warp.number),
            Special::Warps => u64::from(threads.div_ceil(LANES as u32)),
            Special::SharedDynamicStart => start,
            Special::SharedDynamicBytes => dynamic,
            Special::SharedBytes => start + dynamic,
        };
        [same; LANES]
    }

    /// This moment of a lane's.
    fn now(&self, warp: &Warp, lane: usize) -> Now {
        let thread = warp.number as usize * LANES + lane;
        Now {
            me: Stamp::new(*self.epoch, warp.syncs, thread),
            block: self.first_epoch,
        }
    }

    /// The lanes in which an instruction is done.
    fn guarded(&self, warp: &Warp, instruction: &Instruction, of: Lanes) -> Lanes {
        let Some((register, value)) = instruction.guard else {
            return of;
        };
        let values = &warp.registers[register];
        lanes(of)
            .filter(|lane| (values[*lane] != 0) == value)
            .fold(0, |all, lane| all | 1 << lane)
    }
}
