//! Do all candidates do the same?

use std::sync::Arc;

use crate::error::Failure;
use crate::race::caught;
use crate::set::TunableSet;

/// Outputs that can be compared.
pub trait Equivalence {
    /// Is this output as good as the reference's? The text says where they differ first.
    ///
    /// # Errors
    /// The first difference.
    fn check_equivalence(&self, reference: &Self) -> Result<(), String>;
}

/// Floats are equal within a ten thousandth of the greater one, or of one. What is not finite is equal to its like alone.
macro_rules! floats {
    ($($float:ty),*) => {$(
        impl Equivalence for Vec<$float> {
            fn check_equivalence(&self, reference: &Self) -> Result<(), String> {
                if self.len() != reference.len() {
                    return Err(format!("it has {} elements, and the reference {}", self.len(), reference.len()));
                }
                let near = |one: $float, other: $float| {
                    let apart = (one - other).abs();
                    // From infinity everything is infinitely far, which no share of infinity is less than.
                    one == other || (one.is_nan() && other.is_nan())
                        || (apart.is_finite() && apart <= 1e-4 * one.abs().max(other.abs()).max(1.0))
                };
                match self.iter().zip(reference).position(|(one, other)| !near(*one, *other)) {
                    None => Ok(()),
                    Some(at) => Err(format!("element {at} is {}, and {} in the reference", self[at], reference[at])),
                }
            }
        }
    )*};
}

floats!(f32, f64);

/// What came of one candidate's check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Checked {
    /// It is the reference, or as good.
    Same,
    /// It differs, first here.
    Differs(String),
    /// It fails, and was not compared.
    Failed(Failure),
}

impl<K, I: Clone, O: Equivalence> TunableSet<K, I, O> {
    /// Compares every candidate that may be tried for this key with the reference, on the same inputs: each by its name. Those that fail are
    /// skipped.
    ///
    /// # Errors
    /// The reference fails: there is nothing to compare with.
    pub fn autotune_checks(
        &self,
        key: &K,
        inputs: &I,
    ) -> Result<Vec<(Arc<str>, Checked)>, Failure> {
        let Some(reference) = self.reference_index() else {
            return Ok(Vec::new());
        };
        let inputs = (self.inputs)(key, inputs);
        let run = |index: usize| {
            let tunable = &self.tunables[index];
            caught(|| {
                let output = (tunable.run)(inputs.clone())?;
                (self.settled)(&output).map(|()| output)
            })
        };
        let expected = run(reference)?;
        let check = |index: usize| {
            let checked = match run(index) {
                _ if index == reference => Checked::Same,
                Err(why) => Checked::Failed(why),
                Ok(output) => match caught(|| Ok(output.check_equivalence(&expected))) {
                    Ok(Ok(())) => Checked::Same,
                    Ok(Err(where_)) => Checked::Differs(where_),
                    Err(why) => Checked::Failed(why),
                },
            };
            (self.tunables[index].name.clone(), checked)
        };
        Ok(self.levels(key).into_iter().flatten().map(check).collect())
    }
}
