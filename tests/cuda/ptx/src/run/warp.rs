//! A warp. The lanes at one instruction form a group and run it together.

use crate::Fault;
use crate::instruction::Action;
use crate::run::{Block, TURN_INSTRUCTIONS};
use crate::{Kernel, Trap};

/// The number of lanes of a warp.
pub(super) const LANES: usize = 32;

/// A set of lanes, one bit each.
pub(super) type Lanes = u32;

/// Iterates over the numbers of a set of lanes.
#[inline]
pub(super) fn lanes(mut of: Lanes) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = of.trailing_zeros() as usize;
        of &= of.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}

/// The lanes at one instruction.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub(super) at: usize,
    pub(super) lanes: Lanes,
}

/// Lanes that wait at a barrier of their block.
pub(super) struct Waiting {
    pub(super) at: usize,
    pub(super) lanes: Lanes,
    pub(super) id: u64,
}

pub(super) struct Warp {
    pub(super) number: u32,
    /// The index of each thread in the block, by axis and lane.
    pub(super) thread_indices: [[u64; LANES]; 3],
    pub(super) registers: Vec<[u64; LANES]>,
    /// The carry of each lane, from the last instruction that set it.
    pub(super) carry: [u64; LANES],
    /// The local memory of all lanes.
    pub(super) local: Vec<u8>,
    /// The stack of return addresses of each lane.
    returns: Vec<Vec<usize>>,
    /// The groups that can run. No two are at the same instruction.
    groups: Vec<Group>,
    /// The groups that wait at a collective for other lanes.
    pub(super) parked: Vec<Group>,
    pub(super) at_barrier: Vec<Waiting>,
    pub(super) live: Lanes,
    /// The number of warp barriers in this block.
    pub(super) syncs: u16,
}

impl Warp {
    pub(super) fn new(kernel: &Kernel) -> Self {
        Self {
            number: 0,
            thread_indices: [[0; LANES]; 3],
            registers: vec![[0; LANES]; kernel.registers],
            carry: [0; LANES],
            local: vec![0; kernel.local_bytes * LANES],
            returns: vec![Vec::new(); LANES],
            groups: Vec::new(),
            parked: Vec::new(),
            at_barrier: Vec::new(),
            live: 0,
            syncs: 0,
        }
    }

    /// Resets the warp for a new block.
    pub(super) fn begin(&mut self, number: u32, [width, height, depth]: [u32; 3], kernel: &Kernel) {
        let threads = width * height * depth;
        let first = number * LANES as u32;
        let count = (threads - first).min(LANES as u32);
        self.number = number;
        self.live = Lanes::MAX >> (LANES as u32 - count);
        for lane in 0..LANES {
            let thread = first + lane as u32;
            let index = [
                thread % width,
                thread / width % height,
                thread / width / height,
            ];
            (0..3).for_each(|axis| self.thread_indices[axis][lane] = u64::from(index[axis]));
        }
        // Not zeros, because registers and local memory are undefined before they are written.
        self.registers
            .iter_mut()
            .for_each(|register| *register = [0xCBCB_CBCB_CBCB_CBCB; LANES]);
        self.local.fill(0xCB);
        self.returns.iter_mut().for_each(Vec::clear);
        self.groups.clear();
        self.syncs = 0;
        self.put(kernel.entry, self.live);
    }

    /// Returns the index of a lane's thread in its block.
    pub(super) fn thread_index(&self, lane: usize) -> [u64; 3] {
        self.thread_indices.map(|axis| axis[lane])
    }

    pub(super) fn can_run(&self) -> bool {
        !self.groups.is_empty()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.live == 0
    }

    /// Makes lanes runnable at an instruction.
    pub(super) fn put(&mut self, at: usize, lanes: Lanes) {
        if lanes == 0 {
            return;
        }
        match self.groups.iter_mut().find(|group| group.at == at) {
            Some(group) => group.lanes |= lanes,
            None => self.groups.push(Group { at, lanes }),
        }
    }

    /// Sets a register in some lanes.
    #[inline(always)]
    pub(super) fn write(&mut self, target: usize, of: Lanes, value: impl Fn(usize) -> u64) {
        let register = &mut self.registers[target];
        if of == Lanes::MAX {
            for (lane, bits) in register.iter_mut().enumerate() {
                *bits = value(lane);
            }
        } else {
            lanes(of).for_each(|lane| register[lane] = value(lane));
        }
    }

