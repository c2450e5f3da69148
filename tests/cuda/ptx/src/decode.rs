//! Decodes a statement to an instruction. Everything unknown is an error: ignoring a modifier would give a wrong
//! result.

use crate::instruction::{Access, Action, Collective, Reduction, Shuffle, Source, Space};
use crate::number::{Mode, Rounding};
use crate::operands::{Scope, Statement, split_operands};
use crate::table::{
    ATOMICS, Carrying, Context, EQUAL, Function, GREATER, LESS, Modifiers, Operand, ROWS, Types,
    UNORDERED, add, add_carrying, compare, convert, high_carrying, low_carrying, pack, subtract,
    subtract_carrying,
};
use crate::types::{Format, Type};
use crate::{Kind, windows};

const U32: Type = Type::Unsigned(4);
const B32: Type = Type::Bits(4);
/// Scopes of visibility. Here everything is visible to all threads.
const SCOPES: [&str; 3] = ["cta", "gpu", "sys"];

/// Decodes a statement. `operands` are its tokens without the final `;`.
pub(super) fn decode(scope: &Scope, opcode: &str, operands: &[&str]) -> Result<Action, String> {
    let mut parts = opcode.split('.');
    let name = parts.next().unwrap_or_default();
    let mut statement = Statement {
        scope,
        modifiers: parts.collect(),
        operands: split_operands(operands),
        next: 0,
    };
    let action = statement.action(name)?;
    let (expected, got) = (statement.next, statement.operands.len());
    if expected != got {
        return Err(format!("expected {expected} operands, got {got}"));
    }
    match statement.modifiers.first() {
        Some(unknown) => Err(format!("unsupported modifier `.{unknown}`")),
        None => Ok(action),
    }
}

impl Statement<'_, '_> {
    fn action(&mut self, name: &str) -> Result<Action, String> {
        match name {
            "mov" if self.is_braced(0) => self.unpack(),
            "mov" if self.is_braced(1) => self.pack(),
            "add" | "sub" | "mad" if self.modifiers.contains(&"cc") => self.carrying(name),
            "addc" | "subc" | "madc" => self.carrying(name),
            "cvta" => self.window(),
            "setp" => self.compare(),
            "cvt" => self.convert(),
            "ld" | "st" | "atom" | "red" => self.access(name),
            "bar" | "barrier" => self.barrier(),
            "shfl" => self.shuffle(),
            "redux" => self.reduction(),
            "ret" => {
                self.ignore(&["uni"]);
                Ok(match self.scope.in_function {
                    true => Action::Return,
                    false => Action::Exit,
                })
            }
            "exit" => Ok(Action::Exit),
            "trap" => Ok(Action::Trap),
            _ => self.row(name),
        }
    }

    /// Decodes an instruction of the table.
    fn row(&mut self, name: &str) -> Result<Action, String> {
        const HALVES: [&str; 3] = ["lo", "hi", "wide"];
        let half = match name {
            "mul" | "mad" => self.optional(|half| HALVES.into_iter().find(|of| *of == half)),
            _ => None,
        };
        let mut full = half.map_or(name.to_owned(), |half| format!("{name}.{half}"));
        if name == "shf" {
            for parts in [["l", "r"], ["wrap", "clamp"]] {
                let part = self.optional(|part| parts.into_iter().find(|of| *of == part));
                full = format!("{full}.{}", part.ok_or("unsupported instruction")?);
            }
        }
        let row = ROWS.iter().find(|row| row.name == full);
        let row = row.ok_or("unsupported instruction")?;
        let mut of = Context::plain(self.ty()?);
        let is_float = of.ty.is_float();
        let fits = match row.types {
            Types::All => true,
            Types::Integers => !is_float,
            Types::Floats => is_float,
        };
        if is_float && row.modifiers != Modifiers::None {
            of.mode = self.mode();
            if row.modifiers == Modifiers::Approximate {
                self.ignore(&["approx", "full"]);
            }
        }
        let is_directed_root = name == "sqrt" && of.mode.rounding != Rounding::Nearest;
        if !fits || is_directed_root || (half == Some("wide") && of.ty.bytes() == 8) {
            return Err("unsupported type".to_owned());
        }
        of.divides = matches!(name, "div" | "rem") && !is_float;
        let types = row.operands.iter().map(|operand| match operand {
            Operand::Same => of.ty,
            Operand::Double => of.ty.doubled(),
            Operand::Word => U32,
            Operand::Predicate => Type::Predicate,
        });
        self.computation(row.function, of, types)
    }

