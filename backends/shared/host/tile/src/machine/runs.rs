//! Gathers in runs: copies as many lanes at once as the index advances by a constant step.
//!
//! An index is tracked as `start + lane * step`. Sums, differences, products with a constant and, until they wrap,
//! remainders have the same form. Anything else ends the run after one lane. An index out of range gives zero, as in
//! the lane-by-lane loop.

use millstream_ir::{BinaryOp, DType};

use super::{At, Machine};
use crate::build::STEPS_MAX;
use crate::kernels::by_size;
use crate::kernels::place::Indexed;
use crate::lanes::{Lanes, prefetch};
use crate::plan::Step;

/// A value over some lanes, `start + lane * step`.
#[derive(Clone, Copy, Default)]
struct Affine {
    start: i64,
    step: i64,
}

/// A run of elements: the place of the first, the distance between them in elements, and their number.
#[derive(Clone, Copy)]
struct Run {
    first: isize,
    step: isize,
    len: usize,
    /// Whether the indices are in range; otherwise the elements are zero.
    is_in: bool,
}

/// Bytes of the next run that are prefetched while one is copied; the processor prefetches the rest.
const RUN_AHEAD: usize = 1024;

impl<'a> Machine<'a> {
    /// Returns the elements of a gather: in place if they are contiguous, otherwise loaded into `staging`.
    ///
    /// # Safety
    /// The launch was checked; `staging` has room for the lanes.
    pub(super) unsafe fn load_runs(
        &self,
        gathered: u16,
        size: usize,
        staging: *mut u8,
        lanes: &Lanes<'_>,
        at: At,
    ) -> *mut u8 {
        let plan = self.job.plan;
        let gathered = &plan.gathered[usize::from(gathered)];
        let scalar = plan.indexed[gathered.indexed].scalar as usize;
        // SAFETY: the scalars are first in the machine's memory, and four of them are this axis.
        let indexed = unsafe { *self.scalars.add(scalar).cast::<Indexed>() };
        let from = |run: &Run| {
            indexed
                .base
                .wrapping_offset(run.first.wrapping_mul(size as isize))
        };
        let find = |lane: usize| {
            // SAFETY: the caller's promises.
            unsafe { self.find_run(&gathered.steps, &indexed, lanes, at, lane) }
        };
        let mut lane = 0;
        let mut run = find(lane);
        while lane < lanes.n {
            let after = lane + run.len;
            let mut next = run;
            if after < lanes.n {
                next = find(after);
                if next.is_in && next.step == 1 {
                    let bytes = (next.len * size).min(RUN_AHEAD);
                    { 0..bytes }
                        .step_by(64)
                        .for_each(|byte| prefetch(from(&next).wrapping_add(byte)));
                }
            }
            // SAFETY: indices in range lie in the buffer, which was checked with the launch; there is room for all
            // lanes.
            unsafe {
                by_size!(size, T => {
                    let (to, from) = (staging.cast::<T>().add(lane), from(&run).cast::<T>());
                    match (run.is_in, run.step) {
                        (false, _) => to.write_bytes(0, run.len),
                        (true, 1) if run.len == lanes.n => return from.cast(),
                        (true, 1) => to.copy_from_nonoverlapping(from, run.len),
                        (true, step) => {
                            for index in 0..run.len {
                                to.add(index).write(*from.offset(index as isize * step));
                            }
                        }
                    }
                });
            }
            (lane, run) = (after, next);
        }
        staging
    }

    /// Returns the run that begins at a lane.
    ///
    /// # Safety
    /// The launch was checked.
    #[inline]
    unsafe fn find_run(
        &self,
        steps: &[Step],
        indexed: &Indexed,
        lanes: &Lanes<'_>,
        at: At,
        lane: usize,
    ) -> Run {
        let (first, last) = (lanes.start + lane, lanes.axes.last());
        let most = (last - first % last).min(lanes.n - lane);
        // SAFETY: the caller's promises.
        let (index, len) = unsafe { self.evaluate(steps, at, lane, most) };
        let (len, is_in) = in_range(index, len, indexed.end);
        let offset = lanes.still + lanes.axes.offset(lanes.strides, first);
        let step = (index.step as isize).wrapping_mul(indexed.stride);
        Run {
            first: offset.wrapping_add((index.start as isize).wrapping_mul(indexed.stride)),
            step: lanes.step().wrapping_add(step),
            len,
            is_in,
        }
    }

