//! Compiled kernels, and one launch of a kernel.
//!
//! Compiling picks the first source that a CPU can run: a Rust closure, or a program for the interpreter. A launch
//! shares its cubes with the team only if the work is worth a wake. The kernel learns the cost of a cube from its
//! launches, and a launch that turns out more expensive than expected requests helpers midway.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use millstream_host::{Arguments, Body, Code, RunError, Team, catch_panic, count_cubes};
use millstream_ir::{Blocking, Program};
use millstream_protocol::{
    AnyCubes, BackendKernel, Compiler, DeviceProperties, Kernel, KernelError, NativeView,
};
use millstream_sync::facade::Statistic;
use millstream_sync::payload::panic_message;

use crate::team::TeamHandle;
use crate::trace::nanoseconds;

/// Work that is worth waking another thread for: a few times the cost of a wake.
const HELP_WORTH_NS: u64 = 40_000;

/// Costs are stored in fractions of a nanosecond, because small cubes cost less than one.
const COST_UNIT: u64 = 256;

/// The compiler of this device.
pub(crate) struct CpuCompiler {
    pub(crate) properties: DeviceProperties,
    pub(crate) machine_code: bool,
}

impl Compiler for CpuCompiler {
    fn compile(&self, kernel: &Arc<Kernel>) -> Result<BackendKernel, KernelError> {
        Ok(Arc::new(CpuKernel {
            body: Body::compile(kernel, &self.properties, self.machine_code)?,
            prints: kernel.prints(),
            any_cubes: kernel.extension::<AnyCubes>().is_some(),
            kernel: kernel.clone(),
            cube_cost: Statistic::new(0),
            cost: Statistic::new(0),
        }))
    }

    fn blockings(&self, program: &Program) -> Vec<Blocking> {
        Code::blockings(program)
    }
}

/// A kernel that this device runs.
pub(crate) struct CpuKernel {
    pub(crate) kernel: Arc<Kernel>,
    body: Body,
    /// Whether threads may print.
    pub(crate) prints: bool,
    /// Whether the closure runs as any number of cubes.
    any_cubes: bool,
    /// The recent cost of one cube in 1 / `COST_UNIT` nanoseconds; 0 while unknown. Queues that run the kernel at the
    /// same time overwrite each other, which is harmless.
    cube_cost: Statistic,
    /// For a program: the bytes of the last launch in the upper half, its nanoseconds in the lower. 0 while unknown,
    /// and always 0 for kernels that callers never run themselves.
    cost: Statistic,
}

/// The most cubes for each thread of the team, of a kernel that runs as any number of them. Several, since a thread may
/// begin late or have longer cubes than the others.
const CUBES_PER_THREAD: u64 = 8;

/// Returns the number of bytes of all views.
pub(crate) fn bytes_of(views: &[NativeView]) -> u64 {
    views.iter().map(|view| view.bytes).sum()
}

/// Launches of programs with at most this many bytes are timed.
const TIMED_BYTES_MAX: u64 = 1 << 26;

impl CpuKernel {
    /// Returns the expected time of a launch with these views: the time of the last one, if that had at least as many
    /// bytes. `None` for user code, which may do anything.
    pub(crate) fn expected_ns(&self, views: &[NativeView]) -> Option<u64> {
        let cost = self.cost.get();
        let (bytes, ns) = (cost >> 32, cost & u64::from(u32::MAX));
        (cost != 0 && bytes_of(views) <= bytes).then_some(ns)
    }

