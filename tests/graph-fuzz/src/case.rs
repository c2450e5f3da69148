//! The format of a case: one JSON object a line.

use millstream::DType;
use serde::Deserialize;

/// A graph, its data, and what it must compute.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it is called in reports.
    pub name: String,
    /// Lengths that each run says.
    #[serde(default)]
    pub symbols: Vec<Symbol>,
    /// Numbers that runs may change.
    #[serde(default)]
    pub scalars: Vec<Scalar>,
    /// Memory that inputs are ranges of: bytes in hexadecimal digits.
    pub handles: Vec<String>,
    /// What each run binds.
    pub inputs: Vec<Input>,
    /// The graph; operands come before what is made of them.
    pub nodes: Vec<Node>,
    /// The nodes that are asked for.
    pub roots: Vec<usize>,
    /// What is run, and what must come out.
    pub runs: Vec<Run>,
    /// The modes that it is run in; all of them where there are none.
    #[serde(default)]
    pub modes: Vec<String>,
}

/// A length that each run says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Symbol {
    /// The greatest value that it takes.
    pub max: u64,
}

/// A number that runs may change.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scalar {
    /// Its type.
    pub dtype: String,
    /// What it is unless a run says otherwise.
    pub value: Number,
}

/// An input: a range of a handle.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The type of its elements.
    pub dtype: String,
    /// Its shape.
    pub shape: Vec<Dim>,
    /// The handle that it is a range of.
    pub handle: usize,
    /// Where in the handle it begins, in bytes.
    #[serde(default)]
    pub start: usize,
    /// Its bytes, for the greatest lengths.
    pub bytes: usize,
}

/// A length, start or stride: a number, or a polynomial of symbols, as pairs of a coefficient and the symbols that it is multiplied by.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Dim {
    /// A number.
    Fixed(i64),
    /// A polynomial.
    Terms(Vec<(i64, Vec<usize>)>),
}

/// A number: JSON has no infinities and no NaN, so those are words.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Number {
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A float.
    Float(f64),
    /// `inf`, `-inf` or `nan`.
    Word(String),
}

/// A node: an operation, its operands and whatever else it takes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The operation, as its method is called.
    pub op: String,
    /// Its operands: places of earlier nodes.
    #[serde(default)]
    pub of: Vec<usize>,
    /// Of `input` and `scalar`: which.
    pub index: Option<usize>,
    /// A type.
    pub dtype: Option<String>,
    /// A shape.
    pub shape: Option<Vec<Dim>>,
    /// An axis, or the first of two.
    pub axis: Option<isize>,
    /// The second of two axes.
    pub other: Option<isize>,
    /// Axes; `null` stands for all of them where a reduction takes that.
    pub axes: Option<Vec<isize>>,
    /// A number.
    pub value: Option<Number>,
    /// The greater of two numbers.
    pub most: Option<Number>,
    /// By how many places to roll.
    pub by: Option<isize>,
    /// Where a range begins, or how much is put before an axis.
    pub start: Option<Dim>,
    /// How long a range is, how much is put after an axis, or how often elements are repeated.
    pub len: Option<Dim>,
    /// The seed of random numbers.
    pub seed: Option<u64>,
    /// Strides of a layout.
    pub strides: Option<Vec<Dim>>,
}

/// One run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The length of each symbol.
    #[serde(default)]
    pub lengths: Vec<u64>,
    /// Another value for each scalar, or `null`.
    #[serde(default)]
    pub scalars: Vec<Option<Number>>,
    /// What each root is.
    pub roots: Vec<Expected>,
    /// What inputs are that were stored into; all other memory stays what it was.
    #[serde(default)]
    pub stored: Vec<Stored>,
}

/// An array that must come out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The type of its elements.
    pub dtype: String,
    /// Its lengths in this run.
    pub shape: Vec<u64>,
    /// Its elements as they are stored, in hexadecimal digits, where they are exact.
    pub exact: Option<String>,
    /// Otherwise its elements as `f64`, in hexadecimal digits ..
    pub values: Option<String>,
    /// .. and how far each may be from there, as `f32`.
    pub bounds: Option<String>,
}

/// What an input is after a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// Which input.
    pub input: usize,
    /// The node that is stored into it last.
    pub node: usize,
    /// What it is.
    pub value: Expected,
}

/// Why a text is no case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// It is no JSON, or other JSON.
    #[error("the case is not of the format: {0}")]
    Json(#[from] serde_json::Error),
    /// Digits that are none.
    #[error("these are not bytes in hexadecimal digits: {0:?}")]
    Hex(String),
    /// A word for a type that no type has.
    #[error("there is no type `{0}`")]
    DType(String),
    /// A word for a number that is none.
    #[error("there is no number `{0}`")]
    Number(String),
    /// A word for an operation that is none.
    #[error("there is no operation `{0}`")]
    Op(String),
    /// A node without what its operation takes.
    #[error("node {node}, `{op}`, lacks `{what}`")]
    Lacks {
        /// Which node.
        node: usize,
        /// Its operation.
        op: String,
        /// What is not there.
        what: &'static str,
    },
    /// A place of something that is not there.
    #[error("there is no {what} {index}")]
    Place {
        /// Of what.
        what: &'static str,
        /// The place.
        index: usize,
    },
    /// A word for a mode that is none.
    #[error("there is no mode `{0}`")]
    Mode(String),
}

impl Case {
    /// Reads a case from a line.
    ///
    /// # Errors
    /// What is not of the format.
    pub fn parse(line: &str) -> Result<Self, CaseError> {
        Ok(serde_json::from_str(line)?)
    }
}

/// A type by its word.
pub(crate) fn dtype(word: &str) -> Result<DType, CaseError> {
    Ok(match word {
        "f64" => DType::F64,
        "f32" => DType::F32,
        "f16" => DType::F16,
        "bf16" => DType::Bf16,
        "i64" => DType::I64,
        "i32" => DType::I32,
        "u32" => DType::U32,
        "u8" => DType::U8,
        "bool" => DType::Bool,
        other => return Err(CaseError::DType(other.to_owned())),
    })
}

/// Bytes in hexadecimal digits.
pub(crate) fn bytes(digits: &str) -> Result<Vec<u8>, CaseError> {
    let wrong = || CaseError::Hex(digits.chars().take(40).collect());
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong());
    (0..digits.len()).step_by(2).map(pair).collect()
}
