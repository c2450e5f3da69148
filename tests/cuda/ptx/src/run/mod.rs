//! Runs a launch: the blocks one after the other, and the threads of a block in turn, from one barrier or collective to
//! the next.

mod collective;
mod memory;

use std::collections::BTreeSet;
use std::ops::Range;

use crate::instruction::{Action, Instruction, Source, Special};
use crate::shadow::Shadow;
use crate::table::trim;
use crate::{Fault, Global, Kernel, Launch, Trap};

use memory::Memory;

/// The number of lanes of a warp.
const LANES: usize = 32;
/// A launch whose threads run more instructions than this counts as not terminating.
const INSTRUCTIONS_MAX: u64 = 1 << 29;
/// Instructions of a thread before the next one runs. A thread may poll for a value that another thread writes.
const TURN_INSTRUCTIONS: u32 = 1 << 10;
/// Most races that are reported for one launch.
const RACES_MAX: usize = 4;
/// The bytes of registers and memory before they are written. Not zeros, because they are undefined.
const UNDEFINED: u8 = 0xCB;

/// The result of a launch.
pub struct Outcome {
    /// The bytes that were read, written and atomically updated. Each range lies within one [`Window`](crate::Window).
    pub accesses: [Vec<Range<u64>>; 3],
    /// Reports of races between threads.
    pub races: Vec<String>,
    /// The trap that stopped the launch, if there was one.
    pub result: Result<(), Trap>,
}

/// Whether a thread runs. One that waits is at the instruction for which it waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    /// It waits at a collective for the lanes of this mask.
    Arrived(u32),
    /// It waits at the barrier of its block with this id.
    AtBarrier(u64),
    Ended,
}

struct Thread {
    /// The number in its block.
    number: usize,
    index: [u32; 3],
    /// The current instruction.
    at: usize,
    state: State,
    registers: Vec<u64>,
    /// The carry of the last instruction that set it.
    carry: u64,
    local: Vec<u8>,
    /// Return addresses.
    returns: Vec<usize>,
}

impl Thread {
    fn new(kernel: &Kernel, number: usize, index: [u32; 3]) -> Self {
        Self {
            number,
            index,
            at: kernel.entry,
            state: State::Runs,
            registers: vec![0; kernel.registers],
            carry: 0,
            local: vec![0; kernel.local_bytes],
            returns: Vec::new(),
        }
    }

    /// Resets the thread for a new block.
    fn begin(&mut self, kernel: &Kernel) {
        self.at = kernel.entry;
        self.state = State::Runs;
        self.registers.fill(u64::from_ne_bytes([UNDEFINED; 8]));
        self.local.fill(UNDEFINED);
        self.returns.clear();
    }

    fn warp(&self) -> usize {
        self.number / LANES
    }

    fn is_at_barrier(&self) -> bool {
        matches!(self.state, State::AtBarrier(_))
    }

    /// Continues after the instruction at which the thread waited.
    fn go_on(&mut self) {
        self.at += 1;
        self.state = State::Runs;
    }
}

/// A launch, and the state of its current block.
struct Block<'a, 'g> {
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    cube: [u32; 3],
    shared: Vec<u8>,
    shared_shadow: Shadow,
    global: Memory<'g>,
    /// The number of instructions that may still run.
    budget: u64,
    /// The number of earlier barriers and blocks in the launch.
    epoch: u32,
    first_epoch: u32,
    /// The first epoch of each block, in order.
    blocks: Vec<(u32, [u32; 3])>,
    /// For each warp, the number of its barriers in this block.
    syncs: Vec<u16>,
    /// The reported races, and their lines.
    races: Vec<String>,
    racing_lines: BTreeSet<u32>,
}

/// Runs a launch. Writes before a trap stay in memory. `global` is no type parameter: the interpreter is then compiled with
/// this crate, which is optimized in tests, and not with the crate that calls it.
pub fn run(launch: &Launch<'_>, global: &mut dyn Global) -> Outcome {
    let mut block = Block {
        kernel: launch.kernel,
        launch,
        cube: [0; 3],
        shared: Vec::new(),
        shared_shadow: Shadow::default(),
        global: Memory::new(global),
        budget: INSTRUCTIONS_MAX,
        epoch: 0,
        first_epoch: 0,
        blocks: Vec::new(),
        syncs: Vec::new(),
        races: Vec::new(),
        racing_lines: BTreeSet::new(),
    };
    let result = block.run_all();
    Outcome {
        accesses: block.global.accesses(),
        races: block.races,
        result,
    }
}

