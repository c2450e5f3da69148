//! Loads, stores and atomic operations.

use std::ops::Range;

use crate::instruction::{Access, Instruction, Space};
use crate::run::{Block, RACES_MAX, Thread};
use crate::shadow::{Conflict, Current, Shadow, Stamp};
use crate::table::{atomic_context, sign_extended, trim};
use crate::{Fault, Global, Kind, Trap, Window, windows};

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
        let last = self.blocks.get(self.last_block);
        if last.is_some_and(|(window, _)| has(window)) {
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

/// Returns the space of a generic address, and the address in that space.
fn generic(address: u64) -> (Space, u64) {
    let spaces = [
        (windows::SHARED, Space::Shared),
        (windows::LOCAL, Space::Local),
        (windows::PARAMETERS, Space::Parameter),
    ];
    let is_in = |(start, _): &(u64, Space)| (*start..start + windows::BYTES).contains(&address);
    let found = spaces.into_iter().find(is_in);
    found.map_or((Space::Global, address), |(start, space)| {
        (space, address - start)
    })
}

impl Block<'_, '_> {
    /// Performs an access of a thread.
    pub(super) fn access(
        &mut self,
        thread: &mut Thread,
        instruction: &Instruction,
        access: &Access,
    ) -> Result<(), Trap> {
        let bytes = usize::from(access.ty.bytes());
        let count = match access.kind {
            Kind::Atomic => 1,
            _ => access.targets.len().max(access.values.len()),
        };
        let all = bytes * count;
        let base = self.value(thread, access.at.base);
        let address = base.wrapping_add(access.at.offset);
        let location = self.locate(thread, instruction, access, address, all)?;
        let mut old = [0_u8; ACCESS_BYTES_MAX];
        // SAFETY: `locate` checked that these bytes are within the memory of the space.
        unsafe { std::ptr::copy_nonoverlapping(location.start, old.as_mut_ptr(), all) };
        let word = |at: usize| {
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(&old[at * bytes..][..bytes]);
            u64::from_le_bytes(word)
        };
        let mut new = old;
        if access.kind == Kind::Atomic {
            let of = atomic_context(access.ty, access.space == Space::Global);
            let mut operands = [word(0), 0, 0, 0];
            for (operand, value) in operands[1..].iter_mut().zip(&access.values) {
                *operand = trim(access.ty, self.value(thread, *value));
            }
            let value = (access.update)(&of, operands);
            new[..bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        } else {
            for (at, value) in access.values.iter().enumerate() {
                let value = self.value(thread, *value);
                new[at * bytes..][..bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
            }
        }
        self.record(thread, instruction, access.kind, location, all, |at| {
            new[at] != old[at]
        });
        if access.kind != Kind::Read {
            // SAFETY: as above; parameters are only read.
            unsafe { std::ptr::copy_nonoverlapping(new.as_ptr(), location.start, all) };
        }
        for (at, target) in access.targets.iter().enumerate() {
            if let Some(target) = target {
                thread.registers[*target] = sign_extended(access.ty, word(at));
            }
        }
        Ok(())
    }

    /// Checks an access and returns its location. The bytes are valid while the block runs.
    #[inline]
    fn locate(
        &mut self,
        thread: &mut Thread,
        instruction: &Instruction,
        access: &Access,
        address: u64,
        bytes: usize,
    ) -> Result<Location, Trap> {
        let (space, address) = match access.space {
            Space::Generic => generic(address),
            other => (other, address),
        };
        if address & (bytes as u64 - 1) != 0 {
            let message = format!("misaligned: {bytes} bytes at {address:#x}");
            return Err(self.trap(thread, instruction, Fault::MisalignedAddress, &message));
        }
        let offset = address as usize;
        let (name, size) = match space {
            Space::Global => {
                let found = self.global.at(address, bytes as u64);
                let block = found
                    .map_err(|trap| self.trap(thread, instruction, trap.fault, &trap.message))?;
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
            Space::Local => ("local memory", thread.local.len()),
            _ if access.kind != Kind::Read => {
                let message = "the kernel writes to its parameters";
                return Err(self.trap(thread, instruction, Fault::IllegalAddress, message));
            }
            _ => ("parameters", self.launch.parameters.len()),
        };
        if address.saturating_add(bytes as u64) > size as u64 {
            let message = format!(
                "out of bounds: {bytes} bytes at offset {address} of the {size} bytes of {name}"
            );
            return Err(self.trap(thread, instruction, Fault::IllegalAddress, &message));
        }
        let (start, block) = match space {
            Space::Shared => (self.shared[offset..].as_mut_ptr(), Checked::Shared),
            Space::Local => (thread.local[offset..].as_mut_ptr(), Checked::Not),
            // Parameters, which are only read (checked above).
            _ => {
                let parameters = &self.launch.parameters[offset..];
                (parameters.as_ptr().cast_mut(), Checked::Not)
            }
        };
        Ok(Location {
            start,
            offset,
            block,
        })
    }

    /// Records an access and reports a race.
    #[inline]
    fn record(
        &mut self,
        thread: &Thread,
        instruction: &Instruction,
        kind: Kind,
        location: Location,
        bytes: usize,
        changes: impl Fn(usize) -> bool,
    ) {
        let mut current = Current {
            me: Stamp::new(self.epoch, self.syncs[thread.warp()], thread.number),
            block: self.first_epoch,
        };
        let shadow = match location.block {
            Checked::Not => return,
            Checked::Shared => {
                // Shared memory belongs to this block alone.
                current.block = 0;
                &mut self.shared_shadow
            }
            Checked::Global(block) => &mut self.global.blocks[block].1,
        };
        let conflict = shadow.record(location.offset, bytes, kind, current, changes);
        if let Some(conflict) = conflict {
            self.report_race(thread, instruction, kind, location, conflict);
        }
    }

    #[cold]
    fn report_race(
        &mut self,
        thread: &Thread,
        instruction: &Instruction,
        kind: Kind,
        location: Location,
        conflict: Conflict,
    ) {
        let line = instruction.line;
        if self.races.len() >= RACES_MAX || !self.racing_lines.insert(line) {
            return;
        }
        let (space, cube) = match location.block {
            Checked::Shared => (format!("shared memory at {}", location.offset), self.cube),
            _ => {
                let cube = self.block_of(conflict.earlier.epoch());
                (format!("global memory at {:p}", location.start), cube)
            }
        };
        let other = match conflict.earlier.thread() {
            Some(number) => {
                let index = self.index_of(number);
                format!("thread {index:?} of cube {cube:?}")
            }
            None => "several other threads".to_owned(),
        };
        self.races.push(format!(
            "race within a launch: kernel `{}`, line {line} of its PTX, thread {:?} of cube {:?} {} {space}, which {other} {}, \
            without a barrier between the two",
            self.kernel.name,
            thread.index,
            self.cube,
            kind.verb(),
            conflict.kind.verb(),
        ));
    }
}
