//! The values of a nest: computes each node of a group.

use millstream_ir::nest::{BufferMode, Op as Ir, Stride, Value, ValueId, Word};
use millstream_ir::{BinaryOp, DType, scalar};

use crate::lazy::node::Op;
use crate::schedule::axes::Affine;
use crate::schedule::group::{AccessPattern, Member, UseId};
use crate::schedule::item::WordValue;
use crate::schedule::lower::NestBuilder;
use crate::schedule::walk::{Local, WalkNode};
use crate::size::Size;

impl NestBuilder<'_> {
    fn value(&mut self, dtype: DType, op: Ir) -> ValueId {
        self.values.push(Value { dtype, op });
        (self.values.len() - 1) as ValueId
    }

    pub(super) fn word(&mut self, word: WordValue) -> Word {
        self.words.push(word);
        (self.words.len() - 1) as Word
    }

    /// Returns the stride of a gathered or scattered axis.
    pub(super) fn stride(&mut self, stride: &Size) -> Stride {
        match stride.is(1) {
            true => Stride::One,
            false => Stride::Word(self.word(WordValue::Size(stride.clone()))),
        }
    }

    /// Computes all members, operands first.
    pub(crate) fn members(&mut self, members: &[Member]) -> Option<()> {
        for member in members.iter().rev() {
            let node = self.walk.node(member.node);
            let value = if member.computed {
                self.compute(node, member)?
            } else {
                let AccessPattern::Flat(place) = &member.pattern else {
                    // Only bound: the user of the member accesses it.
                    continue;
                };
                self.loaded(member.node, place)
            };
            self.value_of.insert(member.use_id, value);
        }
        Some(())
    }

    /// Loads an element of a node, in the type of computation.
    pub(crate) fn loaded(&mut self, node: Local, place: &Affine) -> ValueId {
        let access = self.access(node, place, BufferMode::Read);
        self.reads.push(node);
        let dtype = self.walk.node(node).dtype;
        let value = self.value(dtype, Ir::Load(access));
        self.converted(value, dtype.computed())
    }

    /// Casts a value unless it has the type.
    fn converted(&mut self, value: ValueId, to: DType) -> ValueId {
        match self.values[usize::from(value)].dtype == to {
            true => value,
            false => self.value(to, Ir::Cast(value)),
        }
    }

    /// Computes the value of a member that is not loaded.
    fn compute(&mut self, node: &WalkNode, member: &Member) -> Option<ValueId> {
        let dtype = node.dtype.computed();
        let operands = member.operands.iter();
        let operands = operands.filter_map(|use_id| self.value_of.get(use_id).copied());
        let operands: Vec<ValueId> = operands.collect();
        let map: &[Affine] = match &member.pattern {
            AccessPattern::At(map) => map,
            _ => &[],
        };
        if let (AccessPattern::Stored, [stored]) = (&member.pattern, &operands[..]) {
            return Some(self.cast(*stored, node.dtype));
        }
        let op = match (&node.op, &operands[..]) {
            (Op::Const(bits), _) => {
                let bits = scalar::cast(node.dtype, node.dtype.computed())(*bits);
                Ir::Word(self.word(WordValue::Bits(bits)))
            }
            (Op::Scalar(scalar), _) => {
                let word = self.word(WordValue::Scalar(scalar.clone()));
                let value = self.value(node.dtype, Ir::Word(word));
                return Some(self.converted(value, dtype));
            }
            (Op::Index(axis), _) => return self.integer(&map[*axis]),
            (Op::Length(length), _) => return Some(self.number(length.clone())),
            (Op::Random(seed), _) => {
                let counter = self.integer(&Affine::flat(map, &node.shape)?)?;
                let seed = self.word(WordValue::Scalar(seed.clone()));
                Ir::Random { seed, counter }
            }
            (Op::Unary(op), [a]) => Ir::Unary(*op, *a),
            (Op::Binary(op), [a, b]) => Ir::Binary(*op, *a, *b),
            (Op::Compare(op), [a, b]) => Ir::Compare(*op, *a, *b),
            (Op::Select, [condition, a, b]) => Ir::Select(*condition, *a, *b),
            (Op::Cast, [a]) => return Some(self.cast(*a, node.dtype)),
            (Op::Reduce(op), [a]) => Ir::Reduce(*op, *a),
            (Op::Gather { axis }, [index]) => {
                return self.gather(node, map, *axis, *index);
            }
            // A view has the value of its operand.
            (_, [a]) if node.is_view() => return Some(*a),
            _ => return None,
        };
        Some(self.value(dtype, op))
    }

    /// Casts a value. A cast to a half rounds, and then widens again for computation.
    fn cast(&mut self, value: ValueId, to: DType) -> ValueId {
        let wide = self.converted(value, to.computed());
        let rounded = self.converted(wide, to);
        self.converted(rounded, to.computed())
    }

    fn gather(
        &mut self,
        node: &WalkNode,
        map: &[Affine],
        axis: usize,
        index: ValueId,
    ) -> Option<ValueId> {
        let base = node.operands[0];
        let shape = &self.walk.node(base).shape;
        let mut strides = shape.dense_strides()?;
        let stride = std::mem::take(&mut strides[axis]);
        let place = Affine::placed(map, &strides)?;
        let access = self.access(base, &place, BufferMode::Read);
        self.reads.push(base);
        let stride = self.stride(&stride);
        let len = self.word(WordValue::Size(shape[axis].clone()));
        let gather = Ir::Gather {
            access,
            index,
            stride,
            len,
        };
        let dtype = self.walk.node(base).dtype;
        let value = self.value(dtype, gather);
        Some(self.converted(value, dtype.computed()))
    }

    /// Computes an affine of the axes.
    fn integer(&mut self, affine: &Affine) -> Option<ValueId> {
        let order = self.axes.all();
        let mut parts = Vec::with_capacity(affine.terms.len() + 1);
        for (axis, factor) in &affine.terms {
            let place = order.iter().position(|known| known == axis)?;
            if !self.indexed.contains(axis) {
                self.indexed.push(*axis);
            }
            // The index of the axis among all axes; `finish` replaces it by that of the loop.
            let index = self.value(DType::I64, Ir::Index(place as u16));
            parts.push(match factor.is(1) {
                true => index,
                false => {
                    let factor = self.number(factor.clone());
                    self.value(DType::I64, Ir::Binary(BinaryOp::Mul, index, factor))
                }
            });
        }
        if parts.is_empty() || !affine.constant.is(0) {
            parts.push(self.number(affine.constant.clone()));
        }
        parts
            .into_iter()
            .reduce(|sum, part| self.value(DType::I64, Ir::Binary(BinaryOp::Add, sum, part)))
    }

    fn number(&mut self, size: Size) -> ValueId {
        let word = self.word(WordValue::Size(size));
        self.value(DType::I64, Ir::Word(word))
    }

    /// Returns the value of a use, in the type of a buffer.
    pub(crate) fn stored(&mut self, use_id: UseId, dtype: DType) -> Option<ValueId> {
        let value = *self.value_of.get(&use_id)?;
        Some(self.converted(value, dtype))
    }
}
