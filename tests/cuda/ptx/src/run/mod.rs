//! Runs a launch: the blocks one after the other, and the warps of a block in turn, from barrier to barrier.

mod collective;
mod compute;
mod memory;
mod space;
mod warp;

use std::collections::BTreeSet;
use std::ops::Range;

use crate::instruction::{Instruction, Source, Special};
use crate::shadow::{Current, Shadow, Stamp};
use crate::{Fault, Global, Kernel, Launch, Trap};

use memory::Memory;
use warp::{LANES, Lanes, Warp, lanes};

/// A launch whose warps run more instructions than this counts as not terminating.
const INSTRUCTIONS_MAX: u64 = 100_000_000;
/// Instructions of a warp before the next warp runs. A warp may poll for a value that another warp writes.
const TURN_INSTRUCTIONS: u32 = 1 << 14;
/// Most races that are reported for one launch.
const RACES_MAX: usize = 4;

/// The result of a launch.
pub struct Outcome {
    /// The bytes that were read, written and atomically updated. Each range lies within one [`Window`](crate::Window).
    pub accesses: [Vec<Range<u64>>; 3],
    /// Reports of races between threads.
    pub races: Vec<String>,
    /// The trap that stopped the launch, if there was one.
    pub result: Result<(), Trap>,
}

/// The state of a block.
struct Block<'a, 'g> {
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    cube: [u32; 3],
    shared: Vec<u8>,
    shared_shadow: Shadow,
    global: &'a mut Memory<'g>,
    /// The number of instructions that may still run.
    budget: &'a mut u64,
    /// The number of earlier barriers and blocks in the launch.
    epoch: &'a mut u32,
    first_epoch: u32,
    races: &'a mut Races,
}

/// The reported races.
#[derive(Default)]
struct Races {
    reports: Vec<String>,
    /// The lines with a reported race.
    lines: BTreeSet<u32>,
    /// The first epoch of each block, in order.
    blocks: Vec<(u32, [u32; 3])>,
}

impl Races {
    /// Returns the block of an epoch.
    fn block_of(&self, epoch: u32) -> [u32; 3] {
        let after = self.blocks.partition_point(|(first, _)| *first <= epoch);
        self.blocks[after.saturating_sub(1)].1
    }
}

/// Runs a launch. Writes before a trap stay in memory. `global` is no type parameter: the interpreter is then compiled with
/// this crate, which is optimized in tests, and not with the crate that calls it.
pub fn run(launch: &Launch<'_>, global: &mut dyn Global) -> Outcome {
    let mut memory = Memory::new(global);
    let mut races = Races::default();
    let result = run_blocks(launch, &mut memory, &mut races);
    Outcome {
        accesses: memory.accesses(),
        races: races.reports,
        result,
    }
}

fn run_blocks(launch: &Launch<'_>, memory: &mut Memory<'_>, races: &mut Races) -> Result<(), Trap> {
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
            // Not zeros, because shared memory is undefined before it is written.
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

/// Returns the offset of dynamic shared memory, which is after the static one.
fn shared_dynamic_start(kernel: &Kernel) -> usize {
    kernel.shared_bytes.next_multiple_of(16)
}

impl Block<'_, '_> {
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

    /// Called if no lane can run. Releases a barrier at which all live threads wait, or traps.
    fn release(&mut self, warps: &mut [Warp]) -> Result<(), Trap> {
        let mut waiting = warps.iter().flat_map(|warp| &warp.at_barrier);
        let first = waiting.next().map(|waiting| waiting.id);
        let same = first.is_some_and(|id| waiting.all(|waiting| waiting.id == id));
        let stuck = warps
            .iter()
            .find_map(|warp| Some((warp, warp.parked.first()?)));
        if let Some((warp, group)) = stuck {
            let instruction = &self.kernel.instructions[group.at];
            let message =
                "deadlock: lanes wait in a collective for other lanes, which wait elsewhere";
            return Err(self.trap(
                warp,
                group.lanes.trailing_zeros() as usize,
                instruction,
                Fault::LaunchTimeout,
                message,
            ));
        }
        if !same {
            let message = "deadlock: threads of a block wait at different barriers".to_owned();
            return Err(Trap {
                fault: Fault::LaunchTimeout,
                message: format!("kernel `{}`: {message}", self.kernel.name),
            });
        }
        *self.epoch += 1;
        for warp in warps {
            for waiting in std::mem::take(&mut warp.at_barrier) {
                warp.put(waiting.at + 1, waiting.lanes);
            }
        }
        Ok(())
    }

    #[cold]
    fn trap(
        &self,
        warp: &Warp,
        lane: usize,
        at: &Instruction,
        fault: Fault,
        message: &str,
    ) -> Trap {
        Trap {
            fault,
            message: format!(
                "kernel `{}`, line {} of its PTX, thread {:?} of cube {:?}: {message}",
                self.kernel.name,
                at.line,
                warp.thread_index(lane),
                self.cube
            ),
        }
    }

    /// Returns the value of a source for each lane.
    fn read(&self, warp: &Warp, source: Source) -> [u64; LANES] {
        match source {
            Source::Register(register) => warp.registers[register],
            Source::Value(bits) => [bits; LANES],
            Source::Special(special) => self.special(warp, special),
        }
    }

    fn special(&self, warp: &Warp, special: Special) -> [u64; LANES] {
        let same = match special {
            Special::Thread(axis) => return warp.thread_indices[axis],
            Special::Threads(axis) => u64::from(self.launch.threads[axis]),
            Special::Cube(axis) => u64::from(self.cube[axis]),
            Special::Cubes(axis) => u64::from(self.launch.cubes[axis]),
            Special::SharedDynamicStart => shared_dynamic_start(self.kernel) as u64,
        };
        [same; LANES]
    }

    /// Returns the time of an access by a lane now.
    fn current(&self, warp: &Warp, lane: usize) -> Current {
        let thread = warp.number as usize * LANES + lane;
        Current {
            me: Stamp::new(*self.epoch, warp.syncs, thread),
            block: self.first_epoch,
        }
    }

    /// Returns the lanes whose guard is true.
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
