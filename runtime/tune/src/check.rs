//! Checks that all candidates compute the same.

use std::sync::Arc;

use crate::error::Failure;
use crate::race::catch_panic;
use crate::set::TunableSet;

/// An output that can be compared with a reference.
pub trait Equivalence {
    /// Compares this output with the reference's. The error describes the first difference.
    ///
    /// # Errors
    /// The first difference.
    fn check_equivalence(&self, reference: &Self) -> Result<(), String>;
}

/// Floats are equal if they differ by at most a ten-thousandth of the greater magnitude, or of 1. A value that is not
/// finite equals only its own kind.
macro_rules! floats {
    ($($float:ty),*) => {$(
        impl Equivalence for Vec<$float> {
            fn check_equivalence(&self, reference: &Self) -> Result<(), String> {
                if self.len() != reference.len() {
                    return Err(format!("expected {} elements, got {}", reference.len(), self.len()));
                }
                let near = |one: $float, other: $float| {
                    let difference = (one - other).abs();
                    // An infinite difference is never within a fraction of an infinite magnitude.
                    one == other || (one.is_nan() && other.is_nan())
                        || (difference.is_finite() && difference <= 1e-4 * one.abs().max(other.abs()).max(1.0))
                };
                match self.iter().zip(reference).position(|(one, other)| !near(*one, *other)) {
                    None => Ok(()),
                    Some(at) => Err(format!("element {at}: expected {}, got {}", reference[at], self[at])),
                }
            }
        }
    )*};
}

floats!(f32, f64);

/// The result of checking one candidate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Checked {
    /// It is the reference, or its output equals the reference's.
    Same,
    /// Its output differs; this is the first difference.
    Differs(String),
    /// It failed, and was not compared.
    Failed(Failure),
}

impl<K, I: Clone, O: Equivalence> TunableSet<K, I, O> {
    /// Compares every candidate with the reference, which is the last one, on the same inputs. Returns the result of each
    /// by name. Candidates that fail are not compared.
    ///
    /// # Errors
    /// If the reference fails, so that there is nothing to compare with.
    pub fn autotune_checks(
        &self,
        key: &K,
        inputs: &I,
    ) -> Result<Vec<(Arc<str>, Checked)>, Failure> {
        let Some(reference) = self.len().checked_sub(1) else {
            return Ok(Vec::new());
        };
        let inputs = (self.inputs)(key, inputs);
        let run = |index: usize| {
            let tunable = &self.tunables[index];
            catch_panic(|| {
                let output = (tunable.run)(inputs.clone())?;
                (self.validate)(&output).map(|()| output)
            })
        };
        let expected = run(reference)?;
        let check = |index: usize| {
            let checked = match run(index) {
                _ if index == reference => Checked::Same,
                Err(why) => Checked::Failed(why),
                Ok(output) => match catch_panic(|| Ok(output.check_equivalence(&expected))) {
                    Ok(Ok(())) => Checked::Same,
                    Ok(Err(difference)) => Checked::Differs(difference),
                    Err(why) => Checked::Failed(why),
                },
            };
            (self.tunables[index].name.clone(), checked)
        };
        Ok((0..self.len()).map(check).collect())
    }
}
