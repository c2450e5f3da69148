//! Loads, stores and atomic operations of the lanes of a warp.

use std::ops::Range;

use crate::Fault;
use crate::Kind;
use crate::arithmetic::binary;
use crate::decode::atomic_mode;
use crate::instruction::{Action, Address, Atomic, Instruction, Space};
use crate::integer::trim;
use crate::run::compute::widened;
use crate::run::space::generic;
use crate::run::warp::{LANES, Lanes, Warp, lanes};
use crate::run::{Block, RACES_MAX};
use crate::shadow::{Conflict, Shadow};
use crate::{Global, Trap, Window};

/// The most that one access has.
const WIDEST: usize = 64;

/// Global memory, with who touched what.
pub(super) struct Memory<'g, G> {
    global: &'g mut G,
    seen: Vec<(Window, Shadow)>,
    /// Which was looked at last.
    last: usize,
}

impl<'g, G: Global> Memory<'g, G> {
    pub(super) fn new(global: &'g mut G) -> Self {
        Self {
            global,
            seen: Vec::new(),
            last: 0,
        }
    }

    /// The block that has these bytes.
    #[inline]
    fn at(&mut self, address: u64, bytes: u64) -> Result<usize, Trap> {
        let has = |window: &Window| {
            address >= window.start && address - window.start + bytes <= window.bytes
        };
        if self
            .seen
            .get(self.last)
            .is_some_and(|(window, _)| has(window))
        {
            return Ok(self.last);
        }
        let known = self.seen.iter().position(|(window, _)| has(window));
        self.last = match known {
            Some(known) => known,
            None => {
                let window = self.global.window(address, bytes)?;
                let shadow = Shadow::new(window.bytes);
                self.seen.push((window, shadow));
                self.seen.len() - 1
            }
        };
        Ok(self.last)
    }

    /// The bytes that were read, written and updated.
    pub(super) fn touched(&self) -> [Vec<Range<u64>>; 3] {
        let mut all: [Vec<Range<u64>>; 3] = Default::default();
        for (window, shadow) in &self.seen {
            for (all, ranges) in all.iter_mut().zip(shadow.touched()) {
                let moved =
                    |range: Range<u64>| window.start + range.start..window.start + range.end;
                all.extend(ranges.into_iter().map(moved));
            }
        }
        all
    }
}

/// What a lane is about to do.
#[derive(Clone, Copy)]
struct Access<'a> {
    instruction: &'a Instruction,
    lane: usize,
    space: Space,
    address: u64,
    bytes: usize,
    kind: Kind,
}

/// Where an access goes.
#[derive(Clone, Copy)]
struct Place {
    start: *mut u8,
    /// Within its block, for those that are judged: of shared memory, or of global memory by number.
    offset: usize,
    block: Judged,
}

#[derive(Clone, Copy)]
enum Judged {
    Not,
    Shared,
    Global(usize),
}

