//! One statement into an instruction. Whatever is not known is an error: a modifier that were passed over would be a
//! wrong result.

use crate::ptx::instruction::{
    Action, Atomic, Binary, Comparison, Rounding, Source, Space, Ternary, Type, Unary,
};
use crate::ptx::operands::{Scope, Statement, separated};
use crate::ptx::run::SHARED_WINDOW;

/// Reads a statement; `operands` are its words without the last `;`.
pub(super) fn decode(scope: &Scope, opcode: &str, operands: &[&str]) -> Result<Action, String> {
    let mut parts = opcode.split('.');
    let name = parts.next().unwrap_or_default();
    let mut statement = Statement {
        scope,
        modifiers: parts.collect(),
        operands: separated(operands),
        next: 0,
    };
    let action = statement.action(name)?;
    if statement.next != statement.operands.len() {
        return Err(format!(
            "{} operands, not {}",
            statement.next,
            statement.operands.len()
        ));
    }
    match statement.modifiers.first() {
        Some(unknown) => Err(format!("the modifier `.{unknown}` is not known")),
        None => Ok(action),
    }
}

impl Statement<'_, '_> {
    fn action(&mut self, name: &str) -> Result<Action, String> {
        if let Some(op) = unary_named(name) {
            return self.unary(op);
        }
        if let Some(op) = binary_named(name) {
            return self.binary(op);
        }
        match name {
            "ld" | "ldu" => self.load(),
            "st" => self.store(),
            "mov" => {
                let ty = self.ty()?;
                let (target, from) = (self.target()?, self.source(ty)?);
                Ok(Action::Move { ty, target, from })
            }
            "cvta" => self.window(),
            "mul" => self.multiply(),
            "mad" | "fma" => self.multiply_add(name),
            "setp" => self.compare(),
            "selp" => {
                let ty = self.ty()?;
                let (target, a, b) = (self.target()?, self.source(ty)?, self.source(ty)?);
                let which = self.source(Type::Predicate)?;
                Ok(Action::Select {
                    ty,
                    target,
                    a,
                    b,
                    which,
                })
            }
            "cvt" => self.convert(),
            "atom" => self.atomic(true),
            "red" => self.atomic(false),
            "bar" | "barrier" => self.barrier(),
            "ret" | "exit" => {
                self.pass(&["uni"]);
                Ok(Action::Exit)
            }
            _ => Err("the fake does not know this instruction".to_owned()),
        }
    }

    fn load(&mut self) -> Result<Action, String> {
        let space = self.space();
        self.pass(&["nc", "ca", "cg", "cs", "lu", "cv", "volatile", "weak"]);
        let count = self.vector();
        let ty = self.ty()?;
        let targets: Vec<_> = self.several(ty)?;
        let registers = targets.iter().map(|target| match target {
            Source::Register(register) => Ok(*register),
            _ => Err("what is loaded goes to registers".to_owned()),
        });
        let targets = registers.collect::<Result<Vec<_>, _>>()?;
        let from = self.address()?;
        match targets.len() == count {
            true => Ok(Action::Load {
                space,
                ty,
                targets,
                from,
            }),
            false => Err("another number of registers than its vector has".to_owned()),
        }
    }

    fn store(&mut self) -> Result<Action, String> {
        let space = self.space();
        self.pass(&["wb", "cg", "cs", "wt", "volatile", "weak"]);
        let count = self.vector();
        let ty = self.ty()?;
        let (to, values) = (self.address()?, self.several(ty)?);
        match values.len() == count && space != Space::Parameter {
            true => Ok(Action::Store {
                space,
                ty,
                values,
                to,
            }),
            false => Err("parameters, or another number of values than its vector has".to_owned()),
        }
    }

    fn vector(&mut self) -> usize {
        if self.has("v2") {
            2
        } else if self.has("v4") {
            4
        } else {
            1
        }
    }

