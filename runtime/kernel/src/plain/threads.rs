//! The threads of a launch, as a loop.

use millstream_protocol::{Cube, NativeArgs};

use super::View;

/// A thread of a launch: its number, which no other thread has.
#[derive(Clone, Copy)]
pub struct Thread(usize);

impl Thread {
    /// Returns the number.
    #[inline(always)]
    pub fn number(self) -> usize {
        self.0
    }
}

/// A kernel as plain Rust.
pub trait Body: 'static {
    /// The bindings, as nested pairs.
    type Views<'a>: View<'a>;
    /// The scalars.
    type Scalars: Copy;

    /// Reads the scalars of a launch.
    fn scalars(arguments: &NativeArgs<'_>) -> Self::Scalars;

    /// Runs one thread.
    fn thread(thread: Thread, threads: usize, scalars: Self::Scalars, views: Self::Views<'_>);
}

/// Runs the threads of one cube: an equal part of all threads of the launch, whose number is the scalar `count`.
///
/// # Safety
/// As for [`View::of`], except for what it says about threads: the cubes of a launch have different indices.
#[inline]
pub unsafe fn run<B: Body>(cube: &Cube, arguments: &NativeArgs<'_>, count: usize) {
    let (threads, cubes) = (
        arguments.scalar::<u64>(count) as usize,
        cube.count().max(1) as usize,
    );
    let each = threads.div_ceil(cubes);
    let start = (cube.index() as usize).saturating_mul(each).min(threads);
    let end = start.saturating_add(each).min(threads);
    let scalars = B::scalars(arguments);
    // SAFETY: the caller's promises. The ranges of cubes are disjoint, so no two threads are equal.
    let views = unsafe { B::Views::of(arguments, 0) };
    // Up to here no access at a thread's own number needs a check, so the loop can be vectorized.
    let middle = end.min(views.shortest()).max(start);
    for number in start..middle {
        // SAFETY: `number` is less than `middle`.
        unsafe { views.assume(number) };
        B::thread(Thread(number), threads, scalars, views);
    }
    (middle..end).for_each(|number| run_one::<B>(Thread(number), threads, scalars, views));
}

/// Runs a thread beyond the shortest buffer. Not inlined: most such threads do nothing.
#[inline(never)]
fn run_one<B: Body>(thread: Thread, threads: usize, scalars: B::Scalars, views: B::Views<'_>) {
    B::thread(thread, threads, scalars, views);
}