impl<G: Global> Block<'_, '_, G> {
    /// Where an access goes. The bytes are there for as long as the block runs.
    #[inline]
    fn place(&mut self, warp: &mut Warp, access: &Access<'_>) -> Result<Place, Trap> {
        let Access {
            instruction,
            lane,
            space,
            address,
            bytes,
            kind,
        } = *access;
        let (space, address) = match space {
            Space::Generic => generic(address),
            other => (other, address),
        };
        if address & (bytes as u64 - 1) != 0 {
            let said = format!("it touches {bytes} bytes at {address:#x}, which is not aligned");
            return Err(self.trap(warp, lane, instruction, Fault::MisalignedAddress, &said));
        }
        let (whose, room) = match space {
            Space::Global => {
                let block = match self.global.at(address, bytes as u64) {
                    Ok(block) => block,
                    Err(trap) => {
                        return Err(self.trap(warp, lane, instruction, trap.fault, &trap.said));
                    }
                };
                let window = &self.global.seen[block].0;
                let offset = (address - window.start) as usize;
                return Ok(Place {
                    // SAFETY: within the block, as was looked at.
                    start: unsafe { window.at.as_ptr().add(offset) },
                    offset,
                    block: Judged::Global(block),
                });
            }
            Space::Shared => ("shared memory", self.shared.len()),
            Space::Local => ("its own memory", self.kernel.local_bytes),
            _ if kind != Kind::Read => {
                let said = "it writes to its parameters";
                return Err(self.trap(warp, lane, instruction, Fault::IllegalAddress, said));
            }
            _ => ("its parameters", self.launch.parameters.len()),
        };
        if address.saturating_add(bytes as u64) > room as u64 {
            let said = format!(
                "out of bounds: it touches {bytes} bytes at {address} of {room} of {whose}"
            );
            return Err(self.trap(warp, lane, instruction, Fault::IllegalAddress, &said));
        }
        let offset = address as usize;
        Ok(match space {
            Space::Shared => Place {
                start: self.shared[offset..].as_mut_ptr(),
                offset,
                block: Judged::Shared,
            },
            Space::Local => Place {
                start: warp.local[lane * self.kernel.local_bytes + offset..].as_mut_ptr(),
                offset,
                block: Judged::Not,
            },
            // Of parameters, which are only read, as was looked at.
            _ => Place {
                start: self.launch.parameters[offset..].as_ptr().cast_mut(),
                offset,
                block: Judged::Not,
            },
        })
    }

    /// Notes an access, and tells of a race.
    #[inline]
    fn note(
        &mut self,
        warp: &Warp,
        access: &Access<'_>,
        place: Place,
        changes: impl Fn(usize) -> bool,
    ) {
        let mut now = self.now(warp, access.lane);
        let shadow = match place.block {
            Judged::Not => return,
            Judged::Shared => {
                // What blocks before did with it is over.
                now.block = 0;
                &mut self.shared_shadow
            }
            Judged::Global(block) => &mut self.global.seen[block].1,
        };
        let conflict = shadow.note(place.offset, access.bytes, access.kind, now, changes);
        if let Some(conflict) = conflict.filter(|_| !self.kernel.fences) {
            self.race(warp, access, place, conflict);
        }
    }

    #[cold]
    fn race(&mut self, warp: &Warp, access: &Access<'_>, place: Place, conflict: Conflict) {
        let line = access.instruction.line;
        if self.races.said.len() >= RACES_MAX || !self.races.lines.insert(line) {
            return;
        }
        let space = match place.block {
            Judged::Shared => format!("shared memory at {}", place.offset),
            _ => format!("global memory at {:p}", place.start),
        };
        let cube = match place.block {
            Judged::Shared => self.cube,
            _ => self.races.block_of(conflict.then.epoch()),
        };
        let [width, height, _] = self.launch.threads;
        let other = match conflict.then.thread() {
            Some(at) => format!(
                "thread {:?} of cube {cube:?}",
                [at % width, at / width % height, at / width / height]
            ),
            None => "more than one other thread".to_owned(),
        };
        self.races.said.push(format!(
            "race within a launch: kernel `{}`, line {line} of its PTX, thread {:?} of cube {:?} {} {space}, which {other} {}, and \
             no barrier is between the two",
            self.kernel.name,
            warp.place(access.lane),
            self.cube,
            access.kind.verb(),
            conflict.kind.verb(),
        ));
    }

    fn addresses(&self, warp: &Warp, address: Address) -> [u64; LANES] {
        let base = self.read(warp, address.base);
        base.map(|base| base.wrapping_add(address.offset))
    }