    /// Between a generic address and one of a space.
    fn window(&mut self) -> Result<Action, String> {
        let back = self.has("to");
        let space = self.space();
        let ty = self.ty()?;
        let (target, a) = (self.target()?, self.source(ty)?);
        let b = Source::Value(SHARED_WINDOW);
        match (space, back) {
            (Space::Global, _) => Ok(Action::Move {
                ty,
                target,
                from: a,
            }),
            (Space::Shared, true) => Ok(Action::Binary {
                op: Binary::Sub,
                ty,
                target,
                a,
                b,
            }),
            (Space::Shared, false) => Ok(Action::Binary {
                op: Binary::Add,
                ty,
                target,
                a,
                b,
            }),
            _ => Err("of this space".to_owned()),
        }
    }

    fn unary(&mut self, op: Unary) -> Result<Action, String> {
        // Of floats: computed exactly where the hardware may be off by a little.
        self.pass(&["rn", "approx"]);
        let ty = self.ty()?;
        let of_floats = !matches!(
            op,
            Unary::Abs | Unary::Neg | Unary::Not | Unary::Popc | Unary::Clz
        );
        let of_integers = matches!(op, Unary::Not | Unary::Popc | Unary::Clz);
        if (of_floats && !ty.is_float()) || (of_integers && ty.is_float()) {
            return Err("of this type".to_owned());
        }
        let (target, a) = (self.target()?, self.source(ty)?);
        Ok(Action::Unary { op, ty, target, a })
    }

    fn binary(&mut self, op: Binary) -> Result<Action, String> {
        let bitwise = matches!(
            op,
            Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr | Binary::Rem
        );
        let ty = self.ty()?;
        if ty.is_float() {
            self.pass(&["rn"]);
            if op == Binary::Div {
                self.pass(&["approx", "full"]);
            }
        }
        if ty.is_float() && bitwise {
            return Err("of this type".to_owned());
        }
        let amount = match op {
            Binary::Shl | Binary::Shr => Type::Unsigned(4),
            _ => ty,
        };
        let (target, a, b) = (self.target()?, self.source(ty)?, self.source(amount)?);
        Ok(Action::Binary {
            op,
            ty,
            target,
            a,
            b,
        })
    }

    fn multiply(&mut self) -> Result<Action, String> {
        let ty = self.ty()?;
        let op = if ty.is_float() {
            self.pass(&["rn"]);
            Binary::MulLow
        } else {
            self.modifier("half", |name| match name {
                "lo" => Some(Binary::MulLow),
                "hi" => Some(Binary::MulHigh),
                "wide" => Some(Binary::MulWide),
                _ => None,
            })?
        };
        if op == Binary::MulWide && ty.bytes() == 8 {
            return Err("of this type".to_owned());
        }
        let (target, a, b) = (self.target()?, self.source(ty)?, self.source(ty)?);
        Ok(Action::Binary {
            op,
            ty,
            target,
            a,
            b,
        })
    }

    fn multiply_add(&mut self, name: &str) -> Result<Action, String> {
        let ty = self.ty()?;
        let op = if ty.is_float() {
            if !self.has("rn") {
                return Err("only rounding `.rn` is known".to_owned());
            }
            Ternary::Fma
        } else if name == "mad" {
            self.modifier("half", |name| match name {
                "lo" => Some(Ternary::MadLow),
                "hi" => Some(Ternary::MadHigh),
                "wide" => Some(Ternary::MadWide),
                _ => None,
            })?
        } else {
            return Err("of this type".to_owned());
        };
        let sum = match op {
            Ternary::MadWide if ty.bytes() == 8 => return Err("of this type".to_owned()),
            Ternary::MadWide => ty.doubled(),
            _ => ty,
        };
        let (target, a, b) = (self.target()?, self.source(ty)?, self.source(ty)?);
        let c = self.source(sum)?;
        Ok(Action::Ternary {
            op,
            ty,
            target,
            a,
            b,
            c,
        })
    }

