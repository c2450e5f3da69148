//! Branches, loops, and calls of helper functions.

use std::cell::{Cell, RefCell};

use millstream_ir::ssa::Val;
use millstream_ir::{CompareOp, DType};

use super::{Traced, Tracer, V, lit};
use crate::number::Int;
use crate::value::{Jump, Leaves, Loop};

/// Runs a block if the condition holds.
pub fn when<'k>(k: Tracer<'k>, condition: V<'k, bool>, then: impl FnOnce()) {
    if condition.constant() != Some(0) {
        k.builder.when(condition.val(), then);
    }
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
    // The arm of a constant condition stays a branch: it may jump, and nothing may follow a jump in its block.
    // What the statement does behind the branch is at its line.
    k.builder.elsewhere(|| match condition.constant() {
        Some(0) => k.builder.when(lit(k, true).val(), otherwise),
        Some(_) => k.builder.when(condition.val(), then),
        None => k.builder.either(condition.val(), then, otherwise),
    });
    result.load()
}

/// `a` if the condition holds, otherwise `b`. Both were computed.
pub fn choose<'k, R: Traced<'k>>(k: Tracer<'k>, condition: V<'k, bool>, a: R, b: R) -> R {
    R::choose(k, condition, a, b)
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
    /// Ends the thread.
    pub fn end_thread(self) {
        self.builder.return_();
    }

    /// Leaves the innermost loop, or goes on with its next iteration.
    pub fn jump(self, jump: Jump) {
        match jump {
            Jump::Break => self.builder.break_(),
            Jump::Continue => self.builder.continue_(),
        }
    }

    /// As [`Tracer::jump`], of the loop with a label.
    pub fn jump_to(self, label: &'static str, jump: Jump) {
        let is_target = |it: &Loop<'_>| it.label == Some(label);
        let target = self.loops.borrow().iter().rposition(is_target);
        // rustc refuses a label that is not there.
        self.jump_from(target.map_or(0, |target| target + 1), jump);
    }

    /// Leaves all open loops from this one on, the outermost being 0, and jumps then. `break` and `continue` are of the
    /// innermost loop, so each loop has the jump behind it.
    fn jump_from(self, first: usize, jump: Jump) {
        let mut loops = self.loops.borrow_mut();
        let Some([first, inside @ ..]) = loops.get_mut(first..) else {
            return self.jump(jump);
        };
        let flag = self.builder.unset("leaves", DType::Bool);
        flag.set(lit(self, true).val());
        let leaves = |jump, is_last| Leaves {
            flag,
            jump,
            is_last,
        };
        first.behind.push(leaves(jump, true));
        let inside = inside.iter_mut();
        inside.for_each(|it| it.behind.push(leaves(Jump::Break, false)));
        self.builder.break_();
    }

    /// Adds a loop, and the jumps behind it.
    fn looped(self, add: impl FnOnce()) {
        self.open_loop();
        add();
        self.close_loop();
    }

    fn open_loop(self) {
        let (label, behind) = (self.label, Vec::new());
        self.loops.borrow_mut().push(Loop { label, behind });
    }

    fn close_loop(self) {
        let ended = self.loops.borrow_mut().pop().unwrap_or_default();
        for Leaves {
            flag,
            jump,
            is_last,
        } in ended.behind
        {
            self.builder.when(flag.get(), || {
                // The loops may run again.
                if is_last {
                    flag.set(lit(self, false).val());
                }
                self.jump(jump);
            });
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

/// Returns a bound of a range as the program has it. Of an unsigned one that is beyond `i64`, the greatest `i64`: only a
/// range whose start is no constant may have one ([`FAR`]).
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

/// Returns the bounds of a range as the program has them.
fn bounds<'k, T: Int>(start: V<'k, T>, end: V<'k, T>) -> [Val<'k>; 2] {
    if T::DTYPE != DType::U64 || start.constant().is_some() {
        return [bound(start), bound(end)];
    }
    // As `i64` a start beyond its range is negative, and so is each end behind it, in the same order.
    let [start, end] = [start, end].map(|it| it.val().bits(DType::I64));
    let is_far = end.lt(0);
    let of_far = is_far.select(end, start);
    let of_near = end.bits(DType::U64).min(i64::MAX).bits(DType::I64);
    [start, start.lt(0).select(of_far, of_near)]
}

/// A range of 64-bit integers that starts with a constant from here on is counted from zero: as `i64` its bounds overflow.
/// No loop that starts below runs long enough for that, unless its steps are as large.
const FAR: u64 = 1 << 62;
/// Likewise one with a constant step from here on.
const FAR_STEP: u64 = 1 << 32;

/// Returns `true` if this is a constant of 64 bits in the upper part of its type.
fn is_far<T: Int>(value: V<'_, T>, from: u64) -> bool {
    let limit = match T::DTYPE {
        DType::I64 => i64::MAX as u64,
        DType::U64 => u64::MAX,
        _ => return false,
    };
    value
        .constant()
        .is_some_and(|bits| (from..=limit).contains(&bits))
}

/// Returns `true` for a type whose range ends with that of the program's indices, or behind it.
fn is_wide<T: Int>() -> bool {
    T::DTYPE.size() == 8
}

/// Returns how many integers a range has.
fn count<'k, T: Int>(start: V<'k, T>, end: V<'k, T>, is_closed: bool) -> Val<'k> {
    let [start, end] = [start.val(), end.val()];
    let distance = (end - start).bits(DType::U64);
    let distance = distance.min(i64::MAX - 1).bits(DType::I64);
    let (distance, inside) = match is_closed {
        true => (distance + 1, CompareOp::Le),
        false => (distance, CompareOp::Lt),
    };
    start.compare(inside, end).select(distance, 0)
}

/// Returns the number that lies so far behind another.
fn behind<'k, T: Int>(start: V<'k, T>, distance: Val<'k>) -> V<'k, T> {
    V::new(start.val() + distance.bits(T::DTYPE))
}

/// Notes a number of the kernel that is the index of a loop, if the bounds are constants and not negative.
fn note_index<'k, T: Int>(k: Tracer<'k>, ends: [V<'k, T>; 2], index: V<'k, T>) {
    let ends = ends.map(|end| end.constant().map(|bits| T::of_bits(bits).cast()));
    if let [Some(0_i64..), Some(end @ 0_i64..)] = ends {
        k.note_index(index.val(), end.cast_unsigned());
    }
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
    // There is no index behind the last one.
    let is_near = start.constant().is_some() && !is_far(start, FAR);
    if is_wide::<T>() && !is_near {
        let count = count(start, end, true);
        return k.looped(|| {
            k.builder.range(0, count, 1, |up| body(behind(start, up)));
        });
    }
    let (start, end) = (bound(start), bound(end));
    let end = match is_wide::<T>() {
        true => end.min(i64::MAX - 1),
        false => end,
    };
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
    if is_far(start, FAR) || is_far(step, FAR_STEP) {
        return far_steps(k, start, end, step, body);
    }
    let (ends, is_one) = ([start, end], step.constant() == Some(1));
    let [start, end] = bounds(start, end);
    let step = bound(step);
    let end = match is_wide::<T>() && !is_one {
        // No sum of an index and the step is beyond the indices: it would wrap, and the loop not end.
        true => end.min(-(step - 1) + i64::MAX),
        false => end,
    };
    k.looped(|| {
        k.builder.range(start, end, step, |index| {
            let index = number(index);
            note_index(k, ends, index);
            body(index);
        });
    });
}

/// As [`for_steps`], with a loop over the number of the step.
fn far_steps<'k, T: Int>(
    k: Tracer<'k>,
    start: V<'k, T>,
    end: V<'k, T>,
    step: V<'k, T>,
    body: impl FnOnce(V<'k, T>),
) {
    let [start, end, step] = [start, end, step].map(V::val);
    let goes = (start.lt(end) & step.compare(CompareOp::Gt, 0)).cast(DType::U64);
    let [distance, each] = [end - start, step].map(|it| it.bits(DType::U64));
    let rest = (distance % each).compare(CompareOp::Ne, 0);
    let steps = (distance / each + rest.cast(DType::U64)) * goes;
    let steps = steps.min(i64::MAX).bits(DType::I64);
    k.looped(|| {
        k.builder.range(0, steps, 1, |up| {
            body(V::new(start + up.bits(step.of().dtype) * step));
        });
    });
}

/// `for i in (start..end).rev() { .. }`.
pub fn for_reversed<'k, T: Int>(
    k: Tracer<'k>,
    start: V<'k, T>,
    end: V<'k, T>,
    body: impl FnOnce(V<'k, T>),
) {
    if is_far(start, FAR) {
        let count = count(start, end, false);
        return k.looped(|| {
            k.builder
                .range(0, count, 1, |up| body(behind(start, count - 1 - up)));
        });
    }
    let ends = [start, end];
    let [start, end] = bounds(start, end);
    k.looped(|| {
        k.builder.range(start, end, 1, |up| {
            let index = number(start + (end - 1 - up));
            note_index(k, ends, index);
            body(index);
        });
    });
}

/// The way out of a helper function.
pub struct Exit<'k, R> {
    k: Tracer<'k>,
    /// What the function returns.
    result: R,
    /// The number of open loops in the function.
    depth: usize,
}

impl<'k, R: Traced<'k>> Exit<'k, R> {
    /// Returns from the function: leaves its loops, and the one that the call is.
    pub fn with(&self, value: R) {
        self.result.assign(value);
        self.k.jump_from(self.depth, Jump::Break);
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
        false => k.builder.elsewhere(|| body(Tracer { depth, ..k })),
    }
}

/// Calls a helper function that has `return`: as a loop that ends with its first iteration.
pub fn call<'k, R: Traced<'k>>(k: Tracer<'k>, body: impl FnOnce(&Exit<'k, R>) -> R) -> R {
    let result = R::unset(k);
    k.builder.loop_(|| {
        let depth = k.loops.borrow().len();
        result.assign(body(&Exit { k, result, depth }));
        k.builder.break_();
    });
    result.load()
}

/// Traces a body.
pub(crate) fn trace(builder: &millstream_ir::ssa::Builder, body: fn(Tracer<'_>)) {
    let (loops, is_endless) = (RefCell::new(Vec::new()), Cell::new(false));
    let (tables, below, axes) = (RefCell::default(), RefCell::default(), Cell::new(3));
    body(Tracer {
        builder,
        loops: &loops,
        label: None,
        depth: 0,
        is_endless: &is_endless,
        tables: &tables,
        below: &below,
        is_checked: builder.checks_bounds(),
        axes: &axes,
    });
}
