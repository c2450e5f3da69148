//! A launch: block after block, thread after thread, from barrier to barrier.

use crate::access::Kind;
use crate::code::Code;
use crate::ptx::arithmetic::{binary, compare, convert, ternary, trim, unary};
use crate::ptx::instruction::{
    Action, Address, Atomic, Instruction, Rounding, Source, Space, Special, Type,
};
use crate::ptx::{Global, Kernel, Trap};
use crate::stream::Launch;

/// Where shared memory is, as a generic address.
pub(super) const SHARED_WINDOW: u64 = 0x0b00_0000_0000;
/// Its greatest size.
const SHARED_WINDOW_BYTES: u64 = 1 << 20;

/// A launch that runs so many instructions is taken for one that never ends.
const INSTRUCTIONS_MAX: u64 = 500_000_000;

/// Threads of a warp.
const WARP: u32 = 32;

/// What is the same for all threads of a block, or changes with them.
struct Block<'a, G> {
    kernel: &'a Kernel,
    launch: &'a Launch,
    cube: [u32; 3],
    shared: Vec<u8>,
    global: &'a mut G,
    /// How many instructions may still run.
    budget: &'a mut u64,
}

struct Thread {
    place: [u32; 3],
    lane: u32,
    registers: Vec<u64>,
    /// The next instruction.
    at: usize,
    ended: bool,
}

/// What is narrow and signed fills a wider register with its sign. Whoever reads a narrower part of that trims it.
fn widened(ty: Type, bits: u64) -> u64 {
    match ty {
        Type::Signed(_) => convert(Type::Signed(8), ty, Rounding::Zero, bits),
        _ => bits,
    }
}

/// Runs a launch. What it wrote before a trap stays written.
pub(crate) fn run(launch: &Launch, global: &mut impl Global) -> Result<(), Trap> {
    let kernel = &*launch.kernel;
    let mut budget = INSTRUCTIONS_MAX;
    let [x_end, y_end, z_end] = launch.cubes;
    for z in 0..z_end {
        for y in 0..y_end {
            for x in 0..x_end {
                let bytes = kernel.shared_bytes + launch.shared_bytes as usize;
                Block {
                    kernel,
                    launch,
                    cube: [x, y, z],
                    // Not zeros: shared memory is nothing in particular before it is written.
                    shared: vec![0xCB; bytes],
                    global,
                    budget: &mut budget,
                }
                .run()?;
            }
        }
    }
    Ok(())
}

