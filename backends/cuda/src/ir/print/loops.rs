//! The heads of loops, and what is known of their bounds.
//!
//! The sum of the last index and the step may exceed `i64`, which must not be computed: it would be undefined behaviour, and
//! the loop would not end. Where it cannot, the loop has the form that compilers unroll.

use std::fmt::Display;

use millstream_ir::ssa::{Op, Position, Type, ValueId};
use millstream_ir::{BinaryOp, DType, scalar};

use super::Printer;

impl Printer<'_> {
    /// Returns the line of a loop before its body, and the first line of the body.
    pub(super) fn loop_head(
        &self,
        index: ValueId,
        bounds: [ValueId; 3],
    ) -> (String, Option<String>) {
        let [start, end, step] = bounds;
        let known = |v: ValueId| self.constants[v as usize].map(u64::cast_signed);
        let values = [known(start), self.most[end as usize], known(step)];
        let narrow = [DType::I32, DType::U32].into_iter();
        let mut narrow = narrow.filter(|of| [start, end].iter().all(|v| self.fits(*v, *of)));
        let of = narrow.next().unwrap_or(DType::I64);
        head(
            &self.name(index, 0),
            of,
            &bounds.map(|v| self.name(v, 0)),
            values,
        )
    }

    /// Notes what is known of a value that is defined here.
    pub(super) fn note(&mut self, value: ValueId, op: &Op) {
        let of = self.of(value);
        let (index, known) = (value as usize, self.known(of, op));
        self.constants[index] = known;
        self.most[index] = match op {
            Op::Binary(BinaryOp::Min, a, b) => {
                let both = [a, b].into_iter().filter_map(|v| self.most[*v as usize]);
                both.min()
            }
            _ => known.map(u64::cast_signed),
        }
        .filter(|_| of == Type::one(DType::I64));
        if let Op::Cast(a) = op {
            self.narrower[index] = Some(self.of(*a).dtype);
        }
    }

    /// Returns whether an `i64` is known to be a number of this type of 32 bits.
    fn fits(&self, value: ValueId, of: DType) -> bool {
        let from = self.narrower[value as usize];
        let (least, most, fits) = match of {
            DType::I32 => (
                i64::from(i32::MIN),
                i64::from(i32::MAX),
                matches!(
                    from,
                    Some(DType::I8 | DType::I16 | DType::I32 | DType::U8 | DType::U16)
                ),
            ),
            _ => (
                0,
                i64::from(u32::MAX),
                matches!(from, Some(DType::U8 | DType::U16 | DType::U32)),
            ),
        };
        let constant = self.constants[value as usize];
        fits || constant.is_some_and(|bits| (least..=most).contains(&bits.cast_signed()))
    }

    /// Returns the bits of an integer if its operands are known.
    fn known(&self, of: Type, op: &Op) -> Option<u64> {
        let known = |a: &ValueId| {
            let is_integer = !self.of(*a).dtype.is_float();
            self.constants[*a as usize].filter(|_| is_integer)
        };
        if of.lanes > 1 || of.dtype.is_float() {
            return None;
        }
        Some(match op {
            Op::Const(bits) => *bits,
            Op::Position(Position::Threads, axis) => self.function.threads[*axis as usize].into(),
            Op::Unary(op, a) => scalar::unary(*op, of.dtype)?(known(a)?),
            Op::Binary(op, a, b) => scalar::binary(*op, of.dtype)?(known(a)?, known(b)?),
            Op::Cast(a) => scalar::cast(self.of(*a).dtype, of.dtype)(known(a)?),
            Op::Bits(a) => known(a)?,
            _ => return None,
        })
    }
}

/// Returns the line of a loop before its body, and the first line of the body. The bounds are the variables of start, end
/// and step; `values` are theirs if they are constants, of the end a bound that is known. `of` is a type that represents start
/// and end.
fn head<N: Display>(
    index: &N,
    of: DType,
    [start, end, step]: &[N; 3],
    values: [Option<i64>; 3],
) -> (String, Option<String>) {
    match values {
        // Fewer instructions than with 64 bits.
        [_, _, Some(1)] if of != DType::I64 => (
            format!(
                "for ({of} t{index} = {start}, n{index} = {end}; t{index} < n{index}; t{index} += 1) {{"
            ),
            Some(format!("const i64 {index} = t{index};")),
        ),
        // A constant step is positive (checked). Below the end, a step of one does not exceed it.
        [_, last, Some(by)]
            if by == 1 || last.is_some_and(|last| last.checked_add(by - 1).is_some()) =>
        {
            (
                format!("for (i64 {index} = {start}; {index} < {end}; {index} += {step}) {{"),
                None,
            )
        }
        // From 0 on, the sum of two positive `i64` is always a `u64`.
        [Some(0..), _, Some(by)] => (
            format!(
                "for (u64 t{index} = {start}, n{index} = {end} < 0 ? 0 : {end}; t{index} < n{index}; t{index} += {by}) {{"
            ),
            Some(format!("const i64 {index} = t{index};")),
        ),
        [_, _, by] => {
            // A step that is no constant may be 0, and the loop would not end.
            let guard = match by {
                Some(_) => String::new(),
                None => format!("{step} > 0 && "),
            };
            let head = format!(
                "for (i64 {index} = {start}; {guard}{index} < {end}; {index} = ms::next({index}, {step}, {end})) {{"
            );
            (head, None)
        }
    }
}
