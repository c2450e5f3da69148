//! Values as numbers.

/// A value of any type, without loss.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// A value of a float type.
    Float(f64),
    /// A value of any other type; bools are 0 and 1.
    Whole(i128),
}

impl Number {
    /// Returns the value as a float, rounded once.
    pub fn float(self) -> f64 {
        match self {
            Number::Float(value) => value,
            Number::Whole(value) => value as f64,
        }
    }

    /// Returns the value as an integer, truncated towards zero.
    pub fn whole(self) -> i128 {
        match self {
            Number::Float(value) => value as i128,
            Number::Whole(value) => value,
        }
    }

    /// Returns `true` for NaN.
    pub fn is_nan(self) -> bool {
        matches!(self, Number::Float(value) if value.is_nan())
    }

    /// Returns the value as `f32`, rounded to odd: truncated, with the last bit set if this was inexact. A further
    /// rounding to a half then equals a single rounding.
    #[inline(always)]
    pub fn to_odd(self) -> f32 {
        let (near, exact, beyond) = match self {
            Number::Float(value) => {
                let near = value as f32;
                let back = f64::from(near);
                let exact = back == value || value.is_nan();
                (near, exact, back.abs() > value.abs())
            }
            Number::Whole(value) => {
                let near = value as f32;
                let back = near as i128;
                (near, back == value, back.abs() > value.abs())
            }
        };
        match exact {
            true => near,
            false => f32::from_bits((near.to_bits() - u32::from(beyond)) | 1),
        }
    }
}
