//! The threads of a launch, and what those of a cube do together.

use super::{Arguments, Frame, Jump};
use crate::number::{Binary, Compare, Ty, Unary};
use crate::tree::{Expr, Fold, Index, Kernel, Shuffle, Statement, Tally, Together, Value, Var};

/// Runs all threads of a launch.
pub fn launch(kernel: &Kernel, arguments: &mut Arguments) {
    let len = kernel.cube.unwrap_or(1);
    for first in (0..arguments.threads).step_by(len) {
        let mut values = vec![Vec::new(); kernel.variables.len()];
        for (value, scalar) in values.iter_mut().zip(&arguments.scalars) {
            value.clone_from(scalar);
        }
        let shared = kernel.shared.iter();
        let shared = shared.map(|of| vec![0; len * of.size(&kernel.structs)]);
        let mut cube = Cube {
            kernel,
            threads: vec![Some(values); len],
            shared: shared.collect(),
            first,
            arguments,
        };
        cube.statements(&kernel.body);
    }
}

/// A running cube.
struct Cube<'a> {
    kernel: &'a Kernel,
    /// The variables of each thread; `None` if it has returned.
    threads: Vec<Option<Vec<Vec<u64>>>>,
    shared: Vec<Vec<u64>>,
    /// The number of its first thread.
    first: usize,
    arguments: &'a mut Arguments,
}

impl Cube<'_> {
    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Together(together) => self.together(together),
                other => drop(self.each(|thread| thread.statement(other))),
            }
        }
    }

    /// Runs each thread that has not returned, and returns the results of all, if none has.
    fn each<T>(&mut self, run: impl Fn(&mut Frame<'_>) -> Result<T, Jump>) -> Option<Vec<T>> {
        let mut results = Vec::new();
        for (at, slot) in self.threads.iter_mut().enumerate() {
            let Some(values) = slot.take() else {
                continue;
            };
            let mut frame = Frame {
                kernel: self.kernel,
                variables: &self.kernel.variables,
                values,
                buffers: &mut self.arguments.buffers,
                shared: &self.shared,
                // A helper function has one buffer at most.
                passed: None,
                thread: self.first + at,
                threads: self.arguments.threads,
            };
            // A jump out of the kernel ends the thread.
            if let Ok(result) = run(&mut frame) {
                results.push(result);
                *slot = Some(frame.values);
            }
        }
        (results.len() == self.threads.len()).then_some(results)
    }

    fn each_number(&mut self, value: &Expr) -> Vec<u64> {
        let numbers = self.each(|thread| thread.expr(value));
        numbers.expect("no thread has returned")
    }

    fn together(&mut self, it: &Together) {
        match it {
            Together::Store(array, value) => self.store(*array, value),
            Together::Exchange(var, array, value, index) => {
                self.store(*array, value);
                let places = self.each_index(index);
                let size = self.kernel.shared[*array].size(&self.kernel.structs);
                for (values, place) in self.threads.iter_mut().flatten().zip(places) {
                    values[*var] = self.shared[*array][place * size..][..size].to_vec();
                }
            }
            Together::Tally(tally) => self.tally(tally),
            Together::Reduce(var, fold, width, value) => {
                let numbers = self.each_number(value);
                let width = width.unwrap_or(numbers.len());
                let folded = numbers.chunks(width).flat_map(|part| {
                    let mut part = part.to_vec();
                    while part.len() > 1 {
                        let upper = part.split_off(part.len() / 2);
                        for (a, b) in part.iter_mut().zip(upper) {
                            *a = fold.of(value.ty, *a, b);
                        }
                    }
                    vec![fold.result(value.ty, part[0]); width]
                });
                let folded = folded.collect();
                self.set(*var, folded);
            }
            Together::Shuffle(var, shuffle, width, value, by) => {
                let numbers = self.each_number(value);
                let places = self.each_number(by);
                let shuffled = (0..numbers.len()).map(|at| {
                    let place = shuffle.place(at % width, *width, by.ty.int(places[at]));
                    place.map_or(numbers[at], |place| numbers[at / width * width + place])
                });
                let shuffled = shuffled.collect();
                self.set(*var, shuffled);
            }
            Together::For(var, end, body) => {
                for number in 0..self.each_number(end)[0] {
                    self.set(*var, vec![number; self.threads.len()]);
                    self.statements(body);
                }
            }
            Together::If(condition, body) => {
                if self.each_number(condition)[0] != 0 {
                    self.statements(body);
                }
            }
        }
    }

    fn each_index(&mut self, index: &Index) -> Vec<usize> {
        let len = self.threads.len();
        let places = self.each(|thread| thread.index(index, len));
        places.expect("no thread has returned")
    }

    fn tally(&mut self, it: &Tally) {
        let mut counters = self.each_number(&it.first);
        let (places, values) = (self.each_index(&it.at), self.each_number(&it.value));
        for (place, value) in places.into_iter().zip(values) {
            counters[place] = it.operation.after(it.value.ty, counters[place], &[value]);
        }
        let found = self.each_index(&it.from).into_iter();
        let found = found.map(|place| counters[place]).collect();
        self.set(it.var, found);
    }

    fn store(&mut self, array: usize, value: &Value) {
        let values = self.each(|thread| thread.value(value));
        self.shared[array] = values.expect("no thread has returned").concat();
    }

    fn set(&mut self, var: Var, numbers: Vec<u64>) {
        for (values, number) in self.threads.iter_mut().flatten().zip(numbers) {
            values[var] = vec![number];
        }
    }
}

impl Fold {
    fn of(self, of: Ty, a: u64, b: u64) -> u64 {
        let is_less = of.compare(Compare::Lt, a, b);
        match self {
            Self::Sum => of.binary(Binary::Add, a, b),
            Self::Product => of.binary(Binary::Mul, a, b),
            // NaN if one is.
            _ if of.compare(Compare::Ne, a, a) => a,
            _ if of.compare(Compare::Ne, b, b) => b,
            Self::Min => [b, a][usize::from(is_less)],
            Self::Max => [a, b][usize::from(is_less)],
        }
    }

    /// The least of floats has no sign: see the text.
    fn result(self, of: Ty, value: u64) -> u64 {
        match self {
            Self::Min | Self::Max if of.is_float() => of.unary(Unary::Abs, value),
            _ => value,
        }
    }
}

impl Shuffle {
    /// Returns the place of the value that the thread of a place gets, if there is one.
    fn place(self, at: usize, width: usize, by: i128) -> Option<usize> {
        let by = usize::try_from(by).ok().filter(|by| *by < width)?;
        match self {
            Self::Lane => Some(by),
            Self::Xor => Some(at ^ by),
            Self::Down => Some(at + by).filter(|place| *place < width),
            Self::Up => at.checked_sub(by),
        }
    }
}
