//! Parses the modifiers and operands of a statement, and resolves names.

use std::collections::HashMap;

use crate::instruction::{Address, Source, Space, Special};
use crate::number::{Mode, Rounding};
use crate::types::Type;

/// The memory that a name refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Symbol {
    /// An offset in shared memory.
    Shared(u64),
    /// Dynamic shared memory, after all declared variables.
    SharedDynamic,
    /// An offset in the parameters of the kernel.
    Parameter(u64),
    /// An offset in local memory, and the size in bytes.
    Local(u64, usize),
    /// An address.
    Global(u64),
}

/// The object that a name refers to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Name {
    Register(usize),
    Memory(Symbol),
}

/// The visible names, and the sizes of declared memory and registers.
#[derive(Clone, Default)]
pub(super) struct Scope {
    pub(super) names: HashMap<String, Name>,
    pub(super) registers: usize,
    pub(super) shared_bytes: usize,
    pub(super) local_bytes: usize,
    /// Whether this is the scope of a function: an address of a parameter in a register is then in local memory.
    pub(super) in_function: bool,
}

impl Scope {
    pub(super) fn add_register(&mut self, name: String) {
        self.names.insert(name, Name::Register(self.registers));
        self.registers += 1;
    }

    /// Declares a variable in local memory and returns its offset.
    pub(super) fn add_local(&mut self, name: &str, align: usize, bytes: usize) -> usize {
        let start = self.local_bytes.next_multiple_of(align.max(1));
        self.local_bytes = start + bytes;
        let symbol = Symbol::Local(start as u64, bytes);
        self.names.insert(name.to_owned(), Name::Memory(symbol));
        start
    }

    pub(super) fn register(&self, name: &str) -> Result<usize, String> {
        match self.names.get(name) {
            Some(Name::Register(register)) => Ok(*register),
            _ => Err(format!("no register `{name}`")),
        }
    }

    pub(super) fn memory(&self, name: &str) -> Option<Symbol> {
        match self.names.get(name) {
            Some(Name::Memory(symbol)) => Some(*symbol),
            _ => None,
        }
    }
}

impl Symbol {
    /// Returns the address in its space.
    fn value(self) -> Source {
        match self {
            Symbol::Shared(at) | Symbol::Parameter(at) | Symbol::Local(at, _) => Source::Value(at),
            Symbol::Global(at) => Source::Value(at),
            Symbol::SharedDynamic => Source::Special(Special::SharedDynamicStart),
        }
    }
}

/// A statement that is being decoded: the remaining modifiers, and the operands from left to right.
pub(super) struct Statement<'s, 'a> {
    pub(super) scope: &'s Scope,
    pub(super) modifiers: Vec<&'a str>,
    pub(super) operands: Vec<&'s [&'a str]>,
    pub(super) next: usize,
}

/// Splits tokens at commas outside of brackets.
pub(super) fn split_operands<'s, 'a>(words: &'s [&'a str]) -> Vec<&'s [&'a str]> {
    let mut depth = 0;
    let comma = |word: &&str| {
        depth += i32::from(matches!(*word, "[" | "{" | "("));
        depth -= i32::from(matches!(*word, "]" | "}" | ")"));
        depth == 0 && *word == ","
    };
    match words.is_empty() {
        true => Vec::new(),
        false => words.split(comma).collect(),
    }
}

impl<'s, 'a> Statement<'s, 'a> {
    /// Consumes a modifier. Returns whether it was present.
    pub(super) fn has(&mut self, name: &str) -> bool {
        let place = self.modifiers.iter().position(|modifier| *modifier == name);
        place.map(|place| self.modifiers.remove(place)).is_some()
    }

    /// Ignores modifiers that do not affect the result.
    pub(super) fn ignore(&mut self, names: &[&str]) {
        self.modifiers.retain(|modifier| !names.contains(modifier));
    }