    pub(super) fn load(
        &mut self,
        warp: &mut Warp,
        instruction: &Instruction,
        active: Lanes,
    ) -> Result<(), Trap> {
        let Action::Load {
            space,
            ty,
            ref targets,
            from,
        } = instruction.action
        else {
            return Ok(());
        };
        let addresses = self.addresses(warp, from);
        let bytes = usize::from(ty.bytes());
        for lane in lanes(active) {
            let access = Access {
                instruction,
                lane,
                space,
                address: addresses[lane],
                bytes: bytes * targets.len(),
                kind: Kind::Read,
            };
            let place = self.place(warp, &access)?;
            self.note(warp, &access, place, |_| false);
            for (number, target) in targets.iter().enumerate() {
                let mut bits = [0; 8];
                // SAFETY: `place` vouches for all of it.
                unsafe {
                    let start = place.start.add(number * bytes);
                    std::ptr::copy_nonoverlapping(start, bits.as_mut_ptr(), bytes);
                }
                if let Some(target) = target {
                    warp.registers[*target][lane] = widened(ty, u64::from_le_bytes(bits));
                }
            }
        }
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        warp: &mut Warp,
        instruction: &Instruction,
        active: Lanes,
    ) -> Result<(), Trap> {
        let Action::Store {
            space,
            ty,
            ref values,
            to,
            strong,
        } = instruction.action
        else {
            return Ok(());
        };
        let addresses = self.addresses(warp, to);
        let bytes = usize::from(ty.bytes());
        let values: Vec<_> = values.iter().map(|value| self.read(warp, *value)).collect();
        for lane in lanes(active) {
            let access = Access {
                instruction,
                lane,
                space,
                address: addresses[lane],
                bytes: bytes * values.len(),
                kind: if strong { Kind::Atomic } else { Kind::Write },
            };
            let place = self.place(warp, &access)?;
            let mut new = [0_u8; WIDEST];
            for (part, value) in new.chunks_exact_mut(bytes).zip(&values) {
                part.copy_from_slice(&value[lane].to_le_bytes()[..bytes]);
            }
            // SAFETY: `place` vouches for all of it.
            let changes = |at: usize| unsafe { place.start.add(at).read() != new[at] };
            self.note(warp, &access, place, changes);
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(new.as_ptr(), place.start, access.bytes) };
        }
        Ok(())
    }

    pub(super) fn atomic(
        &mut self,
        warp: &mut Warp,
        instruction: &Instruction,
        active: Lanes,
    ) -> Result<(), Trap> {
        let Action::Atomic {
            op,
            space,
            ty,
            target,
            at,
            a,
            b,
        } = instruction.action
        else {
            return Ok(());
        };
        let addresses = self.addresses(warp, at);
        let (a, b) = (self.read(warp, a), self.read(warp, b));
        let bytes = usize::from(ty.bytes());
        let mode = atomic_mode(ty, space);
        for lane in lanes(active) {
            let access = Access {
                instruction,
                lane,
                space,
                address: addresses[lane],
                bytes,
                kind: Kind::Atomic,
            };
            let place = self.place(warp, &access)?;
            self.note(warp, &access, place, |_| true);
            let mut old = [0; 8];
            // SAFETY: `place` vouches for so many bytes.
            unsafe { std::ptr::copy_nonoverlapping(place.start, old.as_mut_ptr(), bytes) };
            let old = u64::from_le_bytes(old);
            let given = trim(ty, a[lane]);
            let new = match op {
                Atomic::Exchange => given,
                Atomic::CompareAndSwap if old == given => b[lane],
                Atomic::CompareAndSwap => old,
                Atomic::Increment if old >= given => 0,
                Atomic::Increment => old + 1,
                Atomic::Decrement if old == 0 || old > given => given,
                Atomic::Decrement => old - 1,
                Atomic::Compute(op) => binary(op, ty, mode, old, given).unwrap_or(old),
            };
            // SAFETY: as above.
            unsafe {
                std::ptr::copy_nonoverlapping(new.to_le_bytes().as_ptr(), place.start, bytes);
            };
            if let Some(target) = target {
                warp.registers[target][lane] = widened(ty, old);
            }
        }
        Ok(())
    }
}
