//! Instructions that each lane performs on its own.

use crate::Fault;
use crate::Trap;
use crate::arithmetic::{binary, compare, convert, ternary, unary};
use crate::instruction::{Action, Binary, Compute, Instruction, Type};
use crate::integer::{carrying, insert, trim};
use crate::number::{Format, Mode, canonical_nan};
use crate::run::Block;
use crate::run::warp::{LANES, Lanes, Warp, lanes};

/// Sign-extends a narrow signed value to the register. Readers of a narrower part trim it.
#[inline]
pub(super) fn sign_extended(ty: Type, bits: u64) -> u64 {
    match ty {
        Type::Signed(_) => convert(Type::Signed(8), ty, Mode::default(), bits),
        _ => bits,
    }
}

/// Performs a binary operation without divisions by 0.
fn binary_of_lanes(
    warp: &mut Warp,
    active: Lanes,
    (op, ty, mode): (Binary, Type, Mode),
    target: usize,
    a: &[u64; LANES],
    b: &[u64; LANES],
) {
    let plain = mode == Mode::default();
    let is_plain_integer = plain && !ty.is_float();
    let of_32 = ty == Type::Float(Format::F32) && plain;
    let single = |bits: u64| f32::from_bits(bits as u32);
    let mask = trim(ty, u64::MAX);
    // The most frequent operations have their own arms, so that the compiler generates a tight loop for each.
    match op {
        Binary::Add if is_plain_integer => {
            warp.write(target, active, |lane| a[lane].wrapping_add(b[lane]) & mask);
        }
        Binary::Sub if is_plain_integer => {
            warp.write(target, active, |lane| a[lane].wrapping_sub(b[lane]) & mask);
        }
        Binary::MulLow if !ty.is_float() => {
            warp.write(target, active, |lane| a[lane].wrapping_mul(b[lane]) & mask);
        }
        Binary::MulWide if ty == Type::Unsigned(4) => {
            warp.write(target, active, |lane| (a[lane] & mask) * (b[lane] & mask));
        }
        Binary::And => warp.write(target, active, |lane| a[lane] & b[lane] & mask),
        Binary::Add if of_32 => warp.write(target, active, |lane| {
            let sum = single(a[lane]) + single(b[lane]);
            canonical_nan(Format::F32, u64::from(sum.to_bits()))
        }),
        Binary::MulLow if of_32 => warp.write(target, active, |lane| {
            let product = single(a[lane]) * single(b[lane]);
            canonical_nan(Format::F32, u64::from(product.to_bits()))
        }),
        _ => warp.write(target, active, |lane| {
            binary(op, ty, mode, a[lane], b[lane]).unwrap_or(0)
        }),
    }
}

impl Block<'_, '_> {
    /// Executes an instruction without control flow.
    #[inline]
    pub(super) fn execute(
        &mut self,
        warp: &mut Warp,
        instruction: &Instruction,
        active: Lanes,
    ) -> Result<(), Trap> {
        match &instruction.action {
            Action::Load { .. } => return self.load(warp, instruction, active),
            Action::Store { .. } => return self.store(warp, instruction, active),
            Action::Atomic { .. } => return self.atomic(warp, instruction, active),
            Action::Compute {
                op,
                ty,
                mode,
                target,
                operands: [a, b, c],
            } => {
                let (ty, mode, target) = (*ty, *mode, *target);
                let a = self.read(warp, *a);
                let second = |block: &Self, warp: &Warp| block.read(warp, *b);
                match *op {
                    Compute::Move => warp.write(target, active, |lane| trim(ty, a[lane])),
                    Compute::Unary(op) => {
                        warp.write(target, active, |lane| unary(op, ty, mode, a[lane]));
                    }
                    Compute::Binary(op) => {
                        let b = second(self, warp);
                        let divides = matches!(op, Binary::Div | Binary::Rem) && !ty.is_float();
                        let by_0 = |lane: &usize| divides && trim(ty, b[*lane]) == 0;
                        if let Some(lane) = lanes(active).find(by_0) {
                            let message = "integer division by 0";
                            let fault = Fault::LaunchFailed;
                            return Err(self.trap(warp, lane, instruction, fault, message));
                        }
                        binary_of_lanes(warp, active, (op, ty, mode), target, &a, &b);
                    }
                    Compute::Ternary(op) => {
                        let (b, c) = (second(self, warp), self.read(warp, *c));
                        warp.write(target, active, |lane| {
                            ternary(op, ty, mode, a[lane], b[lane], c[lane])
                        });
                    }
                    Compute::Compare(how) => {
                        let b = second(self, warp);
                        let holds = |lane: usize| compare(how, ty, a[lane], b[lane]);
                        warp.write(target, active, |lane| u64::from(holds(lane)));
                    }
                    Compute::Select => {
                        let (b, which) = (second(self, warp), self.read(warp, *c));
                        let chosen = |lane: usize| if which[lane] != 0 { a[lane] } else { b[lane] };
                        warp.write(target, active, |lane| trim(ty, chosen(lane)));
                    }
                    Compute::Convert(to) => warp.write(target, active, |lane| {
                        sign_extended(to, convert(to, ty, mode, a[lane]))
                    }),
                }
            }
            _ => self.execute_uncommon(warp, instruction, active),
        }
        Ok(())
    }

    fn execute_uncommon(&mut self, warp: &mut Warp, instruction: &Instruction, active: Lanes) {
        match &instruction.action {
            Action::Pack {
                bytes,
                target,
                parts,
            } => {
                let part = Type::Bits(*bytes);
                let values: Vec<_> = parts.iter().map(|part| self.read(warp, *part)).collect();
                for lane in lanes(active) {
                    let all = values.iter().rev();
                    let all = all.fold(0, |all, value| {
                        all << (u32::from(*bytes) * 8) | trim(part, value[lane])
                    });
                    warp.registers[*target][lane] = all;
                }
            }
            Action::Unpack {
                bytes,
                targets,
                from,
            } => {
                let from = self.read(warp, *from);
                for (number, target) in targets.iter().enumerate() {
                    let Some(target) = *target else { continue };
                    let down = number * usize::from(*bytes) * 8;
                    lanes(active).for_each(|lane| {
                        warp.registers[target][lane] = trim(Type::Bits(*bytes), from[lane] >> down);
                    });
                }
            }
            Action::InsertBits {
                ty,
                target,
                a,
                b,
                place,
                count,
            } => {
                let [a, b, place, count] =
                    [*a, *b, *place, *count].map(|source| self.read(warp, source));
                warp.write(*target, active, |lane| {
                    insert(*ty, a[lane], b[lane], place[lane], count[lane])
                });
            }
            Action::Carrying {
                op,
                ty,
                carry_in,
                carry_out,
                target,
                a,
                b,
                c,
            } => {
                let [a, b, c] = [*a, *b, *c].map(|source| self.read(warp, source));
                for lane in lanes(active) {
                    let carry = if *carry_in { warp.carry[lane] } else { 0 };
                    let (bits, carry) = carrying(*op, *ty, [a[lane], b[lane], c[lane]], carry);
                    warp.registers[*target][lane] = bits;
                    if *carry_out {
                        warp.carry[lane] = carry;
                    }
                }
            }
            Action::CopyLocal(copies) => {
                let bytes = self.kernel.local_bytes;
                for lane in lanes(active) {
                    let own = &mut warp.local[lane * bytes..][..bytes];
                    for (from, to, count) in copies {
                        own.copy_within(*from..from + count, *to);
                    }
                }
            }
            // All other actions are handled elsewhere.
            _ => {}
        }
    }
}
