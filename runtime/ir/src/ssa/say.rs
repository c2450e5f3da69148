//! What a thread says: a text with values, which is printed, or with which the launch fails.
//!
//! The text is a format string of Rust with values in order: `{}`, `{:?}`, `{:.3}`, `{:>8}`, `{:#x}`. Numbers are written as
//! Rust writes them.

#[cfg(test)]
mod tests;

use std::fmt;

use super::{Function, ValueId};
use crate::scalar::{self, Number};
use crate::{DType, ProgramError};

/// The most bytes of a text.
const TEXT_BYTES_MAX: usize = 1024;
/// The most values of a text.
const VALUES_MAX: usize = 16;
/// The greatest width of a value, and the most digits behind its point: a line stays short.
const WIDTH_MAX: usize = 64;

/// A text with values of a thread.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Say {
    /// Whether the launch fails with it on the CPU and the simulator; other devices do not execute it then. Otherwise it is
    /// printed, which only the CPU and the simulator can.
    pub fails: bool,
    /// A format string, with a `{}` for each value.
    pub text: String,
    /// The values, which have one lane.
    pub values: Vec<ValueId>,
}

/// The text of a [`Say`], taken apart.
pub struct Text(Vec<Piece>);

enum Piece {
    Literal(String),
    Value(Spec),
}

/// How a value is written.
#[derive(Clone, Copy)]
struct Spec {
    fill: char,
    align: Option<Align>,
    plus: bool,
    alternate: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    style: Style,
}

#[derive(Clone, Copy)]
enum Align {
    Left,
    Center,
    Right,
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Display,
    Debug,
    Exponent,
    Hex,
    UpperHex,
    Octal,
    Binary,
}

impl Text {
    /// Takes a format string apart.
    ///
    /// # Errors
    /// What is wrong with it, as a predicate.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut pieces, mut literal) = (Vec::new(), String::new());
        let mut rest = text.chars().peekable();
        while let Some(letter) = rest.next() {
            match letter {
                '{' | '}' if rest.peek() == Some(&letter) => {
                    rest.next();
                    literal.push(letter);
                }
                '{' => {
                    let mut spec = String::new();
                    loop {
                        match rest.next() {
                            Some('}') => break,
                            Some(letter) => spec.push(letter),
                            None => return Err("has a `{` without `}`: write `{{`".to_owned()),
                        }
                    }
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                    let parsed = Spec::parse(&spec);
                    pieces.push(Piece::Value(parsed.ok_or_else(|| {
                        format!(
                            "has `{{{spec}}}`, which is not supported: write `{{}}`, `{{:?}}`, `{{:8.3}}` or `{{:#x}}`, with widths up to {WIDTH_MAX}"
                        )
                    })?));
                }
                '}' => return Err("has a `}` alone: write `}}`".to_owned()),
                letter => literal.push(letter),
            }
        }
        pieces.push(Piece::Literal(literal));
        Ok(Self(pieces))
    }

    fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Literal(_) => None,
            Piece::Value(spec) => Some(spec),
        })
    }

    /// Returns the text with these values: the type and the bits of each.
    pub fn with(&self, mut value: impl FnMut(usize) -> (DType, u64)) -> String {
        let (mut all, mut index) = (String::new(), 0);
        for piece in &self.0 {
            match piece {
                Piece::Literal(text) => all.push_str(text),
                Piece::Value(spec) => {
                    let (dtype, bits) = value(index);
                    spec.write(&mut all, dtype, bits);
                    index += 1;
                }
            }
        }
        all
    }
}

impl Spec {
    /// Parses what stands between braces.
    fn parse(text: &str) -> Option<Self> {
        let text = match text.trim_end() {
            "" => "",
            text => text.strip_prefix(':')?,
        };
        let mut rest: &[char] = &text.chars().collect::<Vec<_>>();
        let take = |rest: &mut &[char], letter| match rest {
            [first, others @ ..] if *first == letter => {
                *rest = others;
                true
            }
            _ => false,
        };
        let number = |rest: &mut &[char]| {
            let digits = rest.iter().take_while(|letter| letter.is_ascii_digit());
            let digits: String = digits.collect();
            *rest = &rest[digits.len()..];
            let number: usize = digits.parse().ok()?;
            (number <= WIDTH_MAX).then_some(number)
        };
        let align = |letter: &char| match letter {
            '<' => Some(Align::Left),
            '^' => Some(Align::Center),
            '>' => Some(Align::Right),
            _ => None,
        };
        let (mut fill, mut aligned) = (' ', None);
        match rest {
            [first, second, others @ ..] if align(second).is_some() => {
                (fill, aligned, rest) = (*first, align(second), others);
            }
            [first, others @ ..] if align(first).is_some() => {
                (aligned, rest) = (align(first), others);
            }
            _ => {}
        }
        let plus = take(&mut rest, '+');
        let alternate = take(&mut rest, '#');
        let zeros = take(&mut rest, '0');
        let width = match rest {
            [first, ..] if first.is_ascii_digit() => number(&mut rest)?,
            _ => 0,
        };
        let precision = match take(&mut rest, '.') {
            true => Some(number(&mut rest)?),
            false => None,
        };
        let style = match rest {
            [] => Style::Display,
            ['?'] => Style::Debug,
            ['e'] => Style::Exponent,
            ['x'] => Style::Hex,
            ['X'] => Style::UpperHex,
            ['o'] => Style::Octal,
            ['b'] => Style::Binary,
            _ => return None,
        };
        Some(Self {
            fill,
            align: aligned,
            plus,
            alternate,
            zeros,
            width,
            precision,
            style,
        })
    }

