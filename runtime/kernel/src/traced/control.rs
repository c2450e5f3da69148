//! Branches, loops, and calls of helper functions.

use std::cell::{Cell, RefCell};

use millstream_ir::DType;
use millstream_ir::ssa::{Val, Var};

use super::{Traced, Tracer, V, lit};
use crate::number::Int;

/// Runs a block if the condition holds.
pub fn when<'k>(k: Tracer<'k>, condition: V<'k, bool>, then: impl FnOnce()) {
    k.builder.when(condition.val(), then);
}

/// Runs one of two blocks, and returns the value of the one that ran.
pub fn branch<'k, R: Traced<'k>>(
    k: Tracer<'k>,
    condition: V<'k, bool>,
    then: impl FnOnce() -> R,
    otherwise: impl FnOnce() -> R,
) -> R {
    let result = R::unset(k);
    let then = || result.assign(then());
    let otherwise = || result.assign(otherwise());
    k.builder.either(condition.val(), then, otherwise);
    result.load()
}

/// `a && b`, where `b` is computed only if `a` holds.
pub fn all<'k>(k: Tracer<'k>, a: V<'k, bool>, b: impl FnOnce() -> V<'k, bool>) -> V<'k, bool> {
    branch(k, a, b, || lit(k, false))
}

/// `a || b`, where `b` is computed only if `a` does not hold.
pub fn any<'k>(k: Tracer<'k>, a: V<'k, bool>, b: impl FnOnce() -> V<'k, bool>) -> V<'k, bool> {
    branch(k, a, || lit(k, true), b)
}

impl<'k> Tracer<'k> {
    /// Leaves the innermost loop.
    pub fn break_loop(self) {
        self.builder.break_();
    }

    /// Goes on with the next iteration of the innermost loop.
    pub fn continue_loop(self) {
        self.builder.continue_();
    }

    /// Ends the thread.
    pub fn end_thread(self) {
        self.builder.return_();
    }

    /// Adds a loop, and leaves the loop around it if a helper function returns from within.
    fn looped(self, add: impl FnOnce()) {
        self.loops.borrow_mut().push(None);
        add();
        if let Some(Some(flag)) = self.loops.borrow_mut().pop() {
            self.builder.when(flag.get(), || self.builder.break_());
        }
    }
}

/// `while condition { .. }`.
pub fn while_loop<'k>(k: Tracer<'k>, condition: impl FnOnce() -> V<'k, bool>, body: impl FnOnce()) {
    k.looped(|| k.builder.while_(|| condition().val(), body));
}

/// `loop { .. }`.
pub fn repeat(k: Tracer<'_>, body: impl FnOnce()) {
    k.looped(|| k.builder.loop_(body));
}

