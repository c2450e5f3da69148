//! What a buffer must hold: a pattern that every step maps to another one, and how reading it may fail instead.
//!
//! Element `i` is `base + i * stride`, wrapping. Filling, adding, copying and mixing keep that form, so that what a
//! buffer of any size must hold is two numbers, and every element that is read is checked.

use millstream::{Error, Failure, Reason};

/// The elements of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    pub(crate) base: u32,
    pub(crate) stride: u32,
}

impl Pattern {
    pub(crate) fn at(self, index: usize) -> u32 {
        self.base
            .wrapping_add(self.stride.wrapping_mul(index as u32))
    }

    pub(crate) fn elements(self, len: usize) -> Vec<u32> {
        (0..len).map(|index| self.at(index)).collect()
    }

    /// The same base everywhere.
    pub(crate) fn flat(self) -> Self {
        Self { stride: 0, ..self }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            base: self.base.wrapping_add(other.base),
            stride: self.stride.wrapping_add(other.stride),
        }
    }
}

/// Why a read may fail though nothing is wrong, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Excuses(u8);

impl Excuses {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const CANCELLED: Self = Self(1);
    pub(crate) const DEADLINE: Self = Self(2);
    pub(crate) const PANICKED: Self = Self(4);
    pub(crate) const MEMORY: Self = Self(8);
    /// The simulator was told to fail.
    pub(crate) const INJECTED: Self = Self(16);

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The excuse of a failure; none has none.
    fn of(failure: &Failure) -> Option<Self> {
        match &failure.reason {
            Reason::Cancelled => Some(Self::CANCELLED),
            Reason::DeadlinePassed => Some(Self::DEADLINE),
            Reason::Panicked(said) if said.contains(ON_PURPOSE) => Some(Self::PANICKED),
            Reason::OutOfMemory { .. } => Some(Self::MEMORY),
            Reason::Refused(why) if why.contains("injected fault") => Some(Self::INJECTED),
            _ => None,
        }
    }
}

/// What kernels panic with that are to panic.
pub(crate) const ON_PURPOSE: &str = "the soak panics on purpose";

/// What a buffer must hold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Expected {
    pub(crate) pattern: Pattern,
    /// Reading may fail for these reasons.
    pub(crate) excuses: Excuses,
    /// Reading must fail, for one of them.
    pub(crate) fails: bool,
}

impl Expected {
    /// A task defined every element; it may have failed itself for these reasons.
    pub(crate) fn defined(pattern: Pattern, excuses: Excuses) -> Self {
        Self {
            pattern,
            excuses,
            fails: false,
        }
    }

    /// A task changed it, and may have failed itself for these reasons.
    pub(crate) fn changed(self, by: Pattern, excuses: Excuses) -> Self {
        Self {
            pattern: self.pattern.plus(by),
            excuses: self.excuses.and(excuses),
            ..self
        }
    }

    /// A task panicked while it updated it.
    pub(crate) fn panicked(self) -> Self {
        Self {
            excuses: self.excuses.and(Excuses::PANICKED),
            fails: true,
            ..self
        }
    }

    /// The sum of two.
    pub(crate) fn mixed(self, other: Self) -> Self {
        Self {
            pattern: self.pattern.plus(other.pattern),
            excuses: self.excuses.and(other.excuses),
            fails: self.fails || other.fails,
        }
    }

    /// What a read of the `len` elements from `start` on brought: right, or what is wrong with it.
    pub(crate) fn check(
        &self,
        start: usize,
        len: usize,
        answer: &Result<Vec<u32>, Error>,
    ) -> Result<Outcome, String> {
        match answer {
            Ok(_) if self.fails => Err("data was read where a task had panicked".to_owned()),
            Ok(got) if got.len() != len => Err(format!("{} elements came, not {len}", got.len())),
            Ok(got) => {
                let wrong = (0..len).find(|index| got[*index] != self.pattern.at(start + index));
                match wrong {
                    None => Ok(Outcome::Data),
                    Some(index) => Err(format!(
                        "element {} of {len} is {}, not {}",
                        start + index,
                        got[index],
                        self.pattern.at(start + index)
                    )),
                }
            }
            Err(Error::Failed(failure)) => {
                let excused =
                    Excuses::of(failure.root()).is_some_and(|excuse| self.excuses.has(excuse));
                match excused {
                    true => Ok(Outcome::Failed),
                    false => Err(format!("without a reason to fail: {failure}")),
                }
            }
            Err(Error::DeviceLost { .. }) if self.excuses.has(Excuses::INJECTED) => {
                Ok(Outcome::Lost)
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// What an answer was, where it was right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The data.
    Data,
    /// A failure that was to be expected.
    Failed,
    /// The device is lost.
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERN: Pattern = Pattern { base: 5, stride: 3 };

    fn failed(reason: Reason) -> Result<Vec<u32>, Error> {
        Err(Error::Failed(Failure::not_run(&"task".into(), reason)))
    }

    #[test]
    fn one_wrong_element_is_noticed() {
        let expected = Expected::defined(PATTERN, Excuses::NONE);
        let mut data = PATTERN.elements(100);
        assert_eq!(expected.check(0, 100, &Ok(data.clone())), Ok(Outcome::Data));
        data[77] ^= 1;
        let said = expected.check(0, 100, &Ok(data.clone())).unwrap_err();
        assert!(said.starts_with("element 77 of 100 is"), "{said}");
        assert!(expected.check(0, 101, &Ok(data)).is_err());
    }

    #[test]
    fn a_view_is_checked_from_where_it_starts() {
        let expected = Expected::defined(PATTERN, Excuses::NONE);
        let view = PATTERN.elements(20).split_off(8);
        assert!(expected.check(8, 12, &Ok(view.clone())).is_ok());
        assert!(expected.check(7, 12, &Ok(view)).is_err());
    }

    #[test]
    fn only_what_was_to_be_expected_excuses_a_failure() {
        let expected = Expected::defined(PATTERN, Excuses::CANCELLED);
        assert_eq!(
            expected.check(0, 1, &failed(Reason::Cancelled)),
            Ok(Outcome::Failed)
        );
        for reason in [
            Reason::DeadlinePassed,
            Reason::Lost,
            Reason::Panicked("boom".into()),
            Reason::Refused("no".into()),
        ] {
            assert!(expected.check(0, 1, &failed(reason)).is_err());
        }
        let lost = Err(Error::DeviceLost {
            epoch: 0,
            recovery: millstream::Recovery::SameProcess,
        });
        assert!(expected.check(0, 1, &lost).is_err());
        let injected = Expected::defined(PATTERN, Excuses::INJECTED);
        assert_eq!(injected.check(0, 1, &lost), Ok(Outcome::Lost));
    }

    #[test]
    fn what_panicked_must_not_be_read_as_data_until_it_is_defined_anew() {
        let expected = Expected::defined(PATTERN, Excuses::NONE).panicked();
        assert!(expected.check(0, 4, &Ok(PATTERN.elements(4))).is_err());
        let boom = || failed(Reason::Panicked(ON_PURPOSE.into()));
        assert_eq!(expected.check(0, 4, &boom()), Ok(Outcome::Failed));
        let mixed = Expected::defined(PATTERN, Excuses::NONE).mixed(expected);
        assert!(mixed.fails && mixed.check(0, 4, &boom()).is_ok());
        let healed = Expected::defined(PATTERN, Excuses::NONE);
        assert!(healed.check(0, 4, &boom()).is_err());
    }
}