    /// Runs a launch. Blocks until it is done.
    ///
    /// # Errors
    /// The reason a program refuses the launch, or the message of the first panic; then the remaining cubes are
    /// skipped.
    ///
    /// # Safety
    /// As for [`Arguments::run_cube`] about views, scalars and unchecked launches, for as long as this runs.
    pub(crate) unsafe fn run(
        &self,
        team: &mut TeamHandle,
        mut arguments: Arguments<'_>,
    ) -> Result<(), RunError> {
        if self.any_cubes && matches!(self.body, Body::Native(_)) {
            let cubes = count_cubes(arguments.counts).unwrap_or(0);
            let most = team.threads() as u64 * CUBES_PER_THREAD;
            arguments.counts = [cubes.min(most) as u32, 1, 1];
        }
        let signature = self.kernel.signature();
        match &self.body {
            Body::Native(native) => {
                let work = |range: Range<u64>| {
                    // SAFETY: the caller's promises; `share_cubes` hands out each index once.
                    range
                        .for_each(|cube| unsafe { arguments.run_cube(&**native, signature, cube) });
                };
                let cubes = count_cubes(arguments.counts).unwrap_or(0);
                self.share_cubes(cubes, team, &work)
                    .map_err(RunError::Panic)
            }
            Body::Function(function) => {
                // SAFETY: as above.
                let work = |range| unsafe { arguments.run_cubes(function, signature, range) };
                let cubes = count_cubes(arguments.counts).unwrap_or(0);
                self.share_cubes(cubes, team, &work)
                    .map_err(RunError::Panic)
            }
            Body::Program(code) => {
                let (views, words) = (arguments.views, arguments.scalars);
                // SAFETY: the caller's promises; the program checks that its accesses stay within its bindings.
                let run = || unsafe { code.run(views, words, &mut WakingTeam(team)) };
                let timed = Some(bytes_of(views)).filter(|bytes| *bytes <= TIMED_BYTES_MAX);
                let timed = timed.map(|bytes| (bytes, Instant::now()));
                let ran = catch_panic(run);
                if let Some((bytes, start)) = timed {
                    let ns = nanoseconds(start, Instant::now()).clamp(1, u64::from(u32::MAX));
                    self.cost.set(bytes << 32 | ns);
                }
                ran
            }
        }
    }

    /// Calls `work` with all cubes of a launch, each once.
    fn share_cubes(
        &self,
        cubes: u64,
        team: &mut TeamHandle,
        work: &(dyn Fn(Range<u64>) + Sync),
    ) -> Result<(), String> {
        let alone = |range| catch_unwind(AssertUnwindSafe(|| work(range))).map_err(panic_message);
        let helpers = team.threads() as u64 - 1;
        if helpers == 0 || cubes <= 1 {
            return alone(0..cubes);
        }
        let cost = self.cube_cost.get();
        let mut done = 0_u64;
        let mut wanted = helpers;
        if cost != 0 && expected_ns(cost, cubes) < HELP_WORTH_NS {
            let start = Instant::now();
            let step = (HELP_WORTH_NS / 4 * COST_UNIT / cost).max(1);
            loop {
                let end = cubes.min(done.saturating_add(step));
                alone(done..end)?;
                done = end;
                if done == cubes {
                    self.record_cost(start, cubes);
                    return Ok(());
                }
                let spent = nanoseconds(start, Instant::now());
                let left = u128::from(spent) * u128::from(cubes - done) / u128::from(done);
                if left >= u128::from(HELP_WORTH_NS) {
                    wanted = u64::try_from(left / u128::from(HELP_WORTH_NS)).unwrap_or(helpers);
                    break;
                }
            }
        } else if cost != 0 {
            wanted = expected_ns(cost, cubes) / HELP_WORTH_NS;
        }
        let wanted = wanted.min(cubes - done - 1).min(helpers);
        let shared_at = Instant::now();
        let own = team.share(done, cubes, wanted as usize, work)?;
        self.record_cost(shared_at, own);
        Ok(())
    }

    /// Updates the cost of a cube: this many cubes ran since `start`, on one thread.
    fn record_cost(&self, start: Instant, cubes: u64) {
        let spent = nanoseconds(start, Instant::now());
        if let Some(cost) = spent.saturating_mul(COST_UNIT).checked_div(cubes) {
            let before = self.cube_cost.get();
            let cost = if before == 0 {
                cost
            } else {
                (before + cost) / 2
            };
            self.cube_cost.set(cost.max(1));
        }
    }
}

/// The team as interpreter and copies see it. Wakes as many helpers as the work is worth.
pub(crate) struct WakingTeam<'a>(pub(crate) &'a mut TeamHandle);

impl Team for WakingTeam<'_> {
    fn share(
        &mut self,
        pieces: u64,
        ns: u64,
        work: &(dyn Fn(Range<u64>) + Sync),
    ) -> Result<(), String> {
        let helpers = self.0.threads() as u64 - 1;
        let wanted = (ns / HELP_WORTH_NS).min(pieces - 1).min(helpers);
        if wanted == 0 {
            // The caller of the launch catches a panic.
            work(0..pieces);
            return Ok(());
        }
        self.0
            .share(0, pieces, wanted as usize, work)
            .map(|_own| ())
    }

    fn threads(&self) -> usize {
        self.0.threads()
    }
}

fn expected_ns(cost: u64, cubes: u64) -> u64 {
    cost.saturating_mul(cubes) / COST_UNIT
}
