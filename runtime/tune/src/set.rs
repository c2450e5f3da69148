//! Sets of candidates: candidates by name, and the inputs to measure them with.

use std::fmt;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use crate::error::Failure;

type Run<I, O> = Arc<dyn Fn(I) -> Result<O, Failure> + Send + Sync>;
type Inputs<K, I> = Arc<dyn Fn(&K, &I) -> I + Send + Sync>;
type Validate<O> = Arc<dyn Fn(&O) -> Result<(), Failure> + Send + Sync>;
type Priority<K> = Arc<dyn Fn(&K) -> i8 + Send + Sync>;

/// A group of candidates that are tried together. Groups of lower priority are tried only if no candidate of higher
/// priority works.
pub struct TuneGroup<K> {
    priority: Priority<K>,
}

impl<K> TuneGroup<K> {
    /// Creates a group whose priority depends on the key. Candidates without a group have priority 0; candidates with a
    /// negative priority are not tried.
    pub fn new(priority: impl Fn(&K) -> i8 + Send + Sync + 'static) -> Self {
        Self {
            priority: Arc::new(priority),
        }
    }
}

/// A candidate: one implementation that computes an `O` from an `I`.
pub struct Tunable<K, I, O> {
    pub(crate) name: Arc<str>,
    pub(crate) run: Run<I, O>,
    groups: Vec<Priority<K>>,
}

impl<K, I, O> Tunable<K, I, O> {
    /// Creates a candidate. `run` submits work to the device and returns. An error or a panic eliminates the candidate.
    pub fn new<E: fmt::Display>(
        name: impl Into<Arc<str>>,
        run: impl Fn(I) -> Result<O, E> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            run: Arc::new(move |inputs| run(inputs).map_err(Failure::new)),
            groups: Vec::new(),
        }
    }

    /// Adds the candidate to a group. If it is in several groups, the highest priority counts.
    #[must_use]
    pub fn group(mut self, group: &TuneGroup<K>) -> Self {
        self.groups.push(group.priority.clone());
        self
    }

    fn priority(&self, key: &K) -> i8 {
        let priorities = self.groups.iter().map(|priority| priority(key));
        priorities.max().unwrap_or(0)
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
    pub(crate) tunables: Vec<Tunable<K, I, O>>,
    pub(crate) inputs: Inputs<K, I>,
    pub(crate) validate: Validate<O>,
    default: usize,
    reference: Option<usize>,
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
            default: 0,
            reference: None,
            checksum: OnceLock::new(),
        }
    }

    /// Adds a candidate. The first one is the default, which is used while others are measured.
    #[must_use]
    pub fn with(mut self, tunable: Tunable<K, I, O>) -> Self {
        self.tunables.push(tunable);
        self.checksum = OnceLock::new();
        self
    }

    /// Sets the default candidate. An unknown name is ignored.
    #[must_use]
    pub fn default_to(mut self, name: &str) -> Self {
        self.default = self.index(name).unwrap_or(self.default);
        self
    }

    /// Sets the candidate that [`TunableSet::autotune_checks`] compares the others with. Default: the last one. An
    /// unknown name is ignored.
    #[must_use]
    pub fn reference(mut self, name: &str) -> Self {
        self.reference = self.index(name).or(self.reference);
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

    fn index(&self, name: &str) -> Option<usize> {
        self.names().position(|other| other == name)
    }

    /// Returns the index of the default.
    pub fn default_index(&self) -> usize {
        self.default
    }

    /// Returns the index of the reference; `None` for an empty set.
    pub fn reference_index(&self) -> Option<usize> {
        self.reference.or(self.tunables.len().checked_sub(1))
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
        *self.checksum.get_or_init(|| self.compute_checksum())
    }

    fn compute_checksum(&self) -> Checksum {
        let mut hasher = Sha256::new();
        hasher.update(self.version.to_le_bytes());
        for name in std::iter::once(self.name.as_ref()).chain(self.names()) {
            // The length makes the text of two different lists of names different.
            hasher.update((name.len() as u64).to_le_bytes());
            hasher.update(name);
        }
        Checksum::of(&hasher.finalize())
    }

    /// Returns the candidates by descending priority, without those that must not be tried.
    pub(crate) fn levels(&self, key: &K) -> Vec<Vec<usize>> {
        let mut all: Vec<(i8, usize)> = self
            .tunables
            .iter()
            .enumerate()
            .map(|(index, tunable)| (tunable.priority(key), index))
            .filter(|(priority, _)| *priority >= 0)
            .collect();
        all.sort_by_key(|(priority, index)| (-i16::from(*priority), *index));
        let levels = all.chunk_by(|(one, _), (other, _)| one == other);
        levels
            .map(|level| level.iter().map(|(_, index)| *index).collect())
            .collect()
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
    fn candidates_are_tried_by_priority_and_never_with_a_negative_one() {
        let small = TuneGroup::new(|len: &u32| if *len < 10 { 1 } else { -1 });
        let never = TuneGroup::new(|_: &u32| -1);
        let candidate = |name: &str| Tunable::new(name, |x: u32| Ok::<_, String>(x));
        let set = TunableSet::new("set", |_: &u32, x: &u32| *x)
            .with(candidate("plain"))
            .with(candidate("small").group(&small))
            .with(candidate("never").group(&never))
            .with(candidate("both").group(&never).group(&small));
        assert_eq!(set.levels(&5), [vec![1, 3], vec![0]]);
        assert_eq!(set.levels(&50), [vec![0]]);
        let set = set
            .default_to("small")
            .default_to("none")
            .reference("plain");
        assert_eq!((set.default_index(), set.reference_index()), (1, Some(0)));
    }

    #[test]
    fn displayed_checksum_can_be_parsed() {
        let sum = Checksum([1, 2, 3, 4, 5, 6, 7, 255]);
        assert_eq!(Checksum::parse(&sum.to_string()), Some(sum));
        for wrong in ["", "1", "zz02030405060708", "01020304050607080"] {
            assert_eq!(Checksum::parse(wrong), None);
        }
    }
}
