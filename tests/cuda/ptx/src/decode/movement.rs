//! Decodes data movement, comparisons and conversions.

use crate::instruction::{Action, Binary, Comparison, Compute, Source, Space, Type};
use crate::number::{Format, Mode, Rounding};
use crate::operands::Statement;
use crate::windows;

impl Statement<'_, '_> {
    /// Decodes such an instruction, or returns `None` for any other.
    pub(super) fn movement(&mut self, name: &str) -> Result<Option<Action>, String> {
        let action = match name {
            "mov" => self.copy(),
            "cvta" => self.window(),
            "setp" => self.compare(),
            "selp" => {
                let ty = self.ty()?;
                let types = [ty, ty, Type::Predicate];
                self.compute(Compute::Select, ty, Mode::default(), &types)
            }
            "cvt" => self.convert(),
            _ => return Ok(None),
        };
        action.map(Some)
    }

    fn copy(&mut self) -> Result<Action, String> {
        let ty = self.ty()?;
        let braced = |words: Option<&&[&str]>| words.is_some_and(|words| words[0] == "{");
        if braced(self.operands.first()) {
            let part = Type::Bits(ty.bytes() / self.parts(0)?);
            let targets = self.vector_targets(part)?;
            let bytes = part.bytes();
            let from = self.source(ty)?;
            return Ok(Action::Unpack {
                bytes,
                targets,
                from,
            });
        }
        if braced(self.operands.get(1)) {
            let part = Type::Bits(ty.bytes() / self.parts(1)?);
            let target = self.target()?;
            let parts = self
                .vector_operand(part)?
                .into_iter()
                .collect::<Option<Vec<_>>>();
            let parts = parts.ok_or("a part is missing")?.into();
            let bytes = part.bytes();
            return Ok(Action::Pack {
                bytes,
                target,
                parts,
            });
        }
        self.compute(Compute::Move, ty, Mode::default(), &[ty])
    }

    /// Returns the number of parts of an operand in braces.
    fn parts(&self, operand: usize) -> Result<u8, String> {
        let words = self.operands.get(operand).copied().unwrap_or_default();
        match words.iter().filter(|word| **word == ",").count() {
            1 => Ok(2),
            _ => Err("expected two parts".to_owned()),
        }
    }

    /// Decodes a conversion between a generic address and one of a space.
    fn window(&mut self) -> Result<Action, String> {
        let back = self.has("to");
        let space = self.space();
        let ty = self.ty()?;
        let start = match space {
            Space::Global => 0,
            Space::Shared => windows::SHARED,
            Space::Local => windows::LOCAL,
            Space::Parameter if !self.scope.in_function => windows::PARAMETERS,
            _ => return Err("unsupported space".to_owned()),
        };
        let op = if back { Binary::Sub } else { Binary::Add };
        let (target, a) = (self.target()?, self.source(ty)?);
        Ok(Action::Compute {
            op: Compute::Binary(op),
            ty,
            mode: Mode::default(),
            target,
            operands: [a, Source::Value(start), Source::Value(0)],
        })
    }

    fn compare(&mut self) -> Result<Action, String> {
        let ty = self.ty()?;
        let float = ty.is_float();
        let how = self.modifier("comparison", |name| comparison(name, float))?;
        self.compute(Compute::Compare(how), ty, Mode::default(), &[ty, ty])
    }

    fn convert(&mut self) -> Result<Action, String> {
        let integral = self.optional(|name| match name {
            "rni" => Some(Rounding::Nearest),
            "rzi" => Some(Rounding::Zero),
            "rmi" => Some(Rounding::Down),
            "rpi" => Some(Rounding::Up),
            _ => None,
        });
        let rounded = self
            .modifiers
            .iter()
            .any(|name| matches!(*name, "rn" | "rz" | "rm" | "rp"));
        let mut mode = self.mode();
        let (to, from) = (self.ty()?, self.ty()?);
        // A conversion has a rounding modifier exactly if the result may need rounding.
        let fits = match (to, from) {
            (Type::Float(to), Type::Float(from)) if to == from => !rounded,
            (Type::Float(Format::F16), Type::Float(Format::Bf16)) => false,
            (Type::Float(Format::Bf16), Type::Float(Format::F16)) => false,
            (Type::Float(to), Type::Float(from)) => (to.bytes() < from.bytes()) == rounded,
            (Type::Float(_), _) => rounded && integral.is_none(),
            (_, Type::Float(_)) => integral.is_some() && !rounded,
            _ => integral.is_none() && !rounded,
        };
        let saturates = mode.saturate && !(from.is_float() && to.is_float());
        if !fits || mode.flush || saturates {
            return Err(format!(
                "unsupported rounding for a conversion from {from:?} to {to:?}"
            ));
        }
        if let Some(rounding) = integral {
            mode.rounding = rounding;
            mode.integral = true;
        }
        self.compute(Compute::Convert(to), from, mode, &[from])
    }
}

fn comparison(name: &str, float: bool) -> Option<Comparison> {
    const LESS: u8 = Comparison::LESS;
    const EQUAL: u8 = Comparison::EQUAL;
    const GREATER: u8 = Comparison::GREATER;
    const ORDERED: u8 = LESS | EQUAL | GREATER;
    const UNORDERED: u8 = Comparison::UNORDERED;
    let (ordered, or_nan) = match name.strip_suffix('u').filter(|_| float) {
        Some(ordered) => (ordered, UNORDERED),
        None => (name, 0),
    };
    let orders = match ordered {
        "eq" => EQUAL,
        "ne" => LESS | GREATER,
        "lt" => LESS,
        "le" => LESS | EQUAL,
        "gt" => GREATER,
        "ge" => GREATER | EQUAL,
        "lo" if !float => LESS,
        "ls" if !float => LESS | EQUAL,
        "hi" if !float => GREATER,
        "hs" if !float => GREATER | EQUAL,
        "num" if float && or_nan == 0 => ORDERED,
        "nan" if float && or_nan == 0 => UNORDERED,
        _ => return None,
    };
    Some(Comparison(orders | or_nan))
}
