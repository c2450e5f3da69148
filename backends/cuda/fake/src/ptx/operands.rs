//! What a statement of PTX is made of: modifiers, registers, values, addresses, and the names of these.

use std::collections::HashMap;

use crate::ptx::instruction::{Address, Source, Space, Special, Type};

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
pub(super) struct Statement<'s, 'a> {
    pub(super) scope: &'s Scope,
    pub(super) modifiers: Vec<&'a str>,
    pub(super) operands: Vec<&'s [&'a str]>,
    pub(super) next: usize,
}

/// Words between commas that are within no brackets.
pub(super) fn separated<'s, 'a>(words: &'s [&'a str]) -> Vec<&'s [&'a str]> {
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
    pub(super) fn has(&mut self, name: &str) -> bool {
        let place = self.modifiers.iter().position(|modifier| *modifier == name);
        place.map(|place| self.modifiers.remove(place)).is_some()
    }

    /// Passes over modifiers that change nothing of what is computed here.
    pub(super) fn pass(&mut self, names: &[&str]) {
        self.modifiers.retain(|modifier| !names.contains(modifier));
    }

    /// The next modifier, as something.
    pub(super) fn modifier<T>(
        &mut self,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, String> {
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

    pub(super) fn ty(&mut self) -> Result<Type, String> {
        self.modifier("type", Type::named)
    }

    pub(super) fn operand(&mut self) -> Result<Vec<&str>, String> {
        let operand = self.operands.get(self.next);
        self.next += 1;
        operand
            .map(|words| words.to_vec())
            .ok_or_else(|| "too few operands".to_owned())
    }

    pub(super) fn target(&mut self) -> Result<usize, String> {
        let scope = self.scope;
        match self.operand()?[..] {
            [name] => scope.register(name),
            ref words => Err(format!("`{}` is no register", words.concat())),
        }
    }

    pub(super) fn source(&mut self, ty: Type) -> Result<Source, String> {
        let scope = self.scope;
        source(scope, ty, &self.operand()?)
    }

    /// One register or value, or some in braces.
    pub(super) fn several(&mut self, ty: Type) -> Result<Vec<Source>, String> {
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

    pub(super) fn address(&mut self) -> Result<Address, String> {
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

    pub(super) fn space(&mut self) -> Space {
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
