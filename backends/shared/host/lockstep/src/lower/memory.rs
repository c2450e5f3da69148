//! Loads, stores and atomic operations.

use millstream_ir::DType;
use millstream_ir::nest::BufferMode;
use millstream_ir::ssa::{AtomicOp, Memory, Say, Text, ValueId};

use super::{Home, Lane, Lower};
use crate::code::{Access, At, Operand, Reference, Said, Step, Target, UNPLACED, varies};

impl Lower<'_> {
    /// Returns an index.
    fn at(&mut self, at: Option<ValueId>, memory: Memory) -> At {
        let Some(at) = at else {
            return At::Scalar(self.constant(0));
        };
        match (self.get((at, 0)), memory) {
            // The elements of all threads of a chunk follow each other.
            (Lane::Scalar(place), Memory::Local(local))
                if varies(place) && !self.uniform[usize::from(local)] =>
            {
                At::Column(self.filled(Operand::scalar(place), DType::I64))
            }
            (Lane::Scalar(place), _) => At::Scalar(place),
            (Lane::Affine(value), Memory::Param(_) | Memory::Shared(_) | Memory::Table(_)) => {
                At::Affine(value)
            }
            _ => At::Column(self.operand((at, 0))),
        }
    }

    /// Returns an access to the memory, unless it is a variable.
    fn access(&mut self, memory: Memory, at: Option<ValueId>, value: ValueId) -> Box<Access> {
        let of = self.type_of(value);
        let target = match memory {
            Memory::Param(param) => Target::Param(param.into()),
            Memory::Shared(array) => {
                let array = usize::from(array);
                Target::Shared {
                    start: self.shared[array],
                    len: self.function.shared[array].len as usize,
                }
            }
            Memory::Local(array) => {
                let array = usize::from(array);
                let Home::Array(start) = self.homes[array] else {
                    unreachable!("the caller handles variables")
                };
                Target::Local {
                    start,
                    len: self.function.locals[array].len as usize,
                }
            }
            Memory::Table(table) => Target::Table(table.into()),
        };
        Box::new(Access {
            target,
            at: self.at(at, memory),
            size: of.dtype.size(),
            lanes: of.lanes.into(),
            is_bool: of.dtype == DType::Bool,
            memory,
            line: self.line,
        })
    }

    /// Returns the variable that a memory is.
    fn variable(&self, memory: Memory) -> Option<Home> {
        let Memory::Local(local) = memory else {
            return None;
        };
        let home = self.homes[usize::from(local)];
        (!matches!(home, Home::Array(_))).then_some(home)
    }

    pub(super) fn load(
        &mut self,
        value: ValueId,
        memory: Memory,
        at: Option<ValueId>,
    ) -> Vec<Lane> {
        let of = self.type_of(value);
        match self.variable(memory) {
            Some(Home::Scalar(place)) => {
                // Not in an outer block, where the variable may have another value.
                let to = self.new_scalar(self.open.len() - 1, varies(place));
                let f = Reference::COPY;
                self.emit(Step::Scalar {
                    to,
                    f,
                    of: [place, 0, 0],
                    masked: false,
                });
                return vec![Lane::Scalar(to)];
            }
            Some(Home::Column(variable)) => {
                if self.survey.is_variable_itself[value as usize] {
                    return vec![Lane::Column(variable)];
                }
                let to = self.new_column(of.dtype);
                self.emit(Step::Set {
                    to,
                    value: variable,
                    masked: false,
                    swaps: false,
                });
                return vec![Lane::Column(to)];
            }
            _ => {}
        }
        let access = self.access(memory, at, value);
        let lanes = 0..of.lanes;
        // An element of each thread differs, except if they all store the same.
        let is_same = match memory {
            Memory::Local(local) => self.uniform[usize::from(local)],
            _ => true,
        };
        if let At::Scalar(place) = access.at
            && is_same
        {
            let depth = self.open.len() - 1;
            let varies = varies(place)
                || match memory {
                    Memory::Param(_) | Memory::Table(_) => false,
                    Memory::Shared(_) => true,
                    Memory::Local(local) => !self.launch_uniform[usize::from(local)],
                };
            let to: Vec<Operand> = lanes
                .map(|_| Operand::scalar(self.new_scalar(depth, varies)))
                .collect();
            let found = to.iter().map(|to| Lane::Scalar(to.place)).collect();
            self.emit(Step::Load {
                access,
                to: to.into(),
                direct: None,
            });
            return found;
        }
        let to: Vec<Operand> = lanes.map(|_| self.new_column(of.dtype)).collect();
        let reads = match memory {
            Memory::Param(param) => {
                self.function.params[usize::from(param)].mode == BufferMode::Read
            }
            _ => false,
        };
        let may_be_direct = reads && !access.is_bool && matches!(access.at, At::Affine(_));
        let direct = Some(to[0]).filter(|_| may_be_direct && of.lanes == 1);
        if direct.is_some() {
            self.columns[(to[0].place & !UNPLACED) as usize].is_direct = true;
        }
        let found = to.iter().map(|to| Lane::Column(*to)).collect();
        self.emit(Step::Load {
            access,
            to: to.into(),
            direct,
        });
        found
    }

    pub(super) fn store(&mut self, memory: Memory, at: Option<ValueId>, value: ValueId) {
        let lanes = 0..self.type_of(value).lanes;
        let operands: Box<[Operand]> = lanes.map(|lane| self.operand((value, lane))).collect();
        match self.variable(memory) {
            Some(Home::Scalar(to)) => {
                let f = Reference::COPY;
                let of = [operands[0].place, 0, 0];
                let masked = true;
                self.emit(Step::Scalar { to, f, of, masked });
            }
            Some(Home::Column(to)) => self.emit(Step::Set {
                to,
                value: operands[0],
                masked: true,
                swaps: false,
            }),
            _ => {
                let access = self.access(memory, at, value);
                self.emit(Step::Store {
                    access,
                    value: operands,
                });
            }
        }
    }

    pub(super) fn say(&mut self, say: &Say) {
        let of = |value: &ValueId| (self.type_of(*value).dtype, self.operand((*value, 0)));
        let values = say.values.iter().map(of).collect();
        let Ok(text) = Text::try_from(say) else {
            unreachable!("the function is checked")
        };
        let (fails, line) = (say.fails, self.line);
        self.emit(Step::Say(Box::new(Said {
            fails,
            text,
            values,
            line,
        })));
    }

    pub(super) fn atomic(
        &mut self,
        value: ValueId,
        op: AtomicOp,
        memory: Memory,
        at: ValueId,
    ) -> Lane {
        let mut all = op.operands().map(|operand| self.operand((operand, 0)));
        let operands = std::array::from_fn(|_| all.next().unwrap_or(Operand::scalar(0)));
        let access = self.access(memory, Some(at), value);
        let dtype = self.type_of(value).dtype;
        let is_used = self.survey.uses[value as usize] > 0;
        let to = is_used.then(|| self.new_column(dtype));
        self.emit(Step::Atomic {
            access,
            op,
            operands,
            to,
            dtype,
        });
        // Of a value that nothing uses, any place will do.
        to.map_or(Lane::Scalar(0), Lane::Column)
    }
}