/// Returns the offset of dynamic shared memory, which is after the static one.
fn shared_dynamic_start(kernel: &Kernel) -> usize {
    kernel.shared_bytes.next_multiple_of(16)
}

impl Block<'_, '_> {
    fn run_all(&mut self) -> Result<(), Trap> {
        let count = self.launch.threads.iter().product::<u32>();
        let thread = |number| Thread::new(self.kernel, number as usize, self.index_of(number));
        let mut threads: Vec<Thread> = (0..count).map(thread).collect();
        let bytes = shared_dynamic_start(self.kernel) + self.launch.shared_bytes as usize;
        let [width, height, depth] = self.launch.cubes;
        for number in 0..u64::from(width) * u64::from(height) * u64::from(depth) {
            let row = number / u64::from(width);
            self.cube = [
                (number % u64::from(width)) as u32,
                (row % u64::from(height)) as u32,
                (row / u64::from(height)) as u32,
            ];
            self.epoch += 1;
            self.first_epoch = self.epoch;
            self.blocks.push((self.epoch, self.cube));
            self.shared = vec![UNDEFINED; bytes];
            self.shared_shadow = Shadow::new(bytes as u64);
            self.syncs = vec![0; threads.len().div_ceil(LANES)];
            for thread in &mut threads {
                thread.begin(self.kernel);
            }
            self.run_block(&mut threads)?;
        }
        Ok(())
    }

    fn run_block(&mut self, threads: &mut [Thread]) -> Result<(), Trap> {
        loop {
            let runs = |thread: &&mut Thread| thread.state == State::Runs;
            for thread in threads.iter_mut().filter(runs) {
                self.run_thread(thread)?;
            }
            let mut goes_on = false;
            for warp in threads.chunks_mut(LANES) {
                goes_on |= self.meet(warp)?;
            }
            if goes_on || threads.iter().any(|thread| thread.state == State::Runs) {
                continue;
            }
            if threads.iter().all(|thread| thread.state == State::Ended) {
                return Ok(());
            }
            self.release(threads)?;
        }
    }

    /// Called if no thread can run. Releases a barrier at which all live threads wait, or traps.
    fn release(&mut self, threads: &mut [Thread]) -> Result<(), Trap> {
        let mut live = threads
            .iter()
            .filter(|thread| thread.state != State::Ended)
            .peekable();
        let first = live.peek().map(|thread| thread.state);
        if live.any(|thread| Some(thread.state) != first || !thread.is_at_barrier()) {
            let collective = |thread: &&Thread| matches!(thread.state, State::Arrived(_));
            let fault = Fault::LaunchTimeout;
            return Err(match threads.iter().find(collective) {
                Some(thread) => {
                    let message = "deadlock: lanes wait in a collective for other lanes, which wait elsewhere";
                    let instruction = &self.kernel.instructions[thread.at];
                    self.trap(thread, instruction, fault, message)
                }
                None => Trap {
                    fault,
                    message: format!(
                        "kernel `{}`: deadlock: threads of a block wait at different barriers",
                        self.kernel.name
                    ),
                },
            });
        }
        self.epoch += 1;
        let waiting = threads.iter_mut().filter(|thread| thread.is_at_barrier());
        waiting.for_each(Thread::go_on);
        Ok(())
    }

