//! One statement into an instruction. Whatever is not known is an error: a modifier that were passed over would be a
//! wrong result.

use std::collections::HashMap;

use crate::ptx::instruction::{
    Action, Address, Atomic, Binary, Comparison, Rounding, Source, Space, Special, Ternary, Type,
    Unary,
};
use crate::ptx::run::SHARED_WINDOW;

/// What a name that is no register stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Symbol {
    /// An offset into shared memory.
    Shared(u64),
    /// Shared memory behind all that is declared.
    SharedDynamic,
    /// An offset into the parameters.
    Parameter(u64),
}

/// Names, and what they stand for.
#[derive(Clone, Default)]
pub(super) struct Scope {
    pub(super) registers: HashMap<String, usize>,
    pub(super) symbols: HashMap<String, Symbol>,
    pub(super) shared_bytes: usize,
}

impl Scope {
    pub(super) fn add_register(&mut self, name: String) {
        let place = self.registers.len();
        self.registers.entry(name).or_insert(place);
    }

    pub(super) fn register(&self, name: &str) -> Result<usize, String> {
        let known = self.registers.get(name).copied();
        known.ok_or_else(|| format!("no register `{name}`"))
    }

    /// A name of memory as a number.
    fn symbol(&self, name: &str) -> Option<u64> {
        Some(match self.symbols.get(name)? {
            Symbol::Shared(offset) | Symbol::Parameter(offset) => *offset,
            Symbol::SharedDynamic => self.shared_bytes.next_multiple_of(16) as u64,
        })
    }
}

/// A statement that is being read: its modifiers and its operands, from left to right.
struct Statement<'s, 'a> {
    scope: &'s Scope,
    modifiers: Vec<&'a str>,
    operands: Vec<&'s [&'a str]>,
    next: usize,
}

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

/// Words between commas that are within no brackets.
fn separated<'s, 'a>(words: &'s [&'a str]) -> Vec<&'s [&'a str]> {
    let mut depth = 0;
    let comma = |word: &&str| {
        depth += i32::from(matches!(*word, "[" | "{")) - i32::from(matches!(*word, "]" | "}"));
        depth == 0 && *word == ","
    };
    match words.is_empty() {
        true => Vec::new(),
        false => words.split(comma).collect(),
    }
}

impl Statement<'_, '_> {
    /// Is there this modifier? Then it has been seen to.
    fn has(&mut self, name: &str) -> bool {
        let place = self.modifiers.iter().position(|modifier| *modifier == name);
        place.map(|place| self.modifiers.remove(place)).is_some()
    }

    /// Passes over modifiers that change nothing of what is computed here.
    fn pass(&mut self, names: &[&str]) {
        self.modifiers.retain(|modifier| !names.contains(modifier));
    }

    /// The next modifier, as something.
    fn modifier<T>(&mut self, what: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, String> {
        let place = self
            .modifiers
            .iter()
            .position(|modifier| read(modifier).is_some());
        let found = place.and_then(|place| read(self.modifiers.remove(place)));
        found.ok_or_else(|| {
            let had = self.modifiers.join(".");
            format!("no {what} that is known in `.{had}`")
        })
    }

    fn ty(&mut self) -> Result<Type, String> {
        self.modifier("type", Type::named)
    }

    fn operand(&mut self) -> Result<Vec<&str>, String> {
        let operand = self.operands.get(self.next);
        self.next += 1;
        operand
            .map(|words| words.to_vec())
            .ok_or_else(|| "too few operands".to_owned())
    }

    fn target(&mut self) -> Result<usize, String> {
        let scope = self.scope;
        match self.operand()?[..] {
            [name] => scope.register(name),
            ref words => Err(format!("`{}` is no register", words.concat())),
        }
    }

    fn source(&mut self, ty: Type) -> Result<Source, String> {
        let scope = self.scope;
        source(scope, ty, &self.operand()?)
    }

    /// One register or value, or some in braces.
    fn several(&mut self, ty: Type) -> Result<Vec<Source>, String> {
        let scope = self.scope;
        let words = self.operand()?;
        match words[..] {
            ["{", ref within @ .., "}"] => separated(within)
                .into_iter()
                .map(|words| source(scope, ty, words))
                .collect(),
            _ => Ok(vec![source(scope, ty, &words)?]),
        }
    }

    fn address(&mut self) -> Result<Address, String> {
        let scope = self.scope;
        let words = self.operand()?;
        let unknown = || format!("the address `{}`", words.concat());
        let ["[", base, ref offset @ .., "]"] = words[..] else {
            return Err(unknown());
        };
        let offset = match *offset {
            [] => 0,
            ["+", value] => whole(value).ok_or_else(unknown)?,
            ["-", value] | ["+", "-", value] => whole(value).ok_or_else(unknown)?.wrapping_neg(),
            _ => return Err(unknown()),
        };
        let base = match (scope.registers.get(base), scope.symbol(base), whole(base)) {
            (Some(register), ..) => Source::Register(*register),
            (None, Some(symbol), _) => Source::Value(symbol),
            (None, None, Some(value)) => Source::Value(value),
            _ => return Err(unknown()),
        };
        Ok(Address { base, offset })
    }

    fn space(&mut self) -> Space {
        if self.has("global") {
            Space::Global
        } else if self.has("shared") || self.has("shared::cta") {
            Space::Shared
        } else if self.has("param") {
            Space::Parameter
        } else {
            Space::Generic
        }
    }

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

/// A whole number without sign.
fn whole(word: &str) -> Option<u64> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.strip_suffix('U').unwrap_or(word).parse().ok(),
    }
}

/// A value of this type.
fn source(scope: &Scope, ty: Type, words: &[&str]) -> Result<Source, String> {
    let unknown = || format!("`{}` as a value of {ty:?}", words.concat());
    let word = match *words {
        [word] => word,
        ["-", word] if !ty.is_float() => {
            let value = whole(word).ok_or_else(unknown)?;
            return Ok(Source::Value(value.wrapping_neg()));
        }
        _ => return Err(unknown()),
    };
    if let Some(register) = scope.registers.get(word) {
        return Ok(Source::Register(*register));
    }
    if word.starts_with('%') {
        return special(word).map(Source::Special).ok_or_else(unknown);
    }
    let bits = match (ty.bytes(), word.get(..2)) {
        (4, Some("0f" | "0F")) => u32::from_str_radix(&word[2..], 16).ok().map(u64::from),
        (8, Some("0d" | "0D")) => u64::from_str_radix(&word[2..], 16).ok(),
        _ if ty.is_float() => None,
        _ => whole(word).or_else(|| scope.symbol(word)),
    };
    bits.map(Source::Value).ok_or_else(unknown)
}

fn special(word: &str) -> Option<Special> {
    if word == "%laneid" {
        return Some(Special::Lane);
    }
    let (name, axis) = word.split_once('.')?;
    let axis = ["x", "y", "z"].iter().position(|known| *known == axis)?;
    Some(match name {
        "%tid" => Special::Thread(axis),
        "%ntid" => Special::Threads(axis),
        "%ctaid" => Special::Cube(axis),
        "%nctaid" => Special::Cubes(axis),
        _ => return None,
    })
}
