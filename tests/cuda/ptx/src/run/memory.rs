//! Loads, stores and atomic operations of the lanes of a warp.

use std::ops::Range;

use crate::Fault;
use crate::Kind;
use crate::arithmetic::binary;
use crate::decode::atomic_mode;
use crate::instruction::{Action, Address, Binary, Instruction, Space};
use crate::integer::trim;
use crate::run::compute::sign_extended;
use crate::run::space::generic;
use crate::run::warp::{LANES, Lanes, Warp, lanes};
use crate::run::{Block, RACES_MAX};
use crate::shadow::{Conflict, Shadow};
use crate::{Global, Trap, Window};

/// The largest size of an access in bytes.
const ACCESS_BYTES_MAX: usize = 64;

/// Global memory with its shadows.
pub(super) struct Memory<'g> {
    global: &'g mut dyn Global,
    blocks: Vec<(Window, Shadow)>,
    /// The block of the last access.
    last_block: usize,
}

impl<'g> Memory<'g> {
    pub(super) fn new(global: &'g mut dyn Global) -> Self {
        Self {
            global,
            blocks: Vec::new(),
            last_block: 0,
        }
    }

    /// Returns the index of the block that contains these bytes.
    #[inline]
    fn at(&mut self, address: u64, bytes: u64) -> Result<usize, Trap> {
        let has = |window: &Window| {
            address >= window.start && address - window.start + bytes <= window.bytes
        };
        if self
            .blocks
            .get(self.last_block)
            .is_some_and(|(window, _)| has(window))
        {
            return Ok(self.last_block);
        }
        let known = self.blocks.iter().position(|(window, _)| has(window));
        self.last_block = match known {
            Some(known) => known,
            None => {
                let window = self.global.window(address, bytes)?;
                let shadow = Shadow::new(window.bytes);
                self.blocks.push((window, shadow));
                self.blocks.len() - 1
            }
        };
        Ok(self.last_block)
    }

    /// Returns the bytes that were read, written and updated.
    pub(super) fn accesses(&self) -> [Vec<Range<u64>>; 3] {
        let mut all: [Vec<Range<u64>>; 3] = Default::default();
        for (window, shadow) in &self.blocks {
            for (all, ranges) in all.iter_mut().zip(shadow.accesses()) {
                let moved =
                    |range: Range<u64>| window.start + range.start..window.start + range.end;
                all.extend(ranges.into_iter().map(moved));
            }
        }
        all
    }
}

/// An access of a lane.
#[derive(Clone, Copy)]
struct Access<'a> {
    instruction: &'a Instruction,
    lane: usize,
    space: Space,
    address: u64,
    bytes: usize,
    kind: Kind,
}

/// The location of an access.
#[derive(Clone, Copy)]
struct Location {
    start: *mut u8,
    /// The offset in its block, for accesses with race checks.
    offset: usize,
    block: Checked,
}

#[derive(Clone, Copy)]
enum Checked {
    Not,
    Shared,
    Global(usize),
}

