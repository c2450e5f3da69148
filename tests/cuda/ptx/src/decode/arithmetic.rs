//! Decodes arithmetic instructions of integers and floats.

use crate::instruction::{Action, Binary, Carrying, Permutation, Source, Ternary, Type, Unary};
use crate::number::{Format, Mode};
use crate::operands::Statement;

const U32: Type = Type::Unsigned(4);

fn unsupported_type<T>() -> Result<T, String> {
    Err("unsupported type".to_owned())
}

impl Statement<'_, '_> {
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
            "bfe" => self.extract(),
            "bfi" => self.insert(),
            "shf" => self.funnel(),
            "prmt" => self.permute(),
            "lop3" => self.logic(),
            "sad" => {
                let ty = self.integers()?;
                self.ternary(Ternary::SumOfDifferences, ty, Mode::default(), ty)
            }
            "dp4a" => {
                let signs = [self.ty()?, self.ty()?];
                let signed = signs.map(|ty| ty == Type::Signed(4));
                let sum = match signed {
                    [false, false] => U32,
                    _ => Type::Signed(4),
                };
                self.ternary(Ternary::Dot4 { signed }, sum, Mode::default(), sum)
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
        let shifted = op == Unary::HighestBit(false) && self.has("shiftamt");
        let op = match shifted {
            true => Unary::HighestBit(true),
            false => op,
        };
        let ty = self.ty()?;
        let of_both = matches!(op, Unary::Abs | Unary::Neg);
        let of_floats = matches!(
            op,
            Unary::Sqrt
                | Unary::Rsqrt
                | Unary::Rcp
                | Unary::Ex2
                | Unary::Lg2
                | Unary::Sin
                | Unary::Cos
                | Unary::Tanh
        );
        let odd_mode = mode != Mode::default() && !ty.is_float();
        if (!of_both && of_floats != ty.is_float()) || odd_mode {
            return unsupported_type();
        }
        let (target, a) = (self.target()?, self.source(ty)?);
        Ok(Action::Unary {
            op,
            ty,
            mode,
            target,
            a,
        })
    }

    fn binary(&mut self, op: Binary) -> Result<Action, String> {
        let op = match op {
            Binary::Min { .. } => Binary::Min {
                nan: self.has("NaN"),
            },
            Binary::Max { .. } => Binary::Max {
                nan: self.has("NaN"),
            },
            op => op,
        };
        let mode = self.mode();
        let pair = self.optional(|name| match name {
            "u16x2" => Some(Type::IntegerPair { signed: false }),
            "s16x2" => Some(Type::IntegerPair { signed: true }),
            _ => None,
        });
        let ty = match (pair, op) {
            (None, _) => self.ty()?,
            (Some(pair), Binary::Add | Binary::Min { nan: false } | Binary::Max { nan: false }) => {
                pair
            }
            _ => return unsupported_type(),
        };
        let bitwise = matches!(
            op,
            Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr | Binary::Rem
        );
        if ty.is_float() {
            if op == Binary::Div {
                self.ignore(&["approx", "full"]);
            }
            if bitwise {
                return unsupported_type();
            }
        } else {
            let saturates = matches!(op, Binary::Add | Binary::Sub) && ty == Type::Signed(4);
            let known = Mode {
                saturate: mode.saturate && saturates,
                ..Mode::default()
            };
            if mode != known || op == Binary::CopySign {
                return Err("unsupported rounding, `.ftz` or `.sat` for this type".to_owned());
            }
        }
        let amount = match op {
            Binary::Shl | Binary::Shr => U32,
            _ => ty,
        };
        let (target, a, b) = (self.target()?, self.source(ty)?, self.source(amount)?);
        Ok(Action::Binary {
            op,
            ty,
            mode,
            target,
            a,
            b,
        })
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
        let (target, a, b) = (self.target()?, self.source(ty)?, self.source(ty)?);
        Ok(Action::Binary {
            op,
            ty,
            mode,
            target,
            a,
            b,
        })
    }