    fn compare(&mut self) -> Result<Action, String> {
        let ty = self.ty()?;
        let float = ty.is_float();
        let how = self.modifier("comparison", |name| match name {
            "eq" => Some(Comparison::Equal),
            "ne" => Some(Comparison::NotEqual),
            "lt" => Some(Comparison::Less),
            "le" => Some(Comparison::LessOrEqual),
            "gt" => Some(Comparison::Greater),
            "ge" => Some(Comparison::GreaterOrEqual),
            "lo" if !float => Some(Comparison::Less),
            "ls" if !float => Some(Comparison::LessOrEqual),
            "hi" if !float => Some(Comparison::Greater),
            "hs" if !float => Some(Comparison::GreaterOrEqual),
            "neu" if float => Some(Comparison::NotEqualOrNan),
            _ => None,
        })?;
        let (target, a, b) = (self.target()?, self.source(ty)?, self.source(ty)?);
        Ok(Action::Compare {
            how,
            ty,
            target,
            a,
            b,
        })
    }

    fn convert(&mut self) -> Result<Action, String> {
        let (to, from) = (self.ty()?, self.ty()?);
        let rounding = self.modifier("rounding", |name| match name {
            "rn" | "rni" => Some(Rounding::Nearest),
            "rz" | "rzi" => Some(Rounding::Zero),
            "rm" | "rmi" => Some(Rounding::Down),
            "rp" | "rpi" => Some(Rounding::Up),
            _ => None,
        });
        // What makes a float, and may not be exact, is rounded to the nearest by us.
        let narrows = to.is_float() && (to.bytes() < from.bytes() || !from.is_float());
        let rounding = match rounding {
            Ok(rounding) if narrows && rounding != Rounding::Nearest => {
                return Err("only `.rn` is known".to_owned());
            }
            Ok(rounding) => rounding,
            Err(_) if from.is_float() && !to.is_float() => return Err("no rounding".to_owned()),
            Err(_) if from == to && to.is_float() => return Err("no rounding".to_owned()),
            Err(_) => Rounding::Nearest,
        };
        let (target, a) = (self.target()?, self.source(from)?);
        Ok(Action::Convert {
            to,
            from,
            rounding,
            target,
            a,
        })
    }

    fn atomic(&mut self, answers: bool) -> Result<Action, String> {
        let space = self.space();
        // One operation runs at a time, so that every order and scope is kept.
        self.pass(&[
            "relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys",
        ]);
        let ty = self.ty()?;
        let op = self.modifier("operation", |name| match name {
            "exch" => Some(Atomic::Exchange),
            "cas" => Some(Atomic::CompareAndSwap),
            "add" => Some(Atomic::Compute(Binary::Add)),
            "min" => Some(Atomic::Compute(Binary::Min)),
            "max" => Some(Atomic::Compute(Binary::Max)),
            "and" => Some(Atomic::Compute(Binary::And)),
            "or" => Some(Atomic::Compute(Binary::Or)),
            "xor" => Some(Atomic::Compute(Binary::Xor)),
            _ => None,
        })?;
        let target = match answers {
            true => Some(self.target()?),
            false => None,
        };
        let (at, a) = (self.address()?, self.source(ty)?);
        let b = match op {
            Atomic::CompareAndSwap => self.source(ty)?,
            _ => Source::Value(0),
        };
        Ok(Action::Atomic {
            op,
            space,
            ty,
            target,
            at,
            a,
            b,
        })
    }

    fn barrier(&mut self) -> Result<Action, String> {
        self.pass(&["cta", "aligned"]);
        match (self.has("sync"), self.operand()?[..].concat().as_str()) {
            (true, "0") => Ok(Action::Barrier),
            _ => Err("only barrier 0 of all threads is known".to_owned()),
        }
    }
}

fn unary_named(name: &str) -> Option<Unary> {
    Some(match name {
        "abs" => Unary::Abs,
        "neg" => Unary::Neg,
        "not" => Unary::Not,
        "sqrt" => Unary::Sqrt,
        "rsqrt" => Unary::Rsqrt,
        "rcp" => Unary::Rcp,
        "ex2" => Unary::Ex2,
        "lg2" => Unary::Lg2,
        "sin" => Unary::Sin,
        "cos" => Unary::Cos,
        "popc" => Unary::Popc,
        "clz" => Unary::Clz,
        _ => return None,
    })
}

fn binary_named(name: &str) -> Option<Binary> {
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
        _ => return None,
    })
}