    /// Returns whether values of this type have the style.
    fn fits(&self, dtype: DType) -> bool {
        match self.style {
            Style::Display | Style::Debug => true,
            Style::Exponent => dtype.is_float(),
            _ => !dtype.is_float() && dtype != DType::Bool,
        }
    }

    /// Writes a value.
    fn write(&self, to: &mut String, dtype: DType, bits: u64) {
        let (mut prefix, mut zeros) = ("", self.zeros);
        let mut text = match dtype {
            DType::Bool => (bits != 0).to_string(),
            DType::F64 => self.float(f64::from_bits(bits)),
            DType::F32 => self.float(f32::from_bits(bits as u32)),
            DType::F16 | DType::Bf16 => {
                let bits = scalar::cast(dtype, DType::F32)(bits);
                self.float(f32::from_bits(bits as u32))
            }
            dtype => {
                let (text, of_style) = self.whole(dtype, Number::of(dtype, bits).whole());
                prefix = if self.alternate { of_style } else { "" };
                text
            }
        };
        let is_number = dtype != DType::Bool;
        zeros &= is_number;
        let mut sign = "";
        if is_number && let Some(positive) = text.strip_prefix('-') {
            (sign, text) = ("-", positive.to_owned());
        } else if is_number && self.plus && text != "NaN" {
            sign = "+";
        }
        let len = sign.len() + prefix.len() + text.chars().count();
        let missing = self.width.saturating_sub(len);
        let left = match self.align {
            _ if zeros => 0,
            Some(Align::Left) => 0,
            Some(Align::Center) => missing / 2,
            Some(Align::Right) => missing,
            None if is_number => missing,
            None => 0,
        };
        to.extend(std::iter::repeat_n(self.fill, left));
        to.push_str(sign);
        to.push_str(prefix);
        if zeros {
            to.extend(std::iter::repeat_n('0', missing));
        }
        to.push_str(&text);
        if !zeros {
            to.extend(std::iter::repeat_n(self.fill, missing - left));
        }
    }

    fn float(&self, value: impl fmt::Display + fmt::Debug + fmt::LowerExp) -> String {
        match (self.style, self.precision) {
            (Style::Debug, None) => format!("{value:?}"),
            (Style::Debug, Some(digits)) => format!("{value:.digits$?}"),
            (Style::Exponent, None) => format!("{value:e}"),
            (Style::Exponent, Some(digits)) => format!("{value:.digits$e}"),
            (_, None) => value.to_string(),
            (_, Some(digits)) => format!("{value:.digits$}"),
        }
    }

    /// Returns the digits of an integer, and the prefix of its style.
    fn whole(&self, dtype: DType, value: i128) -> (String, &'static str) {
        // Negative numbers have the bits of their type.
        let bits = value as u128 & (u128::MAX >> (128 - 8 * dtype.size()));
        match self.style {
            Style::Hex => (format!("{bits:x}"), "0x"),
            Style::UpperHex => (format!("{bits:X}"), "0x"),
            Style::Octal => (format!("{bits:o}"), "0o"),
            Style::Binary => (format!("{bits:b}"), "0b"),
            _ => (value.to_string(), ""),
        }
    }
}

impl Say {
    /// Checks the text against the types of the values.
    pub(super) fn check(&self, types: &[DType]) -> Result<(), String> {
        let (bytes, values) = (self.text.len(), types.len());
        if bytes > TEXT_BYTES_MAX || values > VALUES_MAX {
            return Err(format!(
                "has {bytes} bytes of text and {values} values: at most {TEXT_BYTES_MAX} and {VALUES_MAX} are supported"
            ));
        }
        let text = Text::parse(&self.text)?;
        let specs: Vec<_> = text.specs().collect();
        if specs.len() != values {
            let holes = specs.len();
            return Err(format!(
                "has {values} values, and a text with {holes} `{{}}`"
            ));
        }
        match specs.iter().zip(types).find(|(spec, of)| !spec.fits(**of)) {
            None => Ok(()),
            Some((_, of)) => Err(format!("writes a {of} as it writes no {of}: use `{{}}`")),
        }
    }
}

/// The position of a thread along the axes of its launch, the slowest first. `thread 17`, or `thread [3, 7]`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ThreadPosition(pub Vec<u64>);

impl fmt::Display for ThreadPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0[..] {
            [number] => write!(f, "thread {number}"),
            _ => write!(f, "thread {:?}", self.0),
        }
    }
}

impl Function {
    /// Returns the position of a thread of a cube of a launch, along the axes with more than one thread.
    pub fn position_of(&self, thread: u32, cube: [u32; 3], cubes: [u32; 3]) -> ThreadPosition {
        let [x, y, _] = self.threads;
        let thread = [thread % x, thread / x % y, thread / x / y];
        let is_used = |axis: &usize| self.threads[*axis] > 1 || cubes[*axis] > 1;
        let last = (1..3).rev().find(is_used).unwrap_or(0);
        let along = |axis: usize| {
            u64::from(cube[axis]) * u64::from(self.threads[axis]) + u64::from(thread[axis])
        };
        ThreadPosition((0..=last).rev().map(along).collect())
    }

    /// Returns whether it prints.
    pub fn prints(&self) -> bool {
        super::statements(&self.body)
            .any(|stmt| matches!(stmt, super::Stmt::Say(say) if !say.fails))
    }
}

/// A text that is invalid cannot be in a checked function.
impl TryFrom<&Say> for Text {
    type Error = ProgramError;

    fn try_from(say: &Say) -> Result<Self, ProgramError> {
        Self::parse(&say.text).map_err(|why| ProgramError::new(format!("`{}` {why}", say.text)))
    }
}
