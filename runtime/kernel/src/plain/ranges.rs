//! The ranges of loops. Their type has the number's alone, so that rustc infers it from the loop's body.

use crate::number::Int;

/// `start..end`.
pub struct Range<T> {
    start: T,
    end: T,
}

/// `start..=end`.
pub struct Inclusive<T> {
    start: T,
    end: T,
    goes: bool,
}

/// `start..end` by a step.
pub struct Steps<T> {
    next: Option<T>,
    end: T,
    step: T,
}

/// `start..end`.
#[inline(always)]
pub fn range<T: Int>(start: T, end: T) -> Range<T> {
    Range { start, end }
}

/// `start..=end`. Not a chain of two ranges, which rustc neither unrolls nor vectorizes.
#[inline(always)]
pub fn inclusive<T: Int>(start: T, end: T) -> Inclusive<T> {
    let goes = start <= end;
    Inclusive { start, end, goes }
}

/// `(start..end).step_by(step)`; nothing if the step is less than 1.
#[inline(always)]
pub fn steps<T: Int>(start: T, end: T, step: T) -> Steps<T> {
    let goes = start < end && step > T::default();
    Steps {
        next: goes.then_some(start),
        end,
        step,
    }
}

/// `(start..end).rev()`.
#[inline(always)]
pub fn reversed<T: Int>(start: T, end: T) -> std::iter::Rev<Range<T>> {
    range(start, end).rev()
}

impl<T: Int> Iterator for Range<T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        let index = self.start;
        (index < self.end).then(|| {
            self.start = index.add(T::of_bits(1));
            index
        })
    }
}

impl<T: Int> DoubleEndedIterator for Range<T> {
    #[inline(always)]
    fn next_back(&mut self) -> Option<T> {
        (self.start < self.end).then(|| {
            self.end = self.end.sub(T::of_bits(1));
            self.end
        })
    }
}

impl<T: Int> Iterator for Inclusive<T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        let index = self.start;
        self.goes.then(|| {
            self.goes = index < self.end;
            self.start = index.add(T::of_bits(1));
            index
        })
    }
}

impl<T: Int> Iterator for Steps<T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        let index = self.next?;
        let next = index.add(self.step);
        // A sum beyond the type's range wraps to a number that is not greater.
        self.next = (next > index && next < self.end).then_some(next);
        Some(index)
    }
}