    /// Returns the index at a lane, and the number of lanes for which it advances so, at most `most`.
    unsafe fn evaluate(&self, steps: &[Step], at: At, lane: usize, most: usize) -> (Affine, usize) {
        let mut values = [Affine::default(); STEPS_MAX];
        let mut run = most;
        for (index, step) in steps.iter().enumerate() {
            let still = |start: i64| Affine { start, step: 0 };
            values[index] = match *step {
                Step::Const(value) => still(value),
                Step::Word(word) => still(self.job.words[usize::from(word)] as i64),
                Step::Index(input) => {
                    let path = &self.job.launch.paths[usize::from(input)];
                    let lanes = self.lanes(path, at);
                    let place = lanes.axes.offset(lanes.strides, lanes.start + lane);
                    Affine {
                        start: (path.origin + lanes.still + place) as i64,
                        step: lanes.step() as i64,
                    }
                }
                Step::Load(input, dtype) => {
                    let path = &self.job.launch.paths[usize::from(input)];
                    let lanes = self.lanes(path, at);
                    let place = lanes.axes.offset(lanes.strides, lanes.start + lane);
                    if lanes.step() != 0 {
                        run = 1;
                    }
                    let size = dtype.size() as isize;
                    let from = path.base.wrapping_offset((lanes.still + place) * size);
                    // SAFETY: the launch was checked, so the element lies in its binding.
                    still(unsafe {
                        match dtype {
                            DType::I16 => i64::from(*from.cast::<i16>()),
                            DType::I32 => i64::from(*from.cast::<i32>()),
                            DType::U32 => i64::from(*from.cast::<u32>()),
                            _ => *from.cast::<i64>(),
                        }
                    })
                }
                Step::Binary(op, a, b) => {
                    let (a, b) = (values[usize::from(a)], values[usize::from(b)]);
                    combine(op, a, b, &mut run)
                }
            };
        }
        let index = values[steps.len() - 1];
        // An index that overflows `i64` within the run is followed lane by lane.
        let is_counted = index.step.checked_mul(run as i64);
        let is_counted = is_counted.and_then(|span| span.checked_add(index.start));
        (index, if is_counted.is_some() { run } else { 1 })
    }
}

/// Combines two values, and shortens the run to the lanes for which the result has the same form.
fn combine(op: BinaryOp, a: Affine, b: Affine, run: &mut usize) -> Affine {
    match op {
        BinaryOp::Add => Affine {
            start: a.start.wrapping_add(b.start),
            step: a.step.wrapping_add(b.step),
        },
        BinaryOp::Sub => Affine {
            start: a.start.wrapping_sub(b.start),
            step: a.step.wrapping_sub(b.step),
        },
        BinaryOp::Mul => {
            if a.step != 0 && b.step != 0 {
                *run = 1;
            }
            Affine {
                start: a.start.wrapping_mul(b.start),
                step: a
                    .start
                    .wrapping_mul(b.step)
                    .wrapping_add(a.step.wrapping_mul(b.start)),
            }
        }
        _ => remainder(a, b, run),
    }
}

/// The remainder has the form of `a` as long as the quotient stays the same.
fn remainder(a: Affine, by: Affine, run: &mut usize) -> Affine {
    let quotient = |lane: usize| {
        let at = a.step.checked_mul(lane as i64)?.checked_add(a.start)?;
        (at >= 0 && by.start > 0 && by.step == 0).then(|| at / by.start)
    };
    match quotient(0) {
        _ if (a.step, by.step) == (0, 0) => {}
        None => *run = 1,
        first => shorten(run, |lane| quotient(lane) == first),
    }
    Affine {
        start: a.start.checked_rem(by.start).unwrap_or(0),
        step: a.step,
    }
}

/// Returns for how many lanes of a run the index stays in range, or out of range on the same side, and whether it is in
/// range. The index does not overflow within the run.
fn in_range(index: Affine, mut run: usize, len: i64) -> (usize, bool) {
    let bounds_passed = |lane: usize| {
        let at = index.start + index.step * lane as i64;
        u8::from(at >= 0) + u8::from(at >= len.max(0))
    };
    let first = bounds_passed(0);
    shorten(&mut run, |lane| bounds_passed(lane) == first);
    (run, first == 1)
}

/// Halves a run until its last lane has a property. The first lane has it, and so do all lanes between two that have it.
fn shorten(run: &mut usize, has: impl Fn(usize) -> bool) {
    while !has(*run - 1) {
        *run /= 2;
    }
}