    /// Reads a target, and operands of these types.
    fn computation(
        &mut self,
        function: Function,
        of: Context,
        types: impl IntoIterator<Item = Type>,
    ) -> Result<Action, String> {
        let target = self.target()?;
        let mut operands = [Source::Value(0); 4];
        for (operand, ty) in operands.iter_mut().zip(types) {
            *operand = self.source(ty)?;
        }
        Ok(Action::Compute {
            function,
            of,
            target,
            operands,
        })
    }

    fn is_braced(&self, operand: usize) -> bool {
        let words = self.operands.get(operand);
        words.is_some_and(|words| words[0] == "{")
    }

    /// Returns the type of the parts of a value.
    fn half(&mut self) -> Result<(Type, Type), String> {
        let ty = self.ty()?;
        Ok((ty, Type::Bits(ty.bytes() / 2)))
    }

    fn unpack(&mut self) -> Result<Action, String> {
        let (ty, part) = self.half()?;
        let targets = self.vector_targets(2, part)?;
        Ok(Action::Unpack {
            bytes: part.bytes(),
            targets,
            from: self.source(ty)?,
        })
    }

    fn pack(&mut self) -> Result<Action, String> {
        let (_, part) = self.half()?;
        let target = self.target()?;
        let values = self.vector_values(2, part)?;
        let none = Source::Value(0);
        Ok(Action::Compute {
            function: pack,
            of: Context::plain(part),
            target,
            operands: [values[0], values[1], none, none],
        })
    }

    /// Decodes a conversion between a generic address and one of a space.
    fn window(&mut self) -> Result<Action, String> {
        let back = self.has("to");
        let start = match self.space() {
            Space::Global => 0,
            Space::Shared => windows::SHARED,
            Space::Local => windows::LOCAL,
            Space::Parameter if !self.scope.in_function => windows::PARAMETERS,
            _ => return Err("unsupported space".to_owned()),
        };
        let ty = self.ty()?;
        let function = if back { subtract } else { add };
        let mut action = self.computation(function, Context::plain(ty), [ty])?;
        if let Action::Compute { operands, .. } = &mut action {
            operands[1] = Source::Value(start);
        }
        Ok(action)
    }

    fn compare(&mut self) -> Result<Action, String> {
        let mut of = Context::plain(self.ty()?);
        let is_float = of.ty.is_float();
        of.orders = self.modifier("comparison", |name| orders(name, is_float))?;
        self.computation(compare, of, [of.ty; 2])
    }

