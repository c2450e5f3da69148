//! The format of a case: one JSON object for each line.

use millstream::DType;
use serde::Deserialize;

/// A graph, its data, and the expected results.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name in reports.
    pub name: String,
    /// The lengths that each run sets.
    #[serde(default)]
    pub symbols: Vec<Symbol>,
    /// The numbers that runs may set.
    #[serde(default)]
    pub scalars: Vec<Scalar>,
    /// The memory of inputs: bytes in hexadecimal digits.
    pub handles: Vec<String>,
    /// The inputs that each run binds.
    pub inputs: Vec<Input>,
    /// The graph; operands come before their users.
    pub nodes: Vec<Node>,
    /// The roots.
    pub roots: Vec<usize>,
    /// The runs with their expected results.
    pub runs: Vec<Run>,
    /// The modes of the case; all modes if empty.
    #[serde(default)]
    pub modes: Vec<String>,
}

/// A length that each run sets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Symbol {
    /// The maximum.
    pub max: u64,
}

/// A number that runs may set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scalar {
    /// The type.
    pub dtype: String,
    /// The default.
    pub value: Number,
}

/// An input: a range of a handle.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The type of the elements.
    pub dtype: String,
    /// The shape.
    pub shape: Vec<Dim>,
    /// The handle.
    pub handle: usize,
    /// The start in the handle, in bytes.
    #[serde(default)]
    pub start: usize,
    /// The number of bytes, with every length at its maximum.
    pub bytes: usize,
}

/// A length, start or stride: a number, or a polynomial of symbols, as pairs of a coefficient and the symbols that it
/// is multiplied with.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Dim {
    /// A number.
    Fixed(i64),
    /// A polynomial.
    Terms(Vec<(i64, Vec<usize>)>),
}

/// A number. JSON has no infinities and no NaN, so these are words.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Number {
    /// A bool.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// `inf`, `-inf` or `nan`.
    Word(String),
}

/// A node: an operation, its operands and its attributes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The operation, by the name of its method.
    pub op: String,
    /// The operands: indices of earlier nodes.
    #[serde(default)]
    pub of: Vec<usize>,
    /// For `input` and `scalar`: the index.
    pub index: Option<usize>,
    /// A type.
    pub dtype: Option<String>,
    /// A shape.
    pub shape: Option<Vec<Dim>>,
    /// An axis, or the first of two.
    pub axis: Option<isize>,
    /// The second of two axes.
    pub other: Option<isize>,
    /// Axes; `null` means all axes for a reduction.
    pub axes: Option<Vec<isize>>,
    /// A number.
    pub value: Option<Number>,
    /// The greater of two numbers.
    pub most: Option<Number>,
    /// The number of places to roll by.
    pub by: Option<isize>,
    /// The start of a range, or the number of elements that are added before an axis.
    pub start: Option<Dim>,
    /// The length of a range, the number of elements that are added after an axis, or the number of repetitions.
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
    /// The value of each scalar, or `null` for the default.
    #[serde(default)]
    pub scalars: Vec<Option<Number>>,
    /// The expected roots.
    pub roots: Vec<Expected>,
    /// The expected content of inputs that were stored into; all other memory is unchanged.
    #[serde(default)]
    pub stored: Vec<Stored>,
}

/// An expected array.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The type of the elements.
    pub dtype: String,
    /// The lengths in this run.
    pub shape: Vec<u64>,
    /// The bytes of the elements in hexadecimal digits, if they are exact.
    pub exact: Option<String>,
    /// Otherwise the elements as `f64`, in hexadecimal digits.
    pub values: Option<String>,
    /// The bound for the error of each element, as `f32`.
    pub bounds: Option<String>,
}

/// The expected content of an input after a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// The input.
    pub input: usize,
    /// The node that is stored into it last.
    pub node: usize,
    /// The expected value.
    pub value: Expected,
}

/// The reason why a text is not a case, as a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CaseError(pub(crate) String);

impl CaseError {
    /// An index is out of range.
    pub(crate) fn missing(what: &str, index: usize) -> Self {
        Self(format!("{what} {index} does not exist"))
    }
}

impl Case {
    /// Parses a case.
    ///
    /// # Errors
    /// The first error in the format.
    pub fn parse(line: &str) -> Result<Self, CaseError> {
        serde_json::from_str(line)
            .map_err(|why| CaseError(format!("the text is not a case: {why}")))
    }
}

/// Returns the type of this name.
pub(crate) fn dtype(word: &str) -> Result<DType, CaseError> {
    DType::from_name(word).ok_or_else(|| CaseError(format!("unknown type `{word}`")))
}

/// Parses bytes in hexadecimal digits.
pub(crate) fn bytes(digits: &str) -> Result<Vec<u8>, CaseError> {
    let wrong = || {
        let start: String = digits.chars().take(40).collect();
        CaseError(format!("invalid hexadecimal digits: {start:?}"))
    };
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong());
    (0..digits.len()).step_by(2).map(pair).collect()
}