impl<G: Global> Block<'_, G> {
    fn run(&mut self) -> Result<(), Trap> {
        let mut threads = self.threads();
        while threads.iter().any(|thread| !thread.ended) {
            for thread in &mut threads {
                if !thread.ended {
                    self.run_thread(thread)?;
                }
            }
        }
        Ok(())
    }

    fn threads(&self) -> Vec<Thread> {
        let [width, height, depth] = self.launch.threads;
        let places = (0..depth)
            .flat_map(|z| (0..height).flat_map(move |y| (0..width).map(move |x| [x, y, z])));
        let thread = |(number, place)| Thread {
            place,
            lane: number as u32 % WARP,
            registers: vec![0; self.kernel.registers],
            at: 0,
            ended: false,
        };
        places.enumerate().map(thread).collect()
    }

    /// Up to the next barrier, or its end.
    fn run_thread(&mut self, thread: &mut Thread) -> Result<(), Trap> {
        let kernel = self.kernel;
        while let Some(instruction) = kernel.instructions.get(thread.at) {
            thread.at += 1;
            *self.budget -= 1;
            if *self.budget == 0 {
                let said =
                    format!("it has run {INSTRUCTIONS_MAX} instructions: does it never end?");
                return Err(self.trap(thread, instruction, Code::LAUNCH_TIMEOUT, &said));
            }
            let skipped = instruction
                .guard
                .is_some_and(|(register, value)| (thread.registers[register] != 0) != value);
            if skipped {
                continue;
            }
            match instruction.action {
                Action::Branch { to } => thread.at = to,
                Action::Barrier => return Ok(()),
                Action::Exit => break,
                _ => self.act(thread, instruction)?,
            }
        }
        thread.ended = true;
        Ok(())
    }

    fn trap(&self, thread: &Thread, at: &Instruction, code: Code, said: &str) -> Trap {
        Trap {
            code,
            said: format!(
                "kernel `{}`, line {} of its PTX, thread {:?} of cube {:?}: {said}",
                self.kernel.name, at.line, thread.place, self.cube
            ),
        }
    }

    fn value(&self, thread: &Thread, source: Source) -> u64 {
        match source {
            Source::Register(register) => thread.registers[register],
            Source::Value(bits) => bits,
            Source::Special(special) => u64::from(match special {
                Special::Thread(axis) => thread.place[axis],
                Special::Threads(axis) => self.launch.threads[axis],
                Special::Cube(axis) => self.cube[axis],
                Special::Cubes(axis) => self.launch.cubes[axis],
                Special::Lane => thread.lane,
            }),
        }
    }

    fn act(&mut self, thread: &mut Thread, instruction: &Instruction) -> Result<(), Trap> {
        let (target, bits) = match &instruction.action {
            Action::Load {
                space,
                ty,
                targets,
                from,
            } => {
                return self.load(thread, instruction, *space, *ty, targets, *from);
            }
            Action::Store {
                space,
                ty,
                values,
                to,
            } => {
                return self.store(thread, instruction, *space, *ty, values, *to);
            }
            Action::Atomic { .. } => return self.atomic(thread, instruction),
            Action::Move { ty, target, from } => (*target, trim(*ty, self.value(thread, *from))),
            Action::Unary { op, ty, target, a } => {
                (*target, unary(*op, *ty, self.value(thread, *a)))
            }
            Action::Binary {
                op,
                ty,
                target,
                a,
                b,
            } => {
                let (a, b) = (self.value(thread, *a), self.value(thread, *b));
                let bits = binary(*op, *ty, a, b).ok_or_else(|| {
                    self.trap(
                        thread,
                        instruction,
                        Code::LAUNCH_FAILED,
                        "it divides an integer by 0",
                    )
                })?;
                (*target, bits)
            }
            Action::Ternary {
                op,
                ty,
                target,
                a,
                b,
                c,
            } => {
                let values = [*a, *b, *c].map(|source| self.value(thread, source));
                (*target, ternary(*op, *ty, values[0], values[1], values[2]))
            }
            Action::Compare {
                how,
                ty,
                target,
                a,
                b,
            } => {
                let (a, b) = (self.value(thread, *a), self.value(thread, *b));
                (*target, u64::from(compare(*how, *ty, a, b)))
            }
            Action::Select {
                ty,
                target,
                a,
                b,
                which,
            } => {
                let from = if self.value(thread, *which) != 0 {
                    *a
                } else {
                    *b
                };
                (*target, trim(*ty, self.value(thread, from)))
            }
            Action::Convert {
                to,
                from,
                rounding,
                target,
                a,
            } => {
                let bits = convert(*to, *from, *rounding, self.value(thread, *a));
                (*target, widened(*to, bits))
            }
            Action::Branch { .. } | Action::Barrier | Action::Exit => return Ok(()),
        };
        thread.registers[target] = bits;
        Ok(())
    }

    /// The bytes at an address. They live as long as the block.
    fn place(
        &mut self,
        thread: &Thread,
        instruction: &Instruction,
        space: Space,
        address: u64,
        bytes: u64,
        kind: Kind,
    ) -> Result<*mut u8, Trap> {
        let window = SHARED_WINDOW..SHARED_WINDOW + SHARED_WINDOW_BYTES;
        let (space, address) = match space {
            Space::Generic if window.contains(&address) => (Space::Shared, address - SHARED_WINDOW),
            Space::Generic => (Space::Global, address),
            other => (other, address),
        };
        if !address.is_multiple_of(bytes) {
            let said = format!("it touches {bytes} bytes at {address:#x}, which is not aligned");
            return Err(self.trap(thread, instruction, Code::MISALIGNED_ADDRESS, &said));
        }
        if space == Space::Shared {
            let room = self.shared.len() as u64;
            if address.saturating_add(bytes) > room {
                let said = format!(
                    "out of bounds: it touches {bytes} bytes at {address} of {room} of shared memory"
                );
                return Err(self.trap(thread, instruction, Code::ILLEGAL_ADDRESS, &said));
            }
            return Ok(self.shared[address as usize..].as_mut_ptr());
        }
        match self.global.at(address, bytes, kind) {
            Ok(start) => Ok(start.as_ptr()),
            Err(trap) => Err(self.trap(thread, instruction, trap.code, &trap.said)),
        }
    }

    fn address(&self, thread: &Thread, address: Address) -> u64 {
        self.value(thread, address.base)
            .wrapping_add(address.offset)
    }

    fn load(
        &mut self,
        thread: &mut Thread,
        instruction: &Instruction,
        space: Space,
        ty: Type,
        targets: &[usize],
        from: Address,
    ) -> Result<(), Trap> {
        let address = self.address(thread, from);
        let bytes = usize::from(ty.bytes());
        let all = bytes * targets.len();
        let mut copy = [0; 32];
        if space == Space::Parameter {
            let start = address as usize;
            let found = self.launch.parameters.get(start..start + all);
            let found = found.ok_or_else(|| {
                self.trap(
                    thread,
                    instruction,
                    Code::LAUNCH_FAILED,
                    "it reads behind its parameters",
                )
            })?;
            copy[..all].copy_from_slice(found);
        } else {
            let start = self.place(thread, instruction, space, address, all as u64, Kind::Read)?;
            // SAFETY: `place` vouches for so many bytes.
            unsafe { std::ptr::copy_nonoverlapping(start, copy.as_mut_ptr(), all) };
        }
        for (target, part) in targets.iter().zip(copy.chunks_exact(bytes)) {
            let mut bits = [0; 8];
            bits[..bytes].copy_from_slice(part);
            let bits = u64::from_le_bytes(bits);
            thread.registers[*target] = widened(ty, bits);
        }
        Ok(())
    }

    fn store(
        &mut self,
        thread: &Thread,
        instruction: &Instruction,
        space: Space,
        ty: Type,
        values: &[Source],
        to: Address,
    ) -> Result<(), Trap> {
        let address = self.address(thread, to);
        let bytes = usize::from(ty.bytes());
        let all = bytes * values.len();
        let mut copy = [0; 32];
        for (part, value) in copy.chunks_exact_mut(bytes).zip(values) {
            part.copy_from_slice(&self.value(thread, *value).to_le_bytes()[..bytes]);
        }
        let start = self.place(thread, instruction, space, address, all as u64, Kind::Write)?;
        // SAFETY: `place` vouches for so many bytes.
        unsafe { std::ptr::copy_nonoverlapping(copy.as_ptr(), start, all) };
        Ok(())
    }

    fn atomic(&mut self, thread: &mut Thread, instruction: &Instruction) -> Result<(), Trap> {
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
        let address = self.address(thread, at);
        let (a, b) = (self.value(thread, a), self.value(thread, b));
        let bytes = usize::from(ty.bytes());
        let start = self.place(
            thread,
            instruction,
            space,
            address,
            bytes as u64,
            Kind::Atomic,
        )?;
        let mut old = [0; 8];
        // SAFETY: `place` vouches for so many bytes.
        unsafe { std::ptr::copy_nonoverlapping(start, old.as_mut_ptr(), bytes) };
        let old = u64::from_le_bytes(old);
        let new = match op {
            Atomic::Exchange => a,
            Atomic::CompareAndSwap if old == trim(ty, a) => b,
            Atomic::CompareAndSwap => old,
            Atomic::Compute(op) => binary(op, ty, old, a).unwrap_or(old),
        };
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(new.to_le_bytes().as_ptr(), start, bytes) };
        if let Some(target) = target {
            thread.registers[target] = old;
        }
        Ok(())
    }
}