    fn multiply_add(&mut self, name: &str) -> Result<Action, String> {
        let relu = self.has("relu");
        let mode = self.mode();
        let ty = self.ty()?;
        if ty.is_float() {
            let op = if relu { Ternary::FmaRelu } else { Ternary::Fma };
            return self.ternary(op, ty, mode, ty);
        }
        if name != "mad" || relu || mode != Mode::default() {
            return unsupported_type();
        }
        let op = self.modifier("half", |name| match name {
            "lo" => Some(Ternary::MadLow),
            "hi" => Some(Ternary::MadHigh),
            "wide" => Some(Ternary::MadWide),
            _ => None,
        })?;
        let sum = match op {
            Ternary::MadWide if ty.bytes() == 8 => return unsupported_type(),
            Ternary::MadWide => ty.doubled(),
            _ => ty,
        };
        self.ternary(op, ty, mode, sum)
    }

    /// Decodes the operands of a ternary operation. The last one may have another type.
    fn ternary(&mut self, op: Ternary, ty: Type, mode: Mode, last: Type) -> Result<Action, String> {
        let (target, a, b) = (self.target()?, self.source(ty)?, self.source(ty)?);
        let c = self.source(last)?;
        Ok(Action::Ternary {
            op,
            ty,
            mode,
            target,
            a,
            b,
            c,
        })
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

    fn extract(&mut self) -> Result<Action, String> {
        let ty = self.integers()?;
        let (target, a) = (self.target()?, self.source(ty)?);
        Ok(Action::Ternary {
            op: Ternary::ExtractBits,
            ty,
            mode: Mode::default(),
            target,
            a,
            b: self.source(U32)?,
            c: self.source(U32)?,
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

    fn funnel(&mut self) -> Result<Action, String> {
        let left = self.modifier("direction", |name| match name {
            "l" => Some(true),
            "r" => Some(false),
            _ => None,
        })?;
        let clamp = self.modifier("end", |name| match name {
            "clamp" => Some(true),
            "wrap" => Some(false),
            _ => None,
        })?;
        let ty = self.integers()?;
        self.ternary(Ternary::Funnel { left, clamp }, ty, Mode::default(), U32)
    }

    fn permute(&mut self) -> Result<Action, String> {
        let ty = self.integers()?;
        let how = self.optional(|name| match name {
            "f4e" => Some(Permutation::Forward4),
            "b4e" => Some(Permutation::Backward4),
            "rc8" => Some(Permutation::Replicate8),
            "ecl" => Some(Permutation::ClampLeft),
            "ecr" => Some(Permutation::ClampRight),
            "rc16" => Some(Permutation::Replicate16),
            _ => None,
        });
        let op = Ternary::Permute(how.unwrap_or(Permutation::Each));
        self.ternary(op, ty, Mode::default(), U32)
    }

    fn logic(&mut self) -> Result<Action, String> {
        let ty = self.integers()?;
        let (target, a, b) = (self.target()?, self.source(ty)?, self.source(ty)?);
        let c = self.source(ty)?;
        let Source::Value(table) = self.source(U32)? else {
            return Err("the lookup table must be a number".to_owned());
        };
        Ok(Action::Ternary {
            op: Ternary::Logic(table as u8),
            ty,
            mode: Mode::default(),
            target,
            a,
            b,
            c,
        })
    }
}

fn unary_op(name: &str) -> Option<Unary> {
    Some(match name {
        "abs" => Unary::Abs,
        "neg" => Unary::Neg,
        "not" => Unary::Not,
        "cnot" => Unary::LogicNot,
        "sqrt" => Unary::Sqrt,
        "rsqrt" => Unary::Rsqrt,
        "rcp" => Unary::Rcp,
        "ex2" => Unary::Ex2,
        "lg2" => Unary::Lg2,
        "sin" => Unary::Sin,
        "cos" => Unary::Cos,
        "tanh" => Unary::Tanh,
        "popc" => Unary::Popc,
        "clz" => Unary::Clz,
        "brev" => Unary::Reverse,
        "bfind" => Unary::HighestBit(false),
        _ => return None,
    })
}

fn binary_op(name: &str) -> Option<Binary> {
    Some(match name {
        "add" => Binary::Add,
        "sub" => Binary::Sub,
        "div" => Binary::Div,
        "rem" => Binary::Rem,
        "min" => Binary::Min { nan: false },
        "max" => Binary::Max { nan: false },
        "and" => Binary::And,
        "or" => Binary::Or,
        "xor" => Binary::Xor,
        "shl" => Binary::Shl,
        "shr" => Binary::Shr,
        "copysign" => Binary::CopySign,
        _ => return None,
    })
}

/// Returns the format of a float type.
pub(super) fn float(ty: Type) -> Result<Format, String> {
    match ty {
        Type::Float(format) => Ok(format),
        _ => unsupported_type(),
    }
}