impl Block<'_, '_> {
    /// Checks an access and returns its location. The bytes are valid while the block runs.
    #[inline]
    fn locate(&mut self, warp: &mut Warp, access: &Access<'_>) -> Result<Location, Trap> {
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
            let message = format!("misaligned: {bytes} bytes at {address:#x}");
            return Err(self.trap(warp, lane, instruction, Fault::MisalignedAddress, &message));
        }
        let (name, size) = match space {
            Space::Global => {
                let block = match self.global.at(address, bytes as u64) {
                    Ok(block) => block,
                    Err(trap) => {
                        return Err(self.trap(warp, lane, instruction, trap.fault, &trap.message));
                    }
                };
                let window = &self.global.blocks[block].0;
                let offset = (address - window.start) as usize;
                return Ok(Location {
                    // SAFETY: `at` checked that the bytes are within the block.
                    start: unsafe { window.at.as_ptr().add(offset) },
                    offset,
                    block: Checked::Global(block),
                });
            }
            Space::Shared => ("shared memory", self.shared.len()),
            Space::Local => ("local memory", self.kernel.local_bytes),
            _ if kind != Kind::Read => {
                let message = "the kernel writes to its parameters";
                return Err(self.trap(warp, lane, instruction, Fault::IllegalAddress, message));
            }
            _ => ("parameters", self.launch.parameters.len()),
        };
        if address.saturating_add(bytes as u64) > size as u64 {
            let message = format!(
                "out of bounds: {bytes} bytes at offset {address} of the {size} bytes of {name}"
            );
            return Err(self.trap(warp, lane, instruction, Fault::IllegalAddress, &message));
        }
        let offset = address as usize;
        Ok(match space {
            Space::Shared => Location {
                start: self.shared[offset..].as_mut_ptr(),
                offset,
                block: Checked::Shared,
            },
            Space::Local => Location {
                start: warp.local[lane * self.kernel.local_bytes + offset..].as_mut_ptr(),
                offset,
                block: Checked::Not,
            },
            // Parameters, which are only read (checked above).
            _ => Location {
                start: self.launch.parameters[offset..].as_ptr().cast_mut(),
                offset,
                block: Checked::Not,
            },
        })
    }

    /// Records an access and reports a race.
    #[inline]
    fn record(
        &mut self,
        warp: &Warp,
        access: &Access<'_>,
        location: Location,
        changes: impl Fn(usize) -> bool,
    ) {
        let mut current = self.current(warp, access.lane);
        let shadow = match location.block {
            Checked::Not => return,
            Checked::Shared => {
                // Shared memory belongs to this block alone.
                current.block = 0;
                &mut self.shared_shadow
            }
            Checked::Global(block) => &mut self.global.blocks[block].1,
        };
        let conflict = shadow.record(location.offset, access.bytes, access.kind, current, changes);
        if let Some(conflict) = conflict {
            self.report_race(warp, access, location, conflict);
        }
    }

    #[cold]
    fn report_race(
        &mut self,
        warp: &Warp,
        access: &Access<'_>,
        location: Location,
        conflict: Conflict,
    ) {
        let line = access.instruction.line;
        if self.races.reports.len() >= RACES_MAX || !self.races.lines.insert(line) {
            return;
        }
        let space = match location.block {
            Checked::Shared => format!("shared memory at {}", location.offset),
            _ => format!("global memory at {:p}", location.start),
        };
        let cube = match location.block {
            Checked::Shared => self.cube,
            _ => self.races.block_of(conflict.earlier.epoch()),
        };
        let [width, height, _] = self.launch.threads;
        let other = match conflict.earlier.thread() {
            Some(at) => format!(
                "thread {:?} of cube {cube:?}",
                [at % width, at / width % height, at / width / height]
            ),
            None => "several other threads".to_owned(),
        };
        self.races.reports.push(format!(
            "race within a launch: kernel `{}`, line {line} of its PTX, thread {:?} of cube {:?} {} {space}, which {other} {}, \
            without a barrier between the two",
            self.kernel.name,
            warp.thread_index(access.lane),
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
            let location = self.locate(warp, &access)?;
            self.record(warp, &access, location, |_| false);
            for (number, target) in targets.iter().enumerate() {
                let mut bits = [0; 8];
                // SAFETY: `locate` checked the access.
                unsafe {
                    let start = location.start.add(number * bytes);
                    std::ptr::copy_nonoverlapping(start, bits.as_mut_ptr(), bytes);
                }
                if let Some(target) = target {
                    warp.registers[*target][lane] = sign_extended(ty, u64::from_le_bytes(bits));
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
                kind: Kind::Write,
            };
            let location = self.locate(warp, &access)?;
            let mut new = [0_u8; ACCESS_BYTES_MAX];
            for (part, value) in new.chunks_exact_mut(bytes).zip(&values) {
                part.copy_from_slice(&value[lane].to_le_bytes()[..bytes]);
            }
            // SAFETY: `locate` checked the access.
            let changes = |at: usize| unsafe { location.start.add(at).read() != new[at] };
            self.record(warp, &access, location, changes);
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(new.as_ptr(), location.start, access.bytes) };
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
            space,
            ty,
            target,
            at,
            a,
        } = instruction.action
        else {
            return Ok(());
        };
        let addresses = self.addresses(warp, at);
        let a = self.read(warp, a);
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
            let location = self.locate(warp, &access)?;
            self.record(warp, &access, location, |_| true);
            let mut old = [0; 8];
            // SAFETY: `locate` checked the access.
            unsafe { std::ptr::copy_nonoverlapping(location.start, old.as_mut_ptr(), bytes) };
            let old = u64::from_le_bytes(old);
            let given = trim(ty, a[lane]);
            let new = binary(Binary::Add, ty, mode, old, given).unwrap_or(old);
            // SAFETY: as above.
            unsafe {
                std::ptr::copy_nonoverlapping(new.to_le_bytes().as_ptr(), location.start, bytes);
            };
            if let Some(target) = target {
                warp.registers[target][lane] = sign_extended(ty, old);
            }
        }
        Ok(())
    }
}
