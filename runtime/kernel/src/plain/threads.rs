//! The threads of a launch, as a loop.

use std::ops::Range;

use millstream_protocol::{Cube, NativeArgs};

use super::View;
use super::thread::Thread;

/// A kernel as plain Rust.
pub trait Body: 'static {
    /// The bindings, as nested pairs.
    type Views<'a>: View<'a>;
    /// The scalars.
    type Scalars: Copy;

    /// Reads the scalars of a launch.
    fn scalars(arguments: &NativeArgs<'_>) -> Self::Scalars;

    /// Runs one thread.
    fn thread(thread: Thread<'_>, scalars: Self::Scalars, views: Self::Views<'_>);
}

/// Runs the threads of one cube: an equal part of all threads of the launch. The scalars from `counts` on are the numbers
/// of threads along the `AXES` axes.
///
/// # Safety
/// As for [`View::of`], except for what it says about threads: the cubes of a launch have different indices.
#[inline]
pub unsafe fn run<B: Body, const AXES: usize>(
    cube: &Cube,
    arguments: &NativeArgs<'_>,
    counts: usize,
) {
    let counts: [usize; AXES] =
        std::array::from_fn(|axis| arguments.scalar::<u64>(counts + axis) as usize);
    let threads: usize = counts.iter().product();
    let cubes = Ord::max(cube.count(), 1) as usize;
    let each = threads.div_ceil(cubes);
    let start = Ord::min((cube.index() as usize).saturating_mul(each), threads);
    let end = Ord::min(start.saturating_add(each), threads);
    let scalars = B::scalars(arguments);
    // SAFETY: the caller's promises. The ranges of cubes are disjoint, so no two threads have one number.
    let views = unsafe { B::Views::of(arguments, 0) };
    // Up to here no access at a thread's own number needs a check, so the loop can be vectorized.
    let middle = Ord::max(Ord::min(end, views.shortest()), start);
    // SAFETY: each number is one of this cube's range and runs once; `Body::thread` cannot keep it.
    let thread = |number, position| unsafe { Thread::new(number, position, threads) };
    for_each_row(start..middle, &counts, |numbers, [plane, row, first]| {
        let before = numbers.start.wrapping_sub(first);
        for number in numbers {
            // SAFETY: `number` is less than `middle`.
            unsafe { views.assume(number) };
            let column = number.wrapping_sub(before);
            B::thread(thread(number, [plane, row, column]), scalars, views);
        }
    });
    for_each_row(middle..end, &counts, |numbers, [plane, row, first]| {
        for (offset, number) in numbers.enumerate() {
            run_one::<B>(thread(number, [plane, row, first + offset]), scalars, views);
        }
    });
}

/// Calls `row` with the numbers of each row of threads in a range, and the position of the first of them.
#[inline(always)]
fn for_each_row<const AXES: usize>(
    range: Range<usize>,
    counts: &[usize; AXES],
    mut row: impl FnMut(Range<usize>, [usize; 3]),
) {
    if AXES == 1 {
        let start = range.start;
        return row(range, [0, 0, start]);
    }
    let (columns, rows) = (counts[AXES - 1], counts[AXES - 2]);
    let mut start = range.start;
    while start < range.end {
        let (line, column) = (start / columns, start % columns);
        let end = Ord::min(start + columns - column, range.end);
        row(start..end, [line / rows, line % rows, column]);
        start = end;
    }
}

/// Runs a thread beyond the shortest buffer. Not inlined: most such threads do nothing.
#[inline(never)]
fn run_one<B: Body>(thread: Thread<'_>, scalars: B::Scalars, views: B::Views<'_>) {
    B::thread(thread, scalars, views);
}