/// Returns a bound of a range as the program has it. Of an unsigned one that is beyond `i64`, the greatest `i64`.
fn bound<T: Int>(bound: V<'_, T>) -> Val<'_> {
    let value = bound.val();
    match T::DTYPE {
        DType::I64 => value,
        DType::U64 if bound.constant().is_some_and(|bits| bits.cast_signed() >= 0) => {
            value.bits(DType::I64)
        }
        DType::U64 => value.min(i64::MAX).bits(DType::I64),
        _ => value.cast(DType::I64),
    }
}

/// Returns an index of the program as a number of the kernel.
fn number<T: Int>(index: Val<'_>) -> V<'_, T> {
    V::new(match T::DTYPE {
        DType::I64 => index,
        DType::U64 => index.bits(DType::U64),
        dtype => index.cast(dtype),
    })
}

/// `for i in start..end { .. }`.
pub fn for_range<'k, T: Int>(
    k: Tracer<'k>,
    start: V<'k, T>,
    end: V<'k, T>,
    body: impl FnOnce(V<'k, T>),
) {
    for_steps(k, start, end, lit(k, T::of_bits(1)), body);
}

/// `for i in start..=end { .. }`.
pub fn for_inclusive<'k, T: Int>(
    k: Tracer<'k>,
    start: V<'k, T>,
    end: V<'k, T>,
    body: impl FnOnce(V<'k, T>),
) {
    let [start, end] = [start, end].map(bound);
    k.looped(|| {
        k.builder
            .range(start, end + 1, 1, |index| body(number(index)));
    });
}

/// `for i in (start..end).step_by(step) { .. }`.
pub fn for_steps<'k, T: Int>(
    k: Tracer<'k>,
    start: V<'k, T>,
    end: V<'k, T>,
    step: V<'k, T>,
    body: impl FnOnce(V<'k, T>),
) {
    let [start, end, step] = [start, end, step].map(bound);
    k.looped(|| {
        k.builder
            .range(start, end, step, |index| body(number(index)));
    });
}

/// `for i in (start..end).rev() { .. }`.
pub fn for_reversed<'k, T: Int>(
    k: Tracer<'k>,
    start: V<'k, T>,
    end: V<'k, T>,
    body: impl FnOnce(V<'k, T>),
) {
    let [start, end] = [start, end].map(bound);
    let index = |up: Val<'k>| number(start + (end - 1 - up));
    k.looped(|| k.builder.range(start, end, 1, |up| body(index(up))));
}

/// The way out of a helper function.
pub struct Exit<'k, R> {
    k: Tracer<'k>,
    /// What the function returns.
    result: R,
    /// Whether it has returned.
    flag: Var<'k>,
    /// The number of open loops at the call.
    depth: usize,
}

impl<'k, R: Traced<'k>> Exit<'k, R> {
    /// Returns from the function: leaves the innermost loop, which goes on to leave the one around it.
    pub fn with(&self, value: R) {
        self.result.assign(value);
        if let Some(inside @ [_, ..]) = self.k.loops.borrow_mut().get_mut(self.depth..) {
            self.flag.set(lit(self.k, true).val());
            inside.iter_mut().for_each(|ends| *ends = Some(self.flag));
        }
        self.k.builder.break_();
    }
}

/// The most helper functions that call each other, so that a function which calls itself by way of others is an error and
/// no overflow of the stack.
const DEPTH_MAX: usize = 64;

/// Traces a helper function. One that calls itself has no program: its kernel is refused.
pub fn helper<'k, R: Traced<'k>>(
    k: Tracer<'k>,
    name: &str,
    body: impl FnOnce(Tracer<'k>) -> R,
) -> R {
    let depth = k.depth + 1;
    if depth > DEPTH_MAX {
        k.is_endless.set(true);
        k.builder.refuse(format!(
            "calls helper functions that call each other more than {DEPTH_MAX} deep, at last `{name}`: \
             kernels have no recursion; write a loop"
        ));
    }
    // Otherwise a function that calls itself twice would be traced 2^64 times.
    match k.is_endless.get() {
        true => R::unset(k),
        false => body(Tracer { depth, ..k }),
    }
}

/// Calls a helper function that has `return`: as a loop that ends with its first iteration.
pub fn call<'k, R: Traced<'k>>(k: Tracer<'k>, body: impl FnOnce(&Exit<'k, R>) -> R) -> R {
    let exit = Exit {
        k,
        result: R::unset(k),
        flag: k.builder.var("returned", lit(k, false).val()),
        depth: k.loops.borrow().len(),
    };
    k.builder.loop_(|| {
        exit.result.assign(body(&exit));
        k.builder.break_();
    });
    exit.result.load()
}

/// Traces a body.
pub(crate) fn trace(builder: &millstream_ir::ssa::Builder, body: impl FnOnce(Tracer<'_>)) {
    let (loops, is_endless) = (RefCell::new(Vec::new()), Cell::new(false));
    body(Tracer {
        builder,
        loops: &loops,
        depth: 0,
        is_endless: &is_endless,
    });
}
