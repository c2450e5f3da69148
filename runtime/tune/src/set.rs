//! Sets of candidates: candidates by name, and the inputs to measure them with.

use std::fmt;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use crate::error::Failure;

type Run<I, O> = Arc<dyn Fn(I) -> Result<O, Failure> + Send + Sync>;
type Inputs<K, I> = Arc<dyn Fn(&K, &I) -> I + Send + Sync>;
type Validate<O> = Arc<dyn Fn(&O) -> Result<(), Failure> + Send + Sync>;

/// A candidate: one implementation that computes an `O` from an `I`.
pub struct Tunable<I, O> {
    pub(crate) name: Arc<str>,
    pub(crate) run: Run<I, O>,
}

impl<I, O> Tunable<I, O> {
    /// Creates a candidate. `run` submits work to the device and returns. An error or a panic eliminates the candidate.
    pub fn new<E: fmt::Display>(
        name: impl Into<Arc<str>>,
        run: impl Fn(I) -> Result<O, E> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            run: Arc::new(move |inputs| run(inputs).map_err(Failure::new)),
        }
    }
}

/// Candidates that all compute the same, and the generator of inputs to measure them with.
///
/// ```
/// use millstream_tune::{Tunable, TunableSet};
///
/// let sum = TunableSet::new("sum", |len: &usize, _: &Vec<f32>| vec![1.0_f32; *len])
///     .with(Tunable::new("in order", |x: Vec<f32>| Ok::<_, String>(x.iter().sum::<f32>())))
///     .with(Tunable::new("by fours", |x: Vec<f32>| {
///         let fours = x.chunks(4).map(|four| four.iter().sum::<f32>());
///         Ok::<_, String>(fours.sum::<f32>())
///     }));
/// assert_eq!(sum.names().collect::<Vec<_>>(), ["in order", "by fours"]);
/// ```
pub struct TunableSet<K, I, O> {
    name: Arc<str>,
    version: u32,
    pub(crate) tunables: Vec<Tunable<I, O>>,
    pub(crate) inputs: Inputs<K, I>,
    pub(crate) validate: Validate<O>,
    /// Cached, because every lookup of a key compares it.
    checksum: OnceLock<Checksum>,
}

impl<K, I, O> TunableSet<K, I, O> {
    /// Creates an empty set. `inputs` generates the inputs to measure candidates with, from the key and the caller's
    /// inputs. It is called only for a tuning; each candidate gets a clone of the result.
    pub fn new(
        name: impl Into<Arc<str>>,
        inputs: impl Fn(&K, &I) -> I + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            version: 0,
            tunables: Vec::new(),
            inputs: Arc::new(inputs),
            validate: Arc::new(|_| Ok(())),
            checksum: OnceLock::new(),
        }
    }

    /// Adds a candidate. The first one is the default, which is used while others are measured. The last one is the
    /// reference that [`TunableSet::autotune_checks`] compares the others with.
    #[must_use]
    pub fn with(mut self, tunable: Tunable<I, O>) -> Self {
        self.tunables.push(tunable);
        self.checksum = OnceLock::new();
        self
    }

    /// Sets the version. Change it if candidates have changed under the same names, so that stored choices become
    /// invalid.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self.checksum = OnceLock::new();
        self
    }

    /// Sets a function that validates each output after its work has completed and before its time counts. It is
    /// necessary for a measure that does not observe failures after the launch, such as the host's clock: read the
    /// output, which returns the failure. [`StreamClock`](crate::StreamClock) eliminates failed work itself.
    #[must_use]
    pub fn settled<E: fmt::Display>(
        mut self,
        settled: impl Fn(&O) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        self.validate = Arc::new(move |output| settled(output).map_err(Failure::new));
        self
    }

    /// Returns the name of the set.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the names of the candidates, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tunables.iter().map(|tunable| tunable.name.as_ref())
    }

    /// Returns the number of candidates.
    pub fn len(&self) -> usize {
        self.tunables.len()
    }

    /// Returns `true` if there are no candidates.
    pub fn is_empty(&self) -> bool {
        self.tunables.is_empty()
    }

    /// Returns the checksum of the set: of its name, the names of its candidates in order, and its version. A stored
    /// choice is valid only for a set with the same checksum.
    ///
    /// ```
    /// # use millstream_tune::{Tunable, TunableSet};
    /// let set = |name| {
    ///     TunableSet::new("sum", |_: &u32, x: &u32| *x)
    ///         .with(Tunable::new(name, |x: u32| Ok::<_, String>(x)))
    /// };
    /// assert_eq!(set("a").checksum(), set("a").checksum());
    /// assert_ne!(set("a").checksum(), set("b").checksum());
    /// assert_ne!(set("a").checksum(), set("a").version(1).checksum());
    /// ```
    pub fn checksum(&self) -> Checksum {
        *self.checksum.get_or_init(|| {
            let mut hasher = Sha256::new();
            hasher.update(self.version.to_le_bytes());
            for name in std::iter::once(self.name.as_ref()).chain(self.names()) {
                // The length makes the text of two different lists of names different.
                hasher.update((name.len() as u64).to_le_bytes());
                hasher.update(name);
            }
            Checksum::of(&hasher.finalize())
        })
    }
}

/// The checksum of a set of candidates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Checksum([u8; 8]);

impl Checksum {
    pub(crate) fn of(digest: &[u8]) -> Self {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest[..8]);
        Self(bytes)
    }

    /// Parses a checksum as it is displayed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = u64::from_str_radix(text, 16).ok()?;
        (text.len() == 16).then_some(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_checksum_can_be_parsed() {
        let sum = Checksum([1, 2, 3, 4, 5, 6, 7, 255]);
        assert_eq!(Checksum::parse(&sum.to_string()), Some(sum));
        for wrong in ["", "1", "zz02030405060708", "01020304050607080"] {
            assert_eq!(Checksum::parse(wrong), None);
        }
    }
}
