//! The oracle: the expected contents of a buffer, and the failures that a read of it may return instead.
//!
//! Contents are runs of elements. Element `i` of a run is `base + i * stride`, wrapping. Filling, adding, copying and
//! mixing keep that form, so a few numbers describe a buffer of any size, and every element that is read can be
//! checked. Failures follow I7: a task that reads one failed element fails all elements that it writes
//! ([`Contents::by_one_task`]); a task that overwrites elements heals them.

use std::ops::Range;

use millstream::{Error, Failure, Reason};

use crate::kernels::{BOOM, mixed};

/// The values of consecutive elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// Element 0.
    pub base: u32,
    /// The difference of an element and the one before it.
    pub stride: u32,
}

impl Pattern {
    /// Returns the element at `index`.
    pub fn at(self, index: usize) -> u32 {
        self.base
            .wrapping_add(self.stride.wrapping_mul(index as u32))
    }

    /// Returns the first `len` elements.
    pub fn elements(self, len: usize) -> Vec<u32> {
        (0..len).map(|index| self.at(index)).collect()
    }

    /// Returns the pattern with all elements equal to the base.
    pub fn flat(self) -> Self {
        Self { stride: 0, ..self }
    }

    /// Returns the pattern whose first element is this one's element `start`.
    fn from(self, start: usize) -> Self {
        Self {
            base: self.at(start),
            ..self
        }
    }

    /// Returns the pattern whose element `start` is this one's first element.
    fn behind(self, start: usize) -> Self {
        let before = self.stride.wrapping_mul(start as u32);
        Self {
            base: self.base.wrapping_sub(before),
            ..self
        }
    }
}

/// Why a task fails that the program ends itself.
pub(crate) const ON_PURPOSE: &str = "on purpose";

/// A set of reasons for which a read may fail.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AllowedFailures(u8);

impl AllowedFailures {
    /// No reason: each failure is a violation.
    pub const NONE: Self = Self(0);
    /// A task was cancelled.
    pub const CANCELLED: Self = Self(1);
    /// The deadline of a task passed.
    pub const DEADLINE: Self = Self(2);
    /// A task failed on purpose: `boom`.
    pub const BOOM: Self = Self(4);
    /// Device memory ran out.
    pub const MEMORY: Self = Self(8);
    /// The simulator injected a fault.
    pub const INJECTED: Self = Self(16);
    /// The device may be lost.
    pub const LOST: Self = Self(32);
    /// A task that the program ends itself failed on purpose.
    pub const OUTSIDE: Self = Self(64);

    /// Returns the union of two sets.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns `true` if `other` is a subset.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the reason of a failure, if a program can cause it.
    fn of(root: &Failure) -> Option<Self> {
        match &root.reason {
            _ if *root.task == *BOOM => Some(Self::BOOM),
            Reason::Cancelled => Some(Self::CANCELLED),
            Reason::DeadlinePassed => Some(Self::DEADLINE),
            Reason::OutOfMemory { .. } => Some(Self::MEMORY),
            Reason::Refused(why) if why.contains("injected fault") => Some(Self::INJECTED),
            Reason::Refused(why) if why == ON_PURPOSE => Some(Self::OUTSIDE),
            Reason::Lost => Some(Self::LOST),
            _ => None,
        }
    }
}

/// The oracle's knowledge about the elements of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// Their values; `None` if no task has written them.
    pub pattern: Option<Pattern>,
    /// Reading them may fail for these reasons.
    pub allowed: AllowedFailures,
    /// Reading them must fail, for one of the reasons in `allowed`.
    pub fails: bool,
}

/// Consecutive elements, up to `end`.
#[derive(Clone, Debug)]
struct Run {
    end: usize,
    known: Known,
}

/// The expected contents of a buffer or of a part of one.
#[derive(Clone, Default, Debug)]
pub struct Contents {
    /// Adjacent and not empty. The patterns count from the start of the contents.
    runs: Vec<Run>,
}

impl Contents {
    /// Returns elements that a task has written. The task may have failed for these reasons.
    pub fn defined(len: usize, pattern: Pattern, allowed: AllowedFailures) -> Self {
        Self::of(len, Some(pattern), allowed)
    }

    /// Returns elements that no task has written.
    pub fn unknown(len: usize) -> Self {
        Self::of(len, None, AllowedFailures::NONE)
    }

