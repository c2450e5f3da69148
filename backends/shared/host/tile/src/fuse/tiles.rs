//! Loads and stores of tiles: whole vectors, and the existing lanes of the last one.

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::assembler::{
    Assembler, CannotEncode, LANE, LANES, LAST_LANES, POOL, Place, SLOTS, Vector,
};
use super::{Node, NodeId, PrefetchKind, Recipe};
use crate::slot::SlotId;

impl Assembler {
    /// Loads the lanes of a tile, if they are not loaded yet.
    pub(super) fn load_lanes(&mut self, recipe: &Recipe, id: NodeId) -> Result<(), CannotEncode> {
        let (Node::Lanes(slot), Place::Nowhere) =
            (recipe.nodes[usize::from(id)], self.places[usize::from(id)])
        else {
            return Ok(());
        };
        let register = self.take()?;
        let from = self.lanes_at(slot)?;
        if self.is_tail {
            self.load_last(register, from)?;
        } else {
            self.load(register, from)?;
        }
        self.places[usize::from(id)] = Place::Vector(register);
        Ok(())
    }

    /// Returns a node in a register, loaded if necessary.
    pub(super) fn loaded(&mut self, recipe: &Recipe, id: NodeId) -> Result<Vector, CannotEncode> {
        self.load_lanes(recipe, id)?;
        match self.places[usize::from(id)] {
            Place::Vector(register) => Ok(register),
            _ => Err(CannotEncode),
        }
    }

    pub(super) fn write(&mut self, slot: SlotId, register: Vector) -> Result<(), CannotEncode> {
        let to = self.lanes_at(slot)?;
        if self.is_tail {
            return self.store_last(to, register);
        }
        if !self.streams {
            return self.store(to, register);
        }
        let code = match self.is_512 {
            true => Code::EVEX_Vmovntps_m512_zmm,
            false => Code::VEX_Vmovntps_m256_ymm,
        };
        self.push(Instruction::with2(code, to, self.vector(register))?);
        Ok(())
    }

    /// Prefetches lines whose address has a register.
    pub(super) fn prefetch(&mut self, recipe: &Recipe) -> Result<(), CannotEncode> {
        for (what, slot) in &recipe.prefetched {
            if let Ok(line) = self.lanes_at(*slot) {
                let code = match what {
                    PrefetchKind::Read => Code::Prefetcht0_m8,
                    PrefetchKind::Write => Code::Prefetchw_m8,
                };
                self.push(Instruction::with1(code, line)?);
            }
        }
        Ok(())
    }

    /// Loads a whole vector.
    pub(super) fn load(&mut self, to: Vector, from: MemoryOperand) -> Result<(), CannotEncode> {
        let code = match self.is_512 {
            true => Code::EVEX_Vmovups_zmm_k1z_zmmm512,
            false => Code::VEX_Vmovups_ymm_ymmm256,
        };
        self.push(Instruction::with2(code, self.vector(to), from)?);
        Ok(())
    }

    pub(super) fn store(&mut self, to: MemoryOperand, from: Vector) -> Result<(), CannotEncode> {
        let code = match self.is_512 {
            true => Code::EVEX_Vmovups_zmmm512_k1z_zmm,
            false => Code::VEX_Vmovups_ymmm256_ymm,
        };
        self.push(Instruction::with2(code, to, self.vector(from))?);
        Ok(())
    }

    /// Loads the existing lanes of the last vector; the others become zero.
    fn load_last(&mut self, to: Vector, from: MemoryOperand) -> Result<(), CannotEncode> {
        let to = self.vector(to);
        let load = match self.is_512 {
            true => {
                let code = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
                let mut load = Instruction::with2(code, to, from)?;
                load.set_op_mask(Register::K1);
                load.set_zeroing_masking(true);
                load
            }
            false => {
                let mask = self.vector(LAST_LANES);
                Instruction::with3(Code::VEX_Vmaskmovps_ymm_ymm_m256, to, mask, from)?
            }
        };
        self.push(load);
        Ok(())
    }

    /// Stores those lanes; the others keep their memory.
    pub(super) fn store_last(
        &mut self,
        to: MemoryOperand,
        from: Vector,
    ) -> Result<(), CannotEncode> {
        let from = self.vector(from);
        let store = match self.is_512 {
            true => {
                let code = Code::EVEX_Vmovups_zmmm512_k1z_zmm;
                let mut store = Instruction::with2(code, to, from)?;
                store.set_op_mask(Register::K1);
                store
            }
            false => {
                let mask = self.vector(LAST_LANES);
                Instruction::with3(Code::VEX_Vmaskmovps_m256_ymm_ymm, to, mask, from)?
            }
        };
        self.push(store);
        Ok(())
    }

    /// Builds the mask of the remaining lanes, whose number is in `LANES`.
    pub(super) fn mask_of_the_last(&mut self) -> Result<(), CannotEncode> {
        if self.is_512 {
            let ones = Instruction::with2(Code::Mov_r32_imm32, Register::ECX, -1_i32)?;
            self.push(ones);
            let (to, count) = (Register::ECX, Register::ESI);
            self.push(Instruction::with3(
                Code::VEX_Bzhi_r32_rm32_r32,
                to,
                to,
                count,
            )?);
            let mask = Instruction::with2(Code::VEX_Kmovw_kr_r32, Register::K1, Register::ECX)?;
            self.push(mask);
        } else {
            // The mask begins this many elements before the first zero.
            let none = 8 * size_of::<u32>() as i64;
            self.push(Instruction::with1(Code::Neg_rm64, LANES)?);
            let from = MemoryOperand::new(POOL, LANES, 4, none, 1, false, Register::None);
            let to = self.vector(LAST_LANES);
            let code = Code::VEX_Vmovups_ymm_ymmm256;
            self.push(Instruction::with2(code, to, from)?);
        }
        Ok(())
    }

    /// Loads the address in a slot.
    pub(super) fn address(&mut self, to: Register, slot: SlotId) -> Result<(), CannotEncode> {
        let from = MemoryOperand::with_base_displ(SLOTS, 8 * i64::from(slot));
        self.push(Instruction::with2(Code::Mov_r64_rm64, to, from)?);
        Ok(())
    }

    fn lanes_at(&self, slot: SlotId) -> Result<MemoryOperand, CannotEncode> {
        let found = self.pointers.iter().find(|(known, _)| *known == slot);
        let (_, base) = found.ok_or(CannotEncode)?;
        let (base, byte_offset) = (*base, self.byte_offset);
        let at = MemoryOperand::new(base, LANE, 4, byte_offset, 1, false, Register::None);
        Ok(at)
    }
}
