//! What is chosen from: candidates by name, and inputs to try them on.

use std::fmt;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use crate::error::Failure;

type Run<I, O> = Arc<dyn Fn(I) -> Result<O, Failure> + Send + Sync>;
type Inputs<K, I> = Arc<dyn Fn(&K, &I) -> I + Send + Sync>;
type Settled<O> = Arc<dyn Fn(&O) -> Result<(), Failure> + Send + Sync>;
type Priority<K> = Arc<dyn Fn(&K) -> i8 + Send + Sync>;

/// Candidates that are tried together, before those of a group of less priority, which are only tried where none of this one works.
pub struct TuneGroup<K> {
    priority: Priority<K>,
}

impl<K> TuneGroup<K> {
    /// A group with a priority by key: 0 is that of candidates without a group, and candidates of a negative one are not tried.
    pub fn new(priority: impl Fn(&K) -> i8 + Send + Sync + 'static) -> Self {
        Self {
            priority: Arc::new(priority),
        }
    }
}

/// A candidate: one way to make an `O` of an `I`.
pub struct Tunable<K, I, O> {
    pub(crate) name: Arc<str>,
    pub(crate) run: Run<I, O>,
    groups: Vec<Priority<K>>,
}

impl<K, I, O> Tunable<K, I, O> {
    /// A candidate of this name. `run` gives work to the device and returns; an error, or a panic, drops the candidate.
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

    /// Puts it into a group, too. Of several groups the greatest priority counts.
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

/// Candidates of which each does the same, and how inputs to try them on are made.
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
    pub(crate) settled: Settled<O>,
    default: usize,
    reference: Option<usize>,
    /// Compared wherever a key is looked up, and so made once.
    sum: OnceLock<Checksum>,
}

impl<K, I, O> TunableSet<K, I, O> {
    /// An empty set. `inputs` is asked only where candidates are tried: it makes what they are tried on, of the key and of the inputs that
    /// the caller has, which each candidate gets a clone of.
    pub fn new(
        name: impl Into<Arc<str>>,
        inputs: impl Fn(&K, &I) -> I + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            version: 0,
            tunables: Vec::new(),
            inputs: Arc::new(inputs),
            settled: Arc::new(|_| Ok(())),
            default: 0,
            reference: None,
            sum: OnceLock::new(),
        }
    }

    /// Adds a candidate. The first is the default: what is used while others are measured.
    #[must_use]
    pub fn with(mut self, tunable: Tunable<K, I, O>) -> Self {
        self.tunables.push(tunable);
        self.sum = OnceLock::new();
        self
    }

    /// Makes this candidate the default. Without one of that name nothing changes.
    #[must_use]
    pub fn default_to(mut self, name: &str) -> Self {
        self.default = self.index(name).unwrap_or(self.default);
        self
    }

    /// Makes this candidate the one that [`TunableSet::autotune_checks`] compares the others with; the last one, where nothing is said.
    #[must_use]
    pub fn reference(mut self, name: &str) -> Self {
        self.reference = self.index(name).or(self.reference);
        self
    }

    /// Says that candidates of the same names are not what they were: what was tuned before is stale.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self.sum = OnceLock::new();
        self
    }

    /// Asked of each output once its work is over, and before its time counts: whether it is what it should be. A measure that cannot tell by
    /// itself that work failed after its launch, as the host's clock, needs this: read the output, which answers the failure.
    /// [`StreamClock`](crate::StreamClock) drops failed work by itself.
    #[must_use]
    pub fn settled<E: fmt::Display>(
        mut self,
        settled: impl Fn(&O) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        self.settled = Arc::new(move |output| settled(output).map_err(Failure::new));
        self
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The candidates' names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tunables.iter().map(|tunable| tunable.name.as_ref())
    }

    /// How many candidates there are.
    pub fn len(&self) -> usize {
        self.tunables.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.tunables.is_empty()
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.names().position(|other| other == name)
    }

    /// The default's index.
    pub fn default_index(&self) -> usize {
        self.default
    }

    /// The reference's index; none of an empty set.
    pub fn reference_index(&self) -> Option<usize> {
        self.reference.or(self.tunables.len().checked_sub(1))
    }

    /// What tells this set from another: names in order, and the version. A choice that was stored is one of the set with the same.
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
        *self.sum.get_or_init(|| self.sum())
    }

    fn sum(&self) -> Checksum {
        let mut hasher = Sha256::new();
        hasher.update(self.version.to_le_bytes());
        for name in std::iter::once(self.name.as_ref()).chain(self.names()) {
            // With its length: no two lists of names are one text.
            hasher.update((name.len() as u64).to_le_bytes());
            hasher.update(name);
        }
        Checksum::of(&hasher.finalize())
    }

    /// Candidates by priority, the greatest first, without those that are not to be tried.
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

/// What tells one set of candidates from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Checksum([u8; 8]);

impl Checksum {
    pub(crate) fn of(digest: &[u8]) -> Self {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest[..8]);
        Self(bytes)
    }

    /// As it is written.
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
    fn candidates_are_tried_by_priority_and_negative_ones_never() {
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
    fn checksums_are_read_as_they_are_written() {
        let sum = Checksum([1, 2, 3, 4, 5, 6, 7, 255]);
        assert_eq!(Checksum::parse(&sum.to_string()), Some(sum));
        for wrong in ["", "1", "zz02030405060708", "01020304050607080"] {
            assert_eq!(Checksum::parse(wrong), None);
        }
    }
}
