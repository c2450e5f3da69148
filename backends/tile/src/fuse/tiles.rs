//! What is read and written: whole vectors of tiles, and of the last one the lanes that are there.

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::assembler::{Assembler, Full, LANE, LANES, LAST_LANES, POOL, Place, SLOTS, Vector};
use super::{Node, NodeId, Recipe};
use crate::plan::SlotId;

impl Assembler {
    /// Reads the lanes of a tile, where they are not read yet.
    pub(super) fn bring(&mut self, recipe: &Recipe, id: NodeId) -> Result<(), Full> {
        let (Node::Lanes(slot), Place::Nowhere) =
            (recipe.nodes[usize::from(id)], self.places[usize::from(id)])
        else {
            return Ok(());
        };
        let register = self.take()?;
        let (to, from) = (self.vector(register), self.lanes_at(slot)?);
        let instruction = match (self.is_512, self.is_tail) {
            (true, is_tail) => {
                let code = Code::EVEX_Vmovups_zmm_k1z_zmmm512;
                let mut load = Instruction::with2(code, to, from)?;
                if is_tail {
                    load.set_op_mask(Register::K1);
                    load.set_zeroing_masking(true);
                }
                load
            }
            (false, false) => Instruction::with2(Code::VEX_Vmovups_ymm_ymmm256, to, from)?,
            (false, true) => {
                let mask = self.vector(LAST_LANES);
                Instruction::with3(Code::VEX_Vmaskmovps_ymm_ymm_m256, to, mask, from)?
            }
        };
        self.push(instruction);
        self.places[usize::from(id)] = Place::Vector(register);
        Ok(())
    }

    pub(super) fn write(&mut self, slot: SlotId, register: Vector) -> Result<(), Full> {
        let (from, to) = (self.vector(register), self.lanes_at(slot)?);
        let instruction = match (self.is_512, self.is_tail) {
            (true, false) if self.streams => {
                Instruction::with2(Code::EVEX_Vmovntps_m512_zmm, to, from)?
            }
            (true, is_tail) => {
                let code = Code::EVEX_Vmovups_zmmm512_k1z_zmm;
                let mut store = Instruction::with2(code, to, from)?;
                if is_tail {
                    store.set_op_mask(Register::K1);
                }
                store
            }
            (false, false) if self.streams => {
                Instruction::with2(Code::VEX_Vmovntps_m256_ymm, to, from)?
            }
            (false, false) => Instruction::with2(Code::VEX_Vmovups_ymmm256_ymm, to, from)?,
            (false, true) => {
                let mask = self.vector(LAST_LANES);
                Instruction::with3(Code::VEX_Vmaskmovps_m256_ymm_ymm, to, mask, from)?
            }
        };
        self.push(instruction);
        Ok(())
    }

    /// Of as many lanes as are left, which is in the register of lanes.
    pub(super) fn mask_of_the_last(&mut self) -> Result<(), Full> {
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
            // So many elements before the first mask of none.
            let none = 8 * size_of::<u32>() as i64;
            self.push(Instruction::with1(Code::Neg_rm64, LANES)?);
            let from = MemoryOperand::new(POOL, LANES, 4, none, 1, false, Register::None);
            let to = self.vector(LAST_LANES);
            let code = Code::VEX_Vmovups_ymm_ymmm256;
            self.push(Instruction::with2(code, to, from)?);
        }
        Ok(())
    }

    /// The address in a slot.
    pub(super) fn address(&mut self, to: Register, slot: SlotId) -> Result<(), Full> {
        let from = MemoryOperand::with_base_displ(SLOTS, 8 * i64::from(slot));
        self.push(Instruction::with2(Code::Mov_r64_rm64, to, from)?);
        Ok(())
    }

    fn lanes_at(&self, slot: SlotId) -> Result<MemoryOperand, Full> {
        let found = self.pointers.iter().find(|(known, _)| *known == slot);
        let (_, base) = found.ok_or(Full)?;
        Ok(MemoryOperand::with_base_index_scale(*base, LANE, 4))
    }
}