    /// Consumes the next modifier that `read` accepts, if there is one.
    pub(super) fn optional<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let of = |modifier: &&str| read(modifier).is_some();
        let place = self.modifiers.iter().position(of)?;
        read(self.modifiers.remove(place))
    }

    /// Consumes the next modifier that `read` accepts, or returns an error that names it `what`.
    pub(super) fn modifier<T>(
        &mut self,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, String> {
        let had = self.modifiers.join(".");
        let found = self.optional(read);
        found.ok_or_else(|| format!("no supported {what} in `.{had}`"))
    }

    pub(super) fn ty(&mut self) -> Result<Type, String> {
        self.modifier("type", Type::named)
    }

    /// Consumes the modifiers for rounding, flushing and saturation.
    pub(super) fn mode(&mut self) -> Mode {
        let rounding = self.optional(|name| match name {
            "rn" => Some(Rounding::Nearest),
            "rz" => Some(Rounding::Zero),
            "rm" => Some(Rounding::Down),
            "rp" => Some(Rounding::Up),
            _ => None,
        });
        Mode {
            rounding: rounding.unwrap_or(Rounding::Nearest),
            flush: self.has("ftz"),
            saturate: self.has("sat"),
            integral: false,
        }
    }

    pub(super) fn operand(&mut self) -> Result<&'s [&'a str], String> {
        let operand = self.operands.get(self.next).copied();
        self.next += 1;
        operand.ok_or_else(|| "too few operands".to_owned())
    }

    pub(super) fn target(&mut self) -> Result<usize, String> {
        match self.operand()? {
            [name] => self.scope.register(name),
            words => Err(format!("`{}` is not a register", words.concat())),
        }
    }

    /// Parses a register and optionally another after `|`; `_` is `None`.
    pub(super) fn two_targets(&mut self) -> Result<[Option<usize>; 2], String> {
        let scope = self.scope;
        let one = |name: &str| match name {
            "_" => Ok(None),
            name => scope.register(name).map(Some),
        };
        match self.operand()? {
            [first] => Ok([one(first)?, None]),
            [first, "|", second] => Ok([one(first)?, one(second)?]),
            words => Err(format!("`{}` is not a target", words.concat())),
        }
    }

    pub(super) fn source(&mut self, ty: Type) -> Result<Source, String> {
        source(self.scope, ty, self.operand()?)
    }

    /// Parses `count` registers or values, which are in braces if there are several; `_` is `None`.
    fn vector(&mut self, count: usize, ty: Type) -> Result<Vec<Option<Source>>, String> {
        let scope = self.scope;
        let one = |words: &[&str]| match words {
            ["_"] => Ok(None),
            words => source(scope, ty, words).map(Some),
        };
        let found: Vec<_> = match self.operand()? {
            ["{", within @ .., "}"] => {
                let parts = split_operands(within).into_iter();
                parts.map(one).collect::<Result<_, _>>()?
            }
            words => vec![one(words)?],
        };
        match found.len() == count {
            true => Ok(found),
            false => Err(format!("expected {count} parts, got {}", found.len())),
        }
    }

    /// Parses target registers; `_` is `None`.
    pub(super) fn vector_targets(
        &mut self,
        count: usize,
        ty: Type,
    ) -> Result<Box<[Option<usize>]>, String> {
        let targets = self.vector(count, ty)?.into_iter();
        let registers = targets.map(|target| match target {
            None => Ok(None),
            Some(Source::Register(register)) => Ok(Some(register)),
            Some(_) => Err("expected a register, got a value".to_owned()),
        });
        registers.collect()
    }

    /// Parses values.
    pub(super) fn vector_values(
        &mut self,
        count: usize,
        ty: Type,
    ) -> Result<Box<[Source]>, String> {
        let values: Option<_> = self.vector(count, ty)?.into_iter().collect();
        values.ok_or_else(|| "a value is missing".to_owned())
    }

    /// Parses an address. The parameters of functions are in local memory.
    pub(super) fn address(&mut self, space: Space) -> Result<(Space, Address), String> {
        let words = self.operand()?;
        let unknown = || format!("`{}` is not a supported address", words.concat());
        let ["[", base, offset @ .., "]"] = words else {
            return Err(unknown());
        };
        let offset = match *offset {
            [] => 0,
            ["+", value] => parse_integer(value).ok_or_else(unknown)?,
            ["-", value] | ["+", "-", value] => {
                parse_integer(value).ok_or_else(unknown)?.wrapping_neg()
            }
            _ => return Err(unknown()),
        };
        let symbol = self.scope.memory(base);
        let base = match (self.scope.register(base), symbol, parse_integer(base)) {
            (Ok(register), ..) => Source::Register(register),
            (_, Some(symbol), _) => symbol.value(),
            (_, None, Some(value)) => Source::Value(value),
            _ => return Err(unknown()),
        };
        let space = match (space, symbol) {
            (Space::Parameter, Some(Symbol::Local(..))) => Space::Local,
            (Space::Parameter, None) if self.scope.in_function => Space::Local,
            // A name determines the space of a generic access.
            (Space::Generic, Some(Symbol::Shared(_) | Symbol::SharedDynamic)) => Space::Shared,
            (Space::Generic, Some(Symbol::Local(..))) => Space::Local,
            (space, _) => space,
        };
        Ok((space, Address { base, offset }))
    }

    /// Consumes the modifier for the state space. Constants are in global memory.
    pub(super) fn space(&mut self) -> Space {
        let spaces = [
            ("global", Space::Global),
            ("const", Space::Global),
            ("shared", Space::Shared),
            ("param", Space::Parameter),
            ("local", Space::Local),
        ];
        let found = spaces.into_iter().find(|(name, _)| self.has(name));
        found.map_or(Space::Generic, |(_, space)| space)
    }
}

/// Parses an unsigned integer.
pub(super) fn parse_integer(word: &str) -> Option<u64> {
    let word = word.strip_suffix('U').unwrap_or(word);
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

/// Parses a float of `bytes` bytes, written as its bits.
pub(super) fn parse_float(bytes: u8, word: &str) -> Option<u64> {
    match (bytes, word.get(..2)) {
        (4, Some("0f" | "0F")) => u32::from_str_radix(&word[2..], 16).ok().map(u64::from),
        (8, Some("0d" | "0D")) => u64::from_str_radix(&word[2..], 16).ok(),
        _ => None,
    }
}

/// Parses a source operand of this type.
fn source(scope: &Scope, ty: Type, words: &[&str]) -> Result<Source, String> {
    let unknown = || format!("`{}` is not a value of {ty:?}", words.concat());
    let word = match *words {
        [word] => word,
        ["-", word] => {
            let value = match ty.is_float() {
                true => None,
                false => parse_integer(word).map(u64::wrapping_neg),
            };
            return value.map(Source::Value).ok_or_else(unknown);
        }
        _ => return Err(unknown()),
    };
    if let Ok(register) = scope.register(word) {
        return Ok(Source::Register(register));
    }
    if let Some(symbol) = scope.memory(word) {
        return Ok(symbol.value());
    }
    if word.starts_with('%') {
        return special(word).map(Source::Special).ok_or_else(unknown);
    }
    let bits = parse_float(ty.bytes(), word);
    let bits = match ty.is_float() {
        true => bits,
        false => bits.or_else(|| parse_integer(word)),
    };
    bits.map(Source::Value).ok_or_else(unknown)
}

fn special(word: &str) -> Option<Special> {
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
