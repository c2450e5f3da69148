//! Decodes arithmetic instructions of integers and floats.

use crate::instruction::{Action, Binary, Carrying, Compute, Source, Ternary, Type, Unary};
use crate::number::{Mode, Rounding};
use crate::operands::Statement;

const U32: Type = Type::Unsigned(4);

fn unsupported_type<T>() -> Result<T, String> {
    Err("unsupported type".to_owned())
}

impl Statement<'_, '_> {
    /// Reads a target, and operands of these types, of a computation.
    pub(super) fn compute(
        &mut self,
        op: Compute,
        ty: Type,
        mode: Mode,
        types: &[Type],
    ) -> Result<Action, String> {
        let target = self.target()?;
        let mut operands = [Source::Value(0); 3];
        for (operand, ty) in operands.iter_mut().zip(types) {
            *operand = self.source(*ty)?;
        }
        Ok(Action::Compute {
            op,
            ty,
            mode,
            target,
            operands,
        })
    }

    /// Decodes an arithmetic instruction, or returns `None` for any other.
    pub(super) fn arithmetic(&mut self, name: &str) -> Result<Option<Action>, String> {
        if let Some(op) = unary_op(name) {
            return self.unary(op).map(Some);
        }
        if let Some(op) = binary_op(name) {
            if self.modifiers.contains(&"cc") {
                return self.carrying(name).map(Some);
            }
            return self.binary(op).map(Some);
        }
        let action = match name {
            "mul" => self.multiply(),
            "mad" if self.modifiers.contains(&"cc") => self.carrying(name),
            "mad" | "fma" => self.multiply_add(name),
            "addc" | "subc" | "madc" => self.carrying(name),
            "bfi" => self.insert(),
            "prmt" => {
                let ty = self.integers()?;
                self.compute(
                    Compute::Ternary(Ternary::Permute),
                    ty,
                    Mode::default(),
                    &[ty, ty, U32],
                )
            }
            _ => return Ok(None),
        };
        action.map(Some)
    }

    fn integers(&mut self) -> Result<Type, String> {
        match self.ty()? {
            ty if ty.is_float() => unsupported_type(),
            ty => Ok(ty),
        }
    }

    fn unary(&mut self, op: Unary) -> Result<Action, String> {
        let mode = self.mode();
        // Computed exactly; the hardware approximates.
        self.ignore(&["approx"]);
        let ty = self.ty()?;
        let of_both = matches!(op, Unary::Abs | Unary::Neg);
        let of_floats = matches!(op, Unary::Sqrt | Unary::Rcp | Unary::Ex2);
        let odd_mode = mode != Mode::default() && !ty.is_float();
        let directed = op == Unary::Sqrt && mode.rounding != Rounding::Nearest;
        if (!of_both && of_floats != ty.is_float()) || odd_mode || directed {
            return unsupported_type();
        }
        self.compute(Compute::Unary(op), ty, mode, &[ty])
    }

    fn binary(&mut self, op: Binary) -> Result<Action, String> {
        let mode = self.mode();
        let ty = self.ty()?;
        let bitwise = matches!(
            op,
            Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr | Binary::Rem
        );
        // The mode has no effect on these.
        let chooses = matches!(op, Binary::Min | Binary::Max | Binary::CopySign);
        if ty.is_float() {
            if op == Binary::Div {
                self.ignore(&["approx", "full"]);
            }
            if bitwise || (chooses && mode != Mode::default()) {
                return unsupported_type();
            }
        } else if mode != Mode::default() || op == Binary::CopySign {
            return Err("unsupported rounding, `.ftz` or `.sat` for this type".to_owned());
        }
        let amount = match op {
            Binary::Shl | Binary::Shr => U32,
            _ => ty,
        };
        self.compute(Compute::Binary(op), ty, mode, &[ty, amount])
    }

    fn multiply(&mut self) -> Result<Action, String> {
        let mode = self.mode();
        let ty = self.ty()?;
        let op = if ty.is_float() {
            Binary::MulLow
        } else if mode != Mode::default() {
            return unsupported_type();
        } else {
            self.modifier("half", |name| match name {
                "lo" => Some(Binary::MulLow),
                "hi" => Some(Binary::MulHigh),
                "wide" => Some(Binary::MulWide),
                _ => None,
            })?
        };
        if op == Binary::MulWide && ty.bytes() == 8 {
            return unsupported_type();
        }
        self.compute(Compute::Binary(op), ty, mode, &[ty, ty])
    }

    fn multiply_add(&mut self, name: &str) -> Result<Action, String> {
        let mode = self.mode();
        let ty = self.ty()?;
        if ty.is_float() {
            return self.compute(Compute::Ternary(Ternary::Fma), ty, mode, &[ty, ty, ty]);
        }
        if name != "mad" || mode != Mode::default() {
            return unsupported_type();
        }
        let op = self.modifier("half", |name| match name {
            "lo" => Some(Ternary::MadLow),
            "wide" => Some(Ternary::MadWide),
            _ => None,
        })?;
        let sum = match op {
            Ternary::MadWide if ty.bytes() == 8 => return unsupported_type(),
            Ternary::MadWide => ty.doubled(),
            _ => ty,
        };
        self.compute(Compute::Ternary(op), ty, mode, &[ty, ty, sum])
    }

    fn carrying(&mut self, name: &str) -> Result<Action, String> {
        let carry_out = self.has("cc");
        let ty = self.integers()?;
        let (op, carry_in) = match name {
            "add" => (Carrying::Add, false),
            "addc" => (Carrying::Add, true),
            "sub" => (Carrying::Sub, false),
            "subc" => (Carrying::Sub, true),
            _ => {
                let op = self.modifier("half", |name| match name {
                    "lo" => Some(Carrying::MadLow),
                    "hi" => Some(Carrying::MadHigh),
                    _ => None,
                })?;
                (op, name == "madc")
            }
        };
        let (target, a, b) = (self.target()?, self.source(ty)?, self.source(ty)?);
        let c = match op {
            Carrying::MadLow | Carrying::MadHigh => self.source(ty)?,
            _ => Source::Value(0),
        };
        Ok(Action::Carrying {
            op,
            ty,
            carry_in,
            carry_out,
            target,
            a,
            b,
            c,
        })
    }

    fn insert(&mut self) -> Result<Action, String> {
        let ty = self.integers()?;
        let (target, a, b) = (self.target()?, self.source(ty)?, self.source(ty)?);
        Ok(Action::InsertBits {
            ty,
            target,
            a,
            b,
            place: self.source(U32)?,
            count: self.source(U32)?,
        })
    }
}

fn unary_op(name: &str) -> Option<Unary> {
    Some(match name {
        "abs" => Unary::Abs,
        "neg" => Unary::Neg,
        "not" => Unary::Not,
        "sqrt" => Unary::Sqrt,
        "rcp" => Unary::Rcp,
        "ex2" => Unary::Ex2,
        "clz" => Unary::Clz,
        _ => return None,
    })
}

fn binary_op(name: &str) -> Option<Binary> {
    Some(match name {
        "add" => Binary::Add,
        "sub" => Binary::Sub,
        "div" => Binary::Div,
        "rem" => Binary::Rem,
        "min" => Binary::Min,
        "max" => Binary::Max,
        "and" => Binary::And,
        "or" => Binary::Or,
        "xor" => Binary::Xor,
        "shl" => Binary::Shl,
        "shr" => Binary::Shr,
        "copysign" => Binary::CopySign,
        _ => return None,
    })
}
