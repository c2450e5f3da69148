//! Operations on values.

use millstream_ir::ssa::{Axis, Op, Position, Type, ValueId};
use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp, scalar};

use super::{Lane, Lower};
use crate::code::{Condition, Operand, Place, Reference, Step, Test, varies};
use crate::kernels;

/// Why the reference has an operation.
pub(super) const CHECKED: &str = "the verifier has checked that the type has the operation";

/// Whether an index may have this type.
fn is_index(dtype: DType) -> bool {
    matches!(dtype, DType::I64 | DType::U64)
}

impl Lower<'_> {
    pub(super) fn type_of(&self, value: ValueId) -> Type {
        self.function.values[value as usize]
    }

    /// Returns the lanes of an operation's value.
    pub(super) fn define(&mut self, value: ValueId, op: &Op) -> Vec<Lane> {
        let of = self.type_of(value);
        let lanes = 0..of.lanes;
        match op {
            Op::Const(bits) => vec![Lane::Scalar(self.constant(*bits)); of.lanes.into()],
            Op::Scalar(index) => vec![Lane::Scalar(self.word(*index))],
            Op::Position(position, axis) => vec![self.position(*position, *axis)],
            Op::Load(memory, at) => self.load(value, *memory, *at),
            Op::Lane(a, lane) => vec![self.values[*a as usize][usize::from(*lane)]],
            Op::Splat(a) => vec![self.values[*a as usize][0]; of.lanes.into()],
            Op::Pack(all) => all.iter().map(|a| self.values[*a as usize][0]).collect(),
            // Only integers are affine.
            Op::Bits(a) if !is_index(of.dtype) => {
                lanes.map(|lane| self.plain((*a, lane))).collect()
            }
            Op::Bits(a) => self.values[*a as usize].clone(),
            Op::Reduce(scope, op, a) => vec![self.reduce(*scope, *op, *a)],
            Op::Atomic(op, memory, at) => vec![self.atomic(value, *op, *memory, *at)],
            Op::Shuffle(from, width, a, by) => vec![self.shuffle(*from, *width, [*a, *by])],
            _ => {
                let found = lanes.map(|lane| self.lane(of.dtype, op, lane)).collect();
                self.add_product(value, op);
                found
            }
        }
    }

    fn lane(&mut self, dtype: DType, op: &Op, lane: u8) -> Lane {
        match op {
            Op::Unary(op, a) => self.unary(*op, dtype, (*a, lane)),
            Op::Binary(op, a, b) => self.binary(*op, dtype, [(*a, lane), (*b, lane)]),
            Op::Compare(op, a, b) => {
                let of = self.type_of(*a).dtype;
                self.compare(*op, of, [(*a, lane), (*b, lane)])
            }
            Op::Select(condition, a, b) => self.select(dtype, [*condition, *a, *b], lane),
            Op::Cast(a) => {
                let from = self.type_of(*a).dtype;
                self.cast(from, dtype, (*a, lane))
            }
            Op::Fma(a, b, c) => self.fma(dtype, [*a, *b, *c].map(|value| (value, lane))),
            Op::Random(seed, counter) => self.random([*seed, *counter].map(|value| (value, lane))),
            other => unreachable!("`{other:?}` is no operation on lanes"),
        }
    }

    fn word(&mut self, index: u16) -> Place {
        if let Some(place) = self.words.get(&index) {
            return *place;
        }
        let place = self.new_scalar(0, false);
        self.words.insert(index, place);
        place
    }

    fn position(&mut self, position: Position, axis: Axis) -> Lane {
        let threads = self.function.threads[axis as usize];
        match position {
            Position::Threads => Lane::Scalar(self.constant(threads.into())),
            Position::Thread if threads == 1 => Lane::Scalar(self.constant(0)),
            Position::Thread => {
                let base = self.constant(0);
                let mut strides = [base; 3];
                strides[axis as usize] = self.constant(1);
                if self.shape != self.function.threads {
                    strides[1] = self.constant(self.shape[0].into());
                }
                Lane::Affine(self.new_affine(base, strides))
            }
            Position::Cube | Position::Cubes => {
                if let Some(place) = self.positions.get(&(position, axis)) {
                    return Lane::Scalar(*place);
                }
                let place = self.new_scalar(0, position == Position::Cube);
                self.bound(place, Some(u32::MAX.into()));
                self.positions.insert((position, axis), place);
                Lane::Scalar(place)
            }
        }
    }

    fn unary(&mut self, op: UnaryOp, dtype: DType, key: (ValueId, u8)) -> Lane {
        let lane = self.get(key);
        if op == UnaryOp::Abs && !dtype.is_float() && !dtype.is_signed() {
            return lane;
        }
        if let (UnaryOp::Neg, Lane::Affine(value)) = (op, lane) {
            let minus = self.constant(u64::MAX);
            return Lane::Affine(self.affine(value, |lower, place| {
                lower.whole(BinaryOp::Mul, place, minus)
            }));
        }
        let of = self.operand(key);
        // Functions of scalars have the accuracy of those of columns.
        let run = kernels::unary(op, dtype, self.level);
        match run.filter(|_| !of.is_scalar() || op.units() > 0) {
            Some(run) => self.map(run, dtype, &[of]),
            None => {
                let f = scalar::unary(op, dtype).expect(CHECKED);
                self.each(Reference::Unary(f), dtype, &[of])
            }
        }
    }

    fn binary(&mut self, op: BinaryOp, dtype: DType, keys: [(ValueId, u8); 2]) -> Lane {
        let [a, b] = keys.map(|key| self.get(key));
        let is_affine = matches!(a, Lane::Affine(_)) || matches!(b, Lane::Affine(_));
        if is_affine
            && is_index(dtype)
            && let Some(value) = self.combined(op, a, b)
        {
            return Lane::Affine(value);
        }
        if (op, dtype) == (BinaryOp::Min, DType::U64) && self.is_at_most(a, b) {
            return a;
        }
        if (op, dtype) == (BinaryOp::And, DType::Bool)
            && let Some(both) = self.both(a, b)
        {
            return both;
        }
        let of = keys.map(|key| self.operand(key));
        let scalar = of.map(Operand::is_scalar);
        let f = scalar::binary(op, dtype).expect(CHECKED);
        let choice = kernels::binary(op, dtype, scalar, self.level);
        let lane = self.chosen(choice, f, [dtype; 2], of);
        if let (Lane::Scalar(a), Lane::Scalar(place), DType::U64) = (a, lane, dtype)
            && matches!(op, BinaryOp::Div | BinaryOp::Rem | BinaryOp::Min)
        {
            self.bound(place, self.most(a));
        }
        lane
    }

    /// Returns two tests as one condition.
    fn both(&mut self, a: Lane, b: Lane) -> Option<Lane> {
        let mut all = Vec::new();
        for lane in [a, b] {
            match lane {
                Lane::Test(test) => all.push(test),
                Lane::All(tests) => all.extend_from_slice(&self.tests[tests]),
                _ => return None,
            }
        }
        self.tests.push(all);
        Some(Lane::All(self.tests.len() - 1))
    }

    pub(super) fn compare(
        &mut self,
        op: CompareOp,
        dtype: DType,
        keys: [(ValueId, u8); 2],
    ) -> Lane {
        let test = match keys.map(|key| self.get(key)) {
            [Lane::Affine(value), Lane::Scalar(with)] => Some((op, value, with)),
            [Lane::Scalar(with), Lane::Affine(value)] => Some((mirrored(op), value, with)),
            _ => None,
        };
        if let Some((op, value, with)) = test {
            let unsigned = dtype == DType::U64;
            return Lane::Test(Test {
                op,
                value,
                with,
                unsigned,
            });
        }
        let of = keys.map(|key| self.operand(key));
        if of.iter().all(|operand| operand.is_scalar()) {
            let f = Reference::Binary(scalar::compare(op, dtype));
            return self.each(f, DType::Bool, &of);
        }
        Lane::Column(self.compared(op, dtype, of))
    }

    /// Compares operands, one of which is a column.
    pub(super) fn compared(&mut self, op: CompareOp, dtype: DType, of: [Operand; 2]) -> Operand {
        let choice = kernels::compare(op, dtype, of.map(Operand::is_scalar), self.level);
        let f = scalar::compare(op, dtype);
        match self.chosen(choice, f, [dtype, DType::Bool], of) {
            Lane::Column(operand) => operand,
            _ => unreachable!("one operand is a column"),
        }
    }

    fn select(&mut self, dtype: DType, [condition, a, b]: [ValueId; 3], lane: u8) -> Lane {
        let of = [(a, lane), (b, lane)].map(|key| self.operand(key));
        if let Lane::Scalar(place) = self.get((condition, lane))
            && (of.iter().all(|operand| operand.is_scalar()) || !varies(place))
        {
            if of.iter().all(|operand| operand.is_scalar()) {
                let places = [place, of[0].place, of[1].place];
                return Lane::Scalar(self.scalar(Reference::Ternary(scalar::select), &places));
            }
            let to = self.new_column(dtype);
            let [then, otherwise] = of.map(|value| {
                let (masked, swaps) = (false, false);
                vec![Step::Set {
                    to,
                    value,
                    masked,
                    swaps,
                }]
            });
            self.emit(Step::If {
                condition: Condition::Scalar(place),
                then,
                otherwise,
                mask: Operand::scalar(0),
                after: None,
            });
            return Lane::Column(to);
        }
        let condition = self.operand((condition, lane));
        let condition = self.filled(condition, DType::Bool);
        let of = [condition, of[0], of[1]];
        let scalars = [of[1], of[2]].map(Operand::is_scalar);
        match kernels::select(dtype.size(), scalars, self.level) {
            Some(run) => self.map(run, dtype, &of),
            None => self.each(Reference::Ternary(scalar::select), dtype, &of),
        }
    }

    fn cast(&mut self, from: DType, to: DType, key: (ValueId, u8)) -> Lane {
        let lane = self.get(key);
        if from == to || (matches!(lane, Lane::Affine(_)) && is_index(to)) {
            return lane;
        }
        let of = self.operand(key);
        if of.is_scalar() {
            return self.each(Reference::Unary(scalar::cast(from, to)), to, &[of]);
        }
        self.cast_column(from, to, of)
    }

    fn cast_column(&mut self, from: DType, to: DType, of: Operand) -> Lane {
        let through_single = to == DType::Bool && from.computed() != from;
        if through_single && let Lane::Column(of) = self.cast_column(from, DType::F32, of) {
            return self.cast_column(DType::F32, to, of);
        }
        if to == DType::Bool {
            let zero = Operand::scalar(self.constant(0));
            return Lane::Column(self.compared(CompareOp::Ne, from, [of, zero]));
        }
        let Some(casts) = kernels::cast(from, to, self.level) else {
            return self.each(Reference::Unary(scalar::cast(from, to)), to, &[of]);
        };
        let mut lane = Lane::Column(of);
        for (run, to) in casts {
            if let Lane::Column(of) = lane {
                // The loop reads an element of the second operand as if it was a scalar.
                lane = self.map(run, to, &[of, Operand::scalar(0)]);
            }
        }
        lane
    }

    fn fma(&mut self, dtype: DType, keys: [(ValueId, u8); 3]) -> Lane {
        let [mut a, mut b, c] = keys.map(|key| self.operand(key));
        if a.is_scalar() {
            std::mem::swap(&mut a, &mut b);
        }
        let f = Reference::Ternary(scalar::fma(dtype).expect(CHECKED));
        let run = kernels::fma(dtype, [b, c].map(Operand::is_scalar), self.level);
        match run {
            Some(run) if !(a.is_scalar() && c.is_scalar()) => {
                let a = self.filled(a, dtype);
                self.map(run, dtype, &[a, b, c])
            }
            _ => self.each(f, dtype, &[a, b, c]),
        }
    }

    fn random(&mut self, keys: [(ValueId, u8); 2]) -> Lane {
        let [seed, counter] = keys.map(|key| self.operand(key));
        let f = |seed, counter| scalar::random(seed, counter);
        let run = kernels::random(seed.is_scalar(), self.level);
        match run {
            Some(run) if !(seed.is_scalar() && counter.is_scalar()) => {
                let counter = self.filled(counter, DType::I64);
                self.map(run, DType::U32, &[counter, seed])
            }
            _ => self.each(Reference::Binary(f), DType::U32, &[seed, counter]),
        }
    }
}

/// Returns the comparison with the operands swapped.
pub(super) fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        op => op,
    }
}
