//! Compares results with expected values and their bounds.

use millstream::DType;
use millstream::ir::scalar::Number;

use crate::case::{CaseError, Expected, bytes, dtype};

/// An expected array, decoded.
#[derive(Clone, Debug)]
pub(crate) struct ExpectedArray {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<u64>,
    values: Vec<Value>,
}

/// An element, with the bound for its error.
#[derive(Clone, Copy, Debug)]
enum Value {
    Whole(i64),
    Float { value: f64, bound: f64 },
}

impl ExpectedArray {
    pub(crate) fn of(expected: &Expected) -> Result<Self, CaseError> {
        let dtype = dtype(&expected.dtype)?;
        let values = match (&expected.exact, &expected.values, &expected.bounds) {
            (Some(exact), ..) => {
                let exact = bytes(exact)?;
                exact
                    .chunks_exact(dtype.size())
                    .map(|element| decode(element, dtype))
                    .collect()
            }
            (None, Some(values), Some(bounds)) => {
                let (values, bounds) = (bytes(values)?, bytes(bounds)?);
                let values = values
                    .chunks_exact(8)
                    .map(|bytes| Number::load(DType::F64, bytes).float());
                let bounds = bounds
                    .chunks_exact(4)
                    .map(|bytes| Number::load(DType::F32, bytes).float());
                let both = values.zip(bounds);
                both.map(|(value, bound)| Value::Float { value, bound })
                    .collect()
            }
            _ => return Err(CaseError("an array has no values".to_owned())),
        };
        let shape = expected.shape.clone();
        Ok(Self {
            dtype,
            shape,
            values,
        })
    }

    /// Returns the number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.values.len() * self.dtype.size()
    }

    /// Returns the first difference of these bytes from the expected ones.
    pub(crate) fn difference(&self, got: &[u8]) -> Option<String> {
        let size = self.dtype.size();
        if got.len() != self.bytes() {
            let (got, want) = (got.len(), self.bytes());
            return Some(format!("expected {want} bytes, got {got}"));
        }
        let got = got
            .chunks_exact(size)
            .map(|element| decode(element, self.dtype));
        let mut wrong = got
            .zip(&self.values)
            .enumerate()
            .filter(|(_, (got, want))| !fits(got, want));
        let (flat, (got, want)) = wrong.next()?;
        let more = wrong.count();
        let (got, want) = (text(&got), text(want));
        let place = place(flat, &self.shape);
        Some(format!(
            "at {place:?}: expected {want}, got {got} (and {more} more)"
        ))
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Whole(value) => value.to_string(),
        Value::Float { value, bound } if *bound == 0.0 => format!("{value:?}"),
        Value::Float { value, bound } => format!("{value:?} within {bound:e}"),
    }
}

fn place(mut flat: usize, shape: &[u64]) -> Vec<usize> {
    let mut place = vec![0; shape.len()];
    for (index, length) in place.iter_mut().zip(shape).rev() {
        let length = (*length as usize).max(1);
        *index = flat % length;
        flat /= length;
    }
    place
}

/// Compares two elements. The sign of NaN and of zero is ignored.
fn fits(got: &Value, want: &Value) -> bool {
    match (got, want) {
        (Value::Whole(got), Value::Whole(want)) => got == want,
        (Value::Float { value: got, .. }, Value::Float { value, bound }) => {
            (got.is_nan() && value.is_nan()) || got == value || (got - value).abs() <= *bound
        }
        _ => false,
    }
}

fn decode(element: &[u8], dtype: DType) -> Value {
    match Number::load(dtype, element) {
        Number::Float(value) => Value::Float { value, bound: 0.0 },
        Number::Whole(value) => Value::Whole(value as i64),
    }
}