    fn convert(&mut self) -> Result<Action, String> {
        let integral = self.optional(|name| match name {
            "rni" => Some(Rounding::Nearest),
            "rzi" => Some(Rounding::Zero),
            "rmi" => Some(Rounding::Down),
            "rpi" => Some(Rounding::Up),
            _ => None,
        });
        let is_rounding = |name: &&str| matches!(*name, "rn" | "rz" | "rm" | "rp");
        let rounded = self.modifiers.iter().any(is_rounding);
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
            mode = Mode {
                rounding,
                integral: true,
                ..mode
            };
        }
        let of = Context::plain(from);
        self.computation(convert, Context { to, mode, ..of }, [from])
    }

    fn carrying(&mut self, name: &str) -> Result<Action, String> {
        let carry_out = self.has("cc");
        let (function, count): (Carrying, _) = match name {
            "add" | "addc" => (add_carrying, 2),
            "sub" | "subc" => (subtract_carrying, 2),
            _ if self.has("lo") => (low_carrying, 3),
            _ if self.has("hi") => (high_carrying, 3),
            _ => return Err("expected `.lo` or `.hi`".to_owned()),
        };
        let (ty, target) = (self.ty()?, self.target()?);
        if ty.is_float() {
            return Err("unsupported type".to_owned());
        }
        let mut operands = [Source::Value(0); 3];
        for operand in &mut operands[..count] {
            *operand = self.source(ty)?;
        }
        Ok(Action::Carrying {
            function,
            ty,
            carry_in: name.ends_with('c'),
            carry_out,
            target,
            operands,
        })
    }

    /// Decodes an access to memory.
    fn access(&mut self, name: &str) -> Result<Action, String> {
        let kind = match name {
            "ld" => Kind::Read,
            // Relaxed, and as whole.
            "st" if self.has("volatile") => Kind::Atomic,
            "st" => Kind::Write,
            _ => Kind::Atomic,
        };
        if kind == Kind::Write && self.modifiers.contains(&"const") {
            return Err("constants cannot be written".to_owned());
        }
        let space = self.space();
        let (mut count, mut operands) = (1, 1);
        let mut update: Function = |_, [before, ..]| before;
        match kind {
            // Operations run one at a time, so every scope is satisfied.
            Kind::Atomic => {
                self.ignore(&SCOPES);
                let of = |name: &str| ATOMICS.iter().find(|(of, ..)| *of == name);
                let found = match name {
                    "st" => of("exch").ok_or("it exchanges nothing")?,
                    _ => self.modifier("atomic operation", of)?,
                };
                (_, operands, update) = *found;
            }
            _ => {
                let counts = [("v2", 2), ("v4", 4)];
                let found = counts.into_iter().find(|(name, _)| self.has(name));
                count = found.map_or(1, |(_, count)| count);
            }
        }
        if kind == Kind::Read {
            // Cached and uncached loads are the same here.
            self.ignore(&["volatile", "nc"]);
        }
        let ty = self.ty()?;
        let targets = match name {
            "ld" | "atom" => self.vector_targets(count, ty)?,
            _ => Box::default(),
        };
        let (space, at) = self.address(space)?;
        let values = match kind {
            Kind::Read => Box::default(),
            Kind::Write => self.vector_values(count, ty)?,
            Kind::Atomic => (0..operands)
                .map(|_| self.source(ty))
                .collect::<Result<_, _>>()?,
        };
        if kind != Kind::Read && space == Space::Parameter {
            return Err("parameters cannot be written".to_owned());
        }
        Ok(Action::Access(Access {
            kind,
            space,
            ty,
            at,
            targets,
            values,
            update,
        }))
    }

    fn barrier(&mut self) -> Result<Action, String> {
        let of_warp = self.has("warp");
        self.require("sync")?;
        let operand = self.source(B32)?;
        match (of_warp, self.next == self.operands.len()) {
            (true, _) => Ok(Action::Collective {
                collective: Collective::Barrier,
                lanes: operand,
            }),
            (false, true) => Ok(Action::Barrier(operand)),
            (false, false) => Err("only barriers of all threads are supported".to_owned()),
        }
    }

    fn shuffle(&mut self) -> Result<Action, String> {
        self.require("sync")?;
        self.require("b32")?;
        let how = self.modifier("shuffle mode", |name| match name {
            "bfly" => Some(Shuffle::Xor),
            "down" => Some(Shuffle::Down),
            "idx" => Some(Shuffle::Index),
            "up" => Some(Shuffle::Up),
            _ => None,
        })?;
        let [target, valid] = self.two_targets()?;
        let collective = Collective::Shuffle {
            how,
            target: target.ok_or("the target is missing")?,
            valid,
            operands: [self.source(B32)?, self.source(B32)?, self.source(B32)?],
        };
        let lanes = self.source(B32)?;
        Ok(Action::Collective { collective, lanes })
    }

    fn reduction(&mut self) -> Result<Action, String> {
        self.require("sync")?;
        let by = self.modifier("reduction", |name| match name {
            "add" => Some(Reduction::Add),
            "min" => Some(Reduction::Min),
            "max" => Some(Reduction::Max),
            _ => None,
        })?;
        let is_signed = self.modifier("type of a reduction", |name| match name {
            "s32" => Some(true),
            "u32" => Some(false),
            _ => None,
        })?;
        let collective = Collective::Reduce {
            by,
            is_signed,
            target: self.target()?,
            operand: self.source(B32)?,
        };
        let lanes = self.source(B32)?;
        Ok(Action::Collective { collective, lanes })
    }

    fn require(&mut self, name: &str) -> Result<(), String> {
        match self.has(name) {
            true => Ok(()),
            false => Err(format!("expected the modifier `.{name}`")),
        }
    }
}

/// Returns the orders for which a comparison is true.
fn orders(name: &str, is_float: bool) -> Option<u8> {
    let (ordered, or_nan) = match name.strip_suffix('u').filter(|_| is_float) {
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
        "lo" if !is_float => LESS,
        "ls" if !is_float => LESS | EQUAL,
        "hi" if !is_float => GREATER,
        "hs" if !is_float => GREATER | EQUAL,
        "num" if is_float && or_nan == 0 => LESS | EQUAL | GREATER,
        "nan" if is_float && or_nan == 0 => UNORDERED,
        _ => return None,
    };
    Some(orders | or_nan)
}