    fn of(end: usize, pattern: Option<Pattern>, allowed: AllowedFailures) -> Self {
        let known = Known {
            pattern,
            allowed,
            fails: false,
        };
        Self {
            runs: if end == 0 {
                Vec::new()
            } else {
                vec![Run { end, known }]
            },
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.runs.last().map_or(0, |run| run.end)
    }

    /// Returns `true` if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns `true` if a read must fail.
    pub fn fails(&self) -> bool {
        self.runs.iter().any(|run| run.known.fails)
    }

    /// Returns the reasons for which a read may fail.
    pub fn allowed(&self) -> AllowedFailures {
        let each = self.runs.iter().map(|run| run.known.allowed);
        each.fold(AllowedFailures::NONE, AllowedFailures::and)
    }

    /// Returns a part of the contents.
    pub fn cut(&self, range: Range<usize>) -> Self {
        let mut runs = Vec::new();
        let mut start = 0;
        for run in &self.runs {
            let (from, to) = (start.max(range.start), run.end.min(range.end));
            if from < to {
                let pattern = run.known.pattern.map(|pattern| pattern.from(range.start));
                runs.push(Run {
                    end: to - range.start,
                    known: Known {
                        pattern,
                        ..run.known
                    },
                });
            }
            start = run.end;
        }
        Self { runs }
    }

    /// Replaces the elements from `start` on by `part`.
    pub fn paste(&mut self, start: usize, part: &Self) {
        let end = start + part.len();
        let behind = self.cut(end..self.len());
        *self = self.cut(0..start);
        self.append(part);
        self.append(&behind);
    }

    fn append(&mut self, other: &Self) {
        let start = self.len();
        for run in &other.runs {
            let pattern = run.known.pattern.map(|pattern| pattern.behind(start));
            let known = Known {
                pattern,
                ..run.known
            };
            match self.runs.last_mut() {
                Some(last) if last.known == known => last.end = start + run.end,
                _ => self.runs.push(Run {
                    end: start + run.end,
                    known,
                }),
            }
        }
    }

    /// Returns the result of a task that computes all of these elements together: if one has failed, all have.
    #[must_use]
    pub fn by_one_task(mut self, allowed: AllowedFailures) -> Self {
        let (allowed, fails) = (self.allowed().and(allowed), self.fails());
        for run in &mut self.runs {
            (run.known.allowed, run.known.fails) = (allowed, fails);
        }
        self
    }

    /// Returns the result of a task that adds `by` to each element. The task may fail for these reasons.
    #[must_use]
    pub fn added(mut self, by: u32, allowed: AllowedFailures) -> Self {
        for pattern in self
            .runs
            .iter_mut()
            .filter_map(|run| run.known.pattern.as_mut())
        {
            pattern.base = pattern.base.wrapping_add(by);
        }
        self.by_one_task(allowed)
    }

    /// Returns the result of the kernel `mix` with the same number of other elements.
    #[must_use]
    pub fn mixed(&self, other: &Self, allowed: AllowedFailures) -> Self {
        let mut ends: Vec<usize> = self
            .runs
            .iter()
            .chain(&other.runs)
            .map(|run| run.end)
            .collect();
        ends.sort_unstable();
        ends.dedup();
        let runs = ends.into_iter().map(|end| {
            let (one, two) = (self.known_at(end - 1), other.known_at(end - 1));
            let pattern = one.pattern.zip(two.pattern).map(|(one, two)| Pattern {
                base: mixed(one.base, two.base),
                stride: mixed(one.stride, two.stride),
            });
            let known = Known {
                pattern,
                allowed: one.allowed.and(two.allowed),
                fails: one.fails || two.fails,
            };
            Run { end, known }
        });
        let both = Self {
            runs: runs.collect(),
        };
        both.by_one_task(allowed)
    }

    fn known_at(&self, index: usize) -> Known {
        let run = self.runs.partition_point(|run| run.end <= index);
        self.runs[run].known
    }

    /// Returns the result of a task that updates the elements and fails on purpose.
    #[must_use]
    pub fn failed(mut self, why: AllowedFailures) -> Self {
        let allowed = self.allowed().and(why);
        for run in &mut self.runs {
            (run.known.allowed, run.known.fails) = (allowed, true);
        }
        self
    }

    /// Compares the answer of a read with the contents. The read may fail for these reasons.
    ///
    /// # Errors
    /// A message about the first difference.
    pub fn check(
        &self,
        answer: &Result<Vec<u32>, Error>,
        allowed: AllowedFailures,
    ) -> Result<Outcome, String> {
        let allowed = self.allowed().and(allowed);
        match answer {
            Ok(_) if self.fails() => {
                Err("the output of a failed task was read as data (I7)".to_owned())
            }
            Ok(got) if got.len() != self.len() => Err(format!(
                "expected {} elements, got {}",
                self.len(),
                got.len()
            )),
            Ok(got) => self.compare(got).map(|()| Outcome::Data),
            Err(Error::Failed(failure)) => {
                let reason = AllowedFailures::of(failure.root());
                match reason.is_some_and(|reason| allowed.has(reason)) {
                    true => Ok(Outcome::Failed),
                    false => Err(format!("a read of clean data failed (I7): {failure}")),
                }
            }
            Err(Error::DeviceLost { .. }) if allowed.has(AllowedFailures::LOST) => {
                Ok(Outcome::Lost)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn compare(&self, got: &[u32]) -> Result<(), String> {
        let mut start = 0;
        for run in &self.runs {
            let range = start..run.end;
            start = run.end;
            let Some(pattern) = run.known.pattern else {
                continue;
            };
            if let Some(index) = range
                .clone()
                .find(|index| got[*index] != pattern.at(*index))
            {
                let (len, wrong, right) = (self.len(), got[index], pattern.at(index));
                return Err(format!(
                    "element {index} of {len}: expected {right}, got {wrong}"
                ));
            }
        }
        Ok(())
    }
}

/// The kind of a right answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The expected data.
    Data,
    /// An expected failure.
    Failed,
    /// The device is lost.
    Lost,
}

#[cfg(test)]
#[path = "contents_tests.rs"]
mod tests;