    /// Removes the group at the earliest instruction, or, with `latest`, at the latest.
    fn take(&mut self, latest: bool) -> Option<Group> {
        let groups = 0..self.groups.len();
        let index = match latest {
            false => groups.min_by_key(|index| self.groups[*index].at)?,
            true => groups.max_by_key(|index| self.groups[*index].at)?,
        };
        Some(self.groups.swap_remove(index))
    }

    /// Returns the earliest instruction of the remaining groups.
    fn earliest_remaining(&self) -> usize {
        let starts = self.groups.iter().map(|group| group.at);
        starts.min().unwrap_or(usize::MAX)
    }
}

impl Block<'_, '_> {
    /// Runs a warp until none of its lanes can run, or its turn is over.
    pub(super) fn run_warp(&mut self, warp: &mut Warp) -> Result<(), Trap> {
        let mut turn = TURN_INSTRUCTIONS;
        while turn > 0 {
            let Some(group) = warp.take(false) else {
                return Ok(());
            };
            self.run_group(warp, group, &mut turn, false)?;
        }
        // The group at the earliest instruction may poll for a value that a later group writes.
        if warp.groups.len() > 1
            && let Some(group) = warp.take(true)
        {
            self.run_group(warp, group, &mut (TURN_INSTRUCTIONS / 16), true)?;
        }
        Ok(())
    }

    /// Runs a group until it reaches another group, is no longer the earliest, waits, or its turn is over.
    fn run_group(
        &mut self,
        warp: &mut Warp,
        mut group: Group,
        turn: &mut u32,
        latest: bool,
    ) -> Result<(), Trap> {
        let kernel = self.kernel;
        let mut next_group = if latest {
            usize::MAX
        } else {
            warp.earliest_remaining()
        };
        while group.lanes != 0 {
            if group.at >= next_group || *turn == 0 {
                warp.put(group.at, group.lanes);
                return Ok(());
            }
            let instruction = &kernel.instructions[group.at];
            *turn -= 1;
            *self.budget -= 1;
            if *self.budget == 0 {
                let message = "the launch exceeds the instruction limit; it seems not to terminate";
                let lane = group.lanes.trailing_zeros() as usize;
                return Err(self.trap(warp, lane, instruction, Fault::LaunchTimeout, message));
            }
            let active = self.guarded(warp, instruction, group.lanes);
            let rest = group.lanes & !active;
            let next = group.at + 1;
            if active == 0 {
                group.at = next;
                continue;
            }
            // The target of the active lanes; the others continue with the next instruction.
            let to = match &instruction.action {
                Action::Branch { to } => Some(*to),
                Action::Call { to } => {
                    lanes(active).for_each(|lane| warp.returns[lane].push(next));
                    Some(*to)
                }
                Action::Return => {
                    for lane in lanes(active) {
                        let to = warp.returns[lane].pop();
                        warp.put(to.unwrap_or(kernel.instructions.len() - 1), 1 << lane);
                    }
                    None
                }
                Action::Exit => {
                    warp.live &= !active;
                    // Lanes that wait for these lanes check again.
                    for parked in std::mem::take(&mut warp.parked) {
                        warp.put(parked.at, parked.lanes);
                    }
                    None
                }
                Action::Trap => {
                    let lane = active.trailing_zeros() as usize;
                    let message = "the kernel executes `trap`";
                    return Err(self.trap(warp, lane, instruction, Fault::LaunchFailed, message));
                }
                Action::Barrier { id } => {
                    let id = self.read(warp, *id)[active.trailing_zeros() as usize];
                    warp.at_barrier.push(Waiting {
                        at: group.at,
                        lanes: active,
                        id,
                    });
                    None
                }
                Action::Collective {
                    collective,
                    lanes: of,
                } => {
                    let done = self.arrive(warp, instruction, collective, *of, group.at, active)?;
                    warp.put(next, done);
                    None
                }
                _ => {
                    self.execute(warp, instruction, active)?;
                    group.at = next;
                    continue;
                }
            };
            if to.is_some() && rest == 0 {
                group.at = to.unwrap_or(next);
                continue;
            }
            if let Some(to) = to {
                warp.put(to, active);
            }
            group = Group {
                at: next,
                lanes: rest,
            };
            if !latest {
                next_group = warp.earliest_remaining();
            }
        }
        Ok(())
    }
}
