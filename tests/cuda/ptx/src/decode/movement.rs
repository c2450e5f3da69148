//! Decodes data movement, comparisons and conversions.

use super::arithmetic::float;
use crate::instruction::{Action, Binary, Compare, Comparison, Source, Space, TestFloat, Type};
use crate::number::{Format, Mode, Rounding};
use crate::operands::Statement;
use crate::windows;

impl Statement<'_, '_> {
    /// Decodes such an instruction, or returns `None` for any other.
    pub(super) fn movement(&mut self, name: &str) -> Result<Option<Action>, String> {
        let action = match name {
            "mov" => self.copy(),
            "cvta" => self.window(),
            "isspacep" => {
                let space = self.space();
                let (target, a) = (self.target()?, self.source(Type::Bits(8))?);
                Ok(Action::IsSpace { space, target, a })
            }
            "setp" => self.compare(true),
            "set" => self.compare(false),
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
            "testp" => self.test(),
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
        let (target, from) = (self.target()?, self.source(ty)?);
        Ok(Action::Move { ty, target, from })
    }

    /// Returns the number of parts of an operand in braces.
    fn parts(&self, operand: usize) -> Result<u8, String> {
        let words = self.operands.get(operand).copied().unwrap_or_default();
        match words.iter().filter(|word| **word == ",").count() {
            1 => Ok(2),
            3 => Ok(4),
            _ => Err("expected two or four parts".to_owned()),
        }
    }

    /// Decodes a conversion between a generic address and one of a space.
    fn window(&mut self) -> Result<Action, String> {
        let back = self.has("to");
        let space = self.space();
        let ty = self.ty()?;
        let (target, a) = (self.target()?, self.source(ty)?);
        let start = match space {
            Space::Global => 0,
            Space::Shared => windows::SHARED,
            Space::Local => windows::LOCAL,
            Space::Parameter if !self.scope.in_function => windows::PARAMETERS,
            _ => return Err("unsupported space".to_owned()),
        };
        Ok(Action::Binary {
            op: if back { Binary::Sub } else { Binary::Add },
            ty,
            mode: Mode::default(),
            target,
            a,
            b: Source::Value(start),
        })
    }

    fn compare(&mut self, to_predicate: bool) -> Result<Action, String> {
        let flush = self.has("ftz");
        let truth = match to_predicate {
            true => 1,
            false => match self.ty()? {
                Type::Float(Format::F32) => Format::F32.one(),
                ty if ty.bytes() == 4 && !ty.is_float() => u64::from(u32::MAX),
                _ => return Err("unsupported type".to_owned()),
            },
        };
        let ty = self.ty()?;
        let float = ty.is_float();
        if flush && ty != Type::Float(Format::F32) {
            return Err("`.ftz` is not supported for this type".to_owned());
        }
        let with = self.optional(|name| match name {
            "and" => Some(Binary::And),
            "or" => Some(Binary::Or),
            "xor" => Some(Binary::Xor),
            _ => None,
        });
        let how = self.modifier("comparison", |name| comparison(name, float))?;
        let [target, opposite] = match to_predicate {
            true => self.two_targets()?,
            false => [Some(self.target()?), None],
        };
        let target = target.ok_or("the target is missing")?;
        let (a, b) = (self.source(ty)?, self.source(ty)?);
        let with = match with {
            Some(op) => {
                let (predicate, negated) = self.predicate()?;
                Some((op, predicate, negated))
            }
            None => None,
        };
        Ok(Action::Compare(Box::new(Compare {
            how,
            ty,
            flush,
            a,
            b,
            with,
            target,
            opposite,
            truth,
        })))
    }

    fn test(&mut self) -> Result<Action, String> {
        let how = self.modifier("test", |name| {
            Some(match name {
                "finite" => TestFloat::Finite,
                "infinite" => TestFloat::Infinite,
                "number" => TestFloat::Number,
                "notanumber" => TestFloat::NotANumber,
                "normal" => TestFloat::Normal,
                "subnormal" => TestFloat::Subnormal,
                _ => return None,
            })
        })?;
        let ty = self.ty()?;
        float(ty)?;
        let (target, a) = (self.target()?, self.source(ty)?);
        Ok(Action::Test { how, ty, target, a })
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
            .any(|name| matches!(*name, "rn" | "rz" | "rm" | "rp" | "rna"));
        let relu = self.has("relu");
        let mut mode = self.mode();
        let (to, from) = (self.ty()?, self.ty()?);
        if let Type::Pair(to) = to {
            if from != Type::Float(Format::F32) || integral.is_some() || !rounded || mode.saturate {
                return Err("unsupported types".to_owned());
            }
            let (target, a, b) = (self.target()?, self.source(from)?, self.source(from)?);
            return Ok(Action::ConvertPair {
                to,
                mode,
                relu,
                target,
                a,
                b,
            });
        }
        // A conversion has a rounding modifier exactly if the result may need rounding.
        let fits = match (to, from) {
            (Type::Pair(_), _) | (_, Type::Pair(_)) => false,
            (Type::Float(to), Type::Float(from)) if to == from => !rounded,
            (Type::Float(Format::F16), Type::Float(Format::Bf16)) => false,
            (Type::Float(Format::Bf16), Type::Float(Format::F16)) => false,
            (Type::Float(Format::Tf32), Type::Float(from)) => from == Format::F32 && rounded,
            (_, Type::Float(Format::Tf32)) => false,
            (Type::Float(to), Type::Float(from)) => (to.bytes() < from.bytes()) == rounded,
            (Type::Float(_), _) => rounded && integral.is_none(),
            (_, Type::Float(_)) => integral.is_some() && !rounded,
            _ => integral.is_none() && !rounded && !mode.flush,
        };
        if !fits || (relu && !to.is_float()) {
            return Err(format!(
                "unsupported rounding for a conversion from {from:?} to {to:?}"
            ));
        }
        if let Some(rounding) = integral {
            mode.rounding = rounding;
            mode.integral = true;
        }
        let (target, a) = (self.target()?, self.source(from)?);
        Ok(Action::Convert {
            to,
            from,
            mode,
            relu,
            target,
            a,
        })
    }
}

fn comparison(name: &str, float: bool) -> Option<Comparison> {
    Some(match name {
        "eq" => Comparison::Equal,
        "ne" => Comparison::NotEqual,
        "lt" => Comparison::Less,
        "le" => Comparison::LessOrEqual,
        "gt" => Comparison::Greater,
        "ge" => Comparison::GreaterOrEqual,
        "lo" if !float => Comparison::Less,
        "ls" if !float => Comparison::LessOrEqual,
        "hi" if !float => Comparison::Greater,
        "hs" if !float => Comparison::GreaterOrEqual,
        "equ" if float => Comparison::EqualOrNan,
        "neu" if float => Comparison::NotEqualOrNan,
        "ltu" if float => Comparison::LessOrNan,
        "leu" if float => Comparison::LessOrEqualOrNan,
        "gtu" if float => Comparison::GreaterOrNan,
        "geu" if float => Comparison::GreaterOrEqualOrNan,
        "num" if float => Comparison::BothNumbers,
        "nan" if float => Comparison::OneNan,
        _ => return None,
    })
}
