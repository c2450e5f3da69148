//! A warp: lanes that are at the same instruction are a group, and run it together.

use crate::Fault;
use crate::instruction::{Action, Vote};
use crate::run::{Block, TURN};
use crate::{Global, Kernel, Trap};

/// Lanes of a warp.
pub(super) const LANES: usize = 32;

/// Some lanes: a bit each.
pub(super) type Lanes = u32;

/// Their numbers.
#[inline]
pub(super) fn lanes(mut of: Lanes) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = of.trailing_zeros() as usize;
        of &= of.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}

/// Lanes at an instruction.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub(super) at: usize,
    pub(super) lanes: Lanes,
}

/// Lanes at a barrier of their block.
pub(super) struct Waiting {
    pub(super) at: usize,
    pub(super) lanes: Lanes,
    pub(super) id: u64,
    /// What they vote for, where the answer goes, and who is for it.
    pub(super) vote: Option<(Vote, usize)>,
    pub(super) ayes: Lanes,
}

pub(super) struct Warp {
    pub(super) number: u32,
    /// Where its threads are in the block, by axis and lane.
    pub(super) places: [[u64; LANES]; 3],
    pub(super) registers: Vec<[u64; LANES]>,
    /// What the last addition that was asked to left to carry.
    pub(super) carry: [u64; LANES],
    /// Memory of each lane's own.
    pub(super) local: Vec<u8>,
    /// Where each lane goes on after the functions that it is in.
    returns: Vec<Vec<usize>>,
    /// Lanes that can go on; no two groups are at the same instruction.
    groups: Vec<Group>,
    /// Lanes that wait for others of the warp, at the instruction where they meet.
    pub(super) parked: Vec<Group>,
    pub(super) at_barrier: Vec<Waiting>,
    pub(super) live: Lanes,
    /// How often its lanes met at a barrier of theirs, in this block.
    pub(super) syncs: u16,
}

impl Warp {
    pub(super) fn new(kernel: &Kernel) -> Self {
        Self {
            number: 0,
            places: [[0; LANES]; 3],
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

    /// As new, for a block.
    pub(super) fn begin(&mut self, number: u32, [width, height, depth]: [u32; 3], kernel: &Kernel) {
        let threads = width * height * depth;
        let first = number * LANES as u32;
        let count = (threads - first).min(LANES as u32);
        self.number = number;
        self.live = Lanes::MAX >> (LANES as u32 - count);
        for lane in 0..LANES {
            let thread = first + lane as u32;
            let place = [
                thread % width,
                thread / width % height,
                thread / width / height,
            ];
            (0..3).for_each(|axis| self.places[axis][lane] = u64::from(place[axis]));
        }
        // Not zeros: what is read before it is written is nothing in particular.
        self.registers
            .iter_mut()
            .for_each(|register| *register = [0xCBCB_CBCB_CBCB_CBCB; LANES]);
        self.local.fill(0xCB);
        self.returns.iter_mut().for_each(Vec::clear);
        self.groups.clear();
        self.syncs = 0;
        self.put(kernel.entry, self.live);
    }

    /// Where a lane's thread is in its block.
    pub(super) fn place(&self, lane: usize) -> [u64; 3] {
        self.places.map(|axis| axis[lane])
    }

    pub(super) fn can_run(&self) -> bool {
        !self.groups.is_empty()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.live == 0
    }

    /// These lanes can go on there.
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

    /// Takes the group that is furthest behind, or, for once, furthest on.
    fn take(&mut self, furthest: bool) -> Option<Group> {
        let places = 0..self.groups.len();
        let place = match furthest {
            false => places.min_by_key(|place| self.groups[*place].at)?,
            true => places.max_by_key(|place| self.groups[*place].at)?,
        };
        Some(self.groups.swap_remove(place))
    }

    /// Where the others are that are furthest behind.
    fn next_behind(&self) -> usize {
        let places = self.groups.iter().map(|group| group.at);
        places.min().unwrap_or(usize::MAX)
    }
}

impl<G: Global> Block<'_, '_, G> {
    /// Until none of its lanes can go on, or it is another's turn.
    pub(super) fn run_warp(&mut self, warp: &mut Warp) -> Result<(), Trap> {
        let mut turn = TURN;
        while turn > 0 {
            let Some(group) = warp.take(false) else {
                return Ok(());
            };
            self.run_group(warp, group, &mut turn, false)?;
        }
        // Those behind may wait in a loop for those who are further on.
        if warp.groups.len() > 1
            && let Some(group) = warp.take(true)
        {
            self.run_group(warp, group, &mut (TURN / 16), true)?;
        }
        Ok(())
    }

    /// Runs a group until it meets another, comes behind another, waits, or its turn is over.
    fn run_group(
        &mut self,
        warp: &mut Warp,
        mut group: Group,
        turn: &mut u32,
        furthest: bool,
    ) -> Result<(), Trap> {
        let kernel = self.kernel;
        let mut behind = if furthest {
            usize::MAX
        } else {
            warp.next_behind()
        };
        while group.lanes != 0 {
            if group.at >= behind || *turn == 0 {
                warp.put(group.at, group.lanes);
                return Ok(());
            }
            let instruction = &kernel.instructions[group.at];
            *turn -= 1;
            *self.budget -= 1;
            if *self.budget == 0 {
                let said = "it has run so many instructions: does it never end?";
                let lane = group.lanes.trailing_zeros() as usize;
                return Err(self.trap(warp, lane, instruction, Fault::LaunchTimeout, said));
            }
            let active = self.guarded(warp, instruction, group.lanes);
            let rest = group.lanes & !active;
            let next = group.at + 1;
            if active == 0 {
                group.at = next;
                continue;
            }
            // Where the lanes go on that do what the instruction says; the rest goes on behind it.
            let to = match &instruction.action {
                Action::Branch { to } => Some(*to),
                Action::Switch { index, targets } => {
                    let values = self.read(warp, *index);
                    for lane in lanes(active) {
                        let Some(to) = targets.get(values[lane] as u32 as usize) else {
                            let said = "a branch by an index that has no label";
                            return Err(self.trap(
                                warp,
                                lane,
                                instruction,
                                Fault::LaunchFailed,
                                said,
                            ));
                        };
                        warp.put(*to, 1 << lane);
                    }
                    None
                }
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
                    // Those who wait for these wait no longer.
                    for parked in std::mem::take(&mut warp.parked) {
                        warp.put(parked.at, parked.lanes);
                    }
                    None
                }
                Action::Trap => {
                    let lane = active.trailing_zeros() as usize;
                    let said = "it gives up by `trap`";
                    return Err(self.trap(warp, lane, instruction, Fault::LaunchFailed, said));
                }
                Action::Barrier { id, vote } => {
                    let id = self.read(warp, *id)[active.trailing_zeros() as usize];
                    let ayes = vote.map_or(0, |(_, _, a, negated)| {
                        self.truths(warp, a, negated, active)
                    });
                    warp.at_barrier.push(Waiting {
                        at: group.at,
                        lanes: active,
                        id,
                        vote: vote.map(|(how, target, ..)| (how, target)),
                        ayes,
                    });
                    None
                }
                Action::Meet { meeting, lanes: of } => {
                    let met = self.meet(warp, instruction, meeting, *of, group.at, active)?;
                    warp.put(next, met);
                    None
                }
                _ => {
                    self.act(warp, instruction, active)?;
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
            if !furthest {
                behind = warp.next_behind();
            }
        }
        Ok(())
    }
}