    /// Runs a thread until it waits or ends, or its turn is over.
    fn run_thread(&mut self, thread: &mut Thread) -> Result<(), Trap> {
        let kernel = self.kernel;
        for _ in 0..TURN_INSTRUCTIONS {
            let instruction = &kernel.instructions[thread.at];
            self.budget -= 1;
            if self.budget == 0 {
                let message = "the launch exceeds the instruction limit; it seems not to terminate";
                return Err(self.trap(thread, instruction, Fault::LaunchTimeout, message));
            }
            if let Some((register, value)) = instruction.guard
                && (thread.registers[register] != 0) != value
            {
                thread.at += 1;
                continue;
            }
            match &instruction.action {
                Action::Compute {
                    function,
                    of,
                    target,
                    operands,
                } => {
                    let values = operands.map(|source| self.value(thread, source));
                    if of.divides && trim(of.ty, values[1]) == 0 {
                        let (fault, message) = (Fault::LaunchFailed, "integer division by 0");
                        return Err(self.trap(thread, instruction, fault, message));
                    }
                    thread.registers[*target] = function(of, values);
                }
                Action::Access(access) => self.access(thread, instruction, access)?,
                Action::Unpack {
                    bytes,
                    targets,
                    from,
                } => {
                    let bits = u64::from(*bytes) * 8;
                    let from = self.value(thread, *from);
                    for (number, target) in (0..).zip(targets) {
                        if let Some(target) = *target {
                            thread.registers[target] = from >> (number * bits) & ((1 << bits) - 1);
                        }
                    }
                }
                Action::Carrying {
                    function,
                    ty,
                    carry_in,
                    carry_out,
                    target,
                    operands,
                } => {
                    let values = operands.map(|source| self.value(thread, source));
                    let carry = if *carry_in { thread.carry } else { 0 };
                    let (bits, carry) = function(*ty, values, carry);
                    thread.registers[*target] = bits;
                    if *carry_out {
                        thread.carry = carry;
                    }
                }
                Action::CopyLocal(copies) => {
                    for (from, to, count) in copies {
                        thread.local.copy_within(*from..from + count, *to);
                    }
                }
                Action::Collective { lanes, .. } => {
                    thread.state = State::Arrived(self.value(thread, *lanes) as u32);
                    return Ok(());
                }
                Action::Barrier(id) => {
                    thread.state = State::AtBarrier(self.value(thread, *id));
                    return Ok(());
                }
                Action::Branch(to) => {
                    thread.at = *to;
                    continue;
                }
                Action::Call(to) => {
                    thread.returns.push(thread.at + 1);
                    thread.at = *to;
                    continue;
                }
                Action::Return => {
                    let last = kernel.instructions.len() - 1;
                    thread.at = thread.returns.pop().unwrap_or(last);
                    continue;
                }
                Action::Exit => {
                    thread.state = State::Ended;
                    return Ok(());
                }
                Action::Trap => {
                    let (fault, message) = (Fault::LaunchFailed, "the kernel executes `trap`");
                    return Err(self.trap(thread, instruction, fault, message));
                }
            }
            thread.at += 1;
        }
        Ok(())
    }

    #[cold]
    fn trap(&self, thread: &Thread, at: &Instruction, fault: Fault, message: &str) -> Trap {
        let message = format!(
            "kernel `{}`, line {} of its PTX, thread {:?} of cube {:?}: {message}",
            self.kernel.name, at.line, thread.index, self.cube
        );
        Trap { fault, message }
    }

    #[inline]
    fn value(&self, thread: &Thread, source: Source) -> u64 {
        match source {
            Source::Register(register) => thread.registers[register],
            Source::Value(bits) => bits,
            Source::Special(special) => match special {
                Special::Thread(axis) => thread.index[axis].into(),
                Special::Threads(axis) => self.launch.threads[axis].into(),
                Special::Cube(axis) => self.cube[axis].into(),
                Special::Cubes(axis) => self.launch.cubes[axis].into(),
                Special::SharedDynamicStart => shared_dynamic_start(self.kernel) as u64,
            },
        }
    }

    /// Returns the index of a thread in its block.
    fn index_of(&self, number: u32) -> [u32; 3] {
        let [width, height, _] = self.launch.threads;
        let row = number / width;
        [number % width, row % height, row / height]
    }

    /// Returns the block of an epoch.
    fn block_of(&self, epoch: u32) -> [u32; 3] {
        let after = self.blocks.partition_point(|(first, _)| *first <= epoch);
        self.blocks[after.saturating_sub(1)].1
    }
}
