//! Runs one launch, cube by cube or, for a program, piece by piece, in an order that the seed chooses.

use std::ops::Range;

use millstream_host::{Arguments, Body, RunError, Team, catch_panic};
use millstream_protocol::{Lines, NativeView};

use crate::entry::LaunchOp;
use crate::kernel::SimBody;
use crate::random::shuffled;
use crate::threads::{self, KernelMistake};

/// Why a launch did not run to its end.
pub(crate) enum Stopped {
    /// The program refused it, or user code panicked.
    Host(RunError),
    /// Its kernel has a mistake.
    Mistake(Box<KernelMistake>),
}

/// The order of a launch, and whether races are looked for.
#[derive(Clone, Copy)]
pub(crate) struct Choices {
    pub(crate) seed: u64,
    pub(crate) checks: bool,
}

/// Runs all cubes of a launch, or all pieces of a program.
///
/// # Errors
/// The reason a program refuses the launch, or the first panic or mistake; then the remaining cubes are skipped.
///
/// # Safety
/// As for [`Arguments::run_cube`].
pub(crate) unsafe fn run_cubes(
    launch: &LaunchOp,
    views: &[NativeView],
    counts: [u32; 3],
    cubes: u64,
    choices: Choices,
    lines: Option<&Lines>,
) -> Result<(), Stopped> {
    let Choices { seed, checks } = choices;
    let signature = launch.kernel.kernel.signature();
    let arguments = Arguments {
        views,
        scalars: &launch.scalars,
        metadata: &launch.metadata,
        counts,
        lines,
    };
    let mut mistake = None;
    let ran = catch_panic(|| match &launch.kernel.body {
        SimBody::Threads(code) => {
            let launch = threads::Launch {
                code,
                arguments,
                cubes,
                seed,
                checks,
            };
            // SAFETY: the caller's promise.
            mistake = unsafe { threads::run(&launch) }.err();
            Ok(())
        }
        SimBody::Host(Body::Function(function)) => {
            for cube in shuffled(cubes, seed) {
                // SAFETY: the caller's promise; each index occurs once.
                unsafe { arguments.run_cubes(function, signature, cube..cube + 1) };
            }
            Ok(())
        }
        SimBody::Host(Body::Native(native)) => {
            for cube in shuffled(cubes, seed) {
                // SAFETY: the caller's promise; each index occurs once.
                unsafe { arguments.run_cube(&**native, signature, cube) };
            }
            Ok(())
        }
        // SAFETY: the caller's promise; the program checks that its accesses stay within its bindings.
        SimBody::Host(Body::Program(code)) => unsafe {
            code.run(views, arguments.scalars, &mut Shuffled(seed))
        },
    });
    match mistake {
        Some(mistake) => Err(Stopped::Mistake(mistake)),
        None => ran.map_err(Stopped::Host),
    }
}

/// A team of one thread that runs the pieces of a program or a copy in an order that the seed chooses.
pub(crate) struct Shuffled(pub(crate) u64);

impl Team for Shuffled {
    fn share(
        &mut self,
        pieces: u64,
        _ns: u64,
        work: &(dyn Fn(Range<u64>) + Sync),
    ) -> Result<(), String> {
        shuffled(pieces, self.0).for_each(|piece| work(piece..piece + 1));
        Ok(())
    }

    fn threads(&self) -> usize {
        1 + (self.0 % 4) as usize
    }
}
