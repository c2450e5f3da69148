//! The names of all tests, and what each needs of a device.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::subject::Mode;
use crate::suite;
use crate::support::{NoTwin, On};

/// An ability that a test needs. A device that lacks it skips the test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Need {
    /// The device has threads.
    Threads,
    /// The device is driven.
    Driven,
    /// The device has one queue.
    OneQueue,
    /// See [`Abilities::queues_overlap`](crate::Abilities::queues_overlap).
    QueuesOverlap,
    /// See [`Abilities::rust_kernels`](crate::Abilities::rust_kernels).
    RustKernels,
    /// See [`Abilities::dynamic_counts`](crate::Abilities::dynamic_counts).
    DynamicCounts,
    /// See [`Abilities::holds_kernels`](crate::Abilities::holds_kernels).
    HeldKernels,
    /// See [`Abilities::leaves_tasks_behind`](crate::Abilities::leaves_tasks_behind).
    LeavesTasksBehind,
    /// See [`Abilities::memory_is_lazy`](crate::Abilities::memory_is_lazy).
    LazyMemory,
}

impl Need {
    /// The need in words, for the message of a skipped test.
    fn words(self) -> &'static str {
        match self {
            Need::Threads => "a device with threads",
            Need::Driven => "a driven device",
            Need::OneQueue => "a device with one queue",
            Need::QueuesOverlap => "queues whose tasks run at the same time",
            Need::RustKernels => "kernels in Rust",
            Need::DynamicCounts => "cube counts that are read on the device",
            Need::HeldKernels => "kernels that can be held",
            Need::LeavesTasksBehind => "a close that leaves unfinished tasks behind",
            Need::LazyMemory => "slices larger than the memory of the host",
        }
    }

    fn is_met(self, on: On) -> bool {
        let abilities = on.abilities();
        match self {
            Need::Threads => on.mode() != Mode::Driven,
            Need::Driven => on.mode() == Mode::Driven,
            Need::OneQueue => abilities.one_queue,
            Need::QueuesOverlap => abilities.queues_overlap,
            Need::RustKernels => abilities.rust_kernels,
            Need::DynamicCounts => abilities.dynamic_counts,
            Need::HeldKernels => abilities.holds_kernels,
            Need::LeavesTasksBehind => abilities.leaves_tasks_behind,
            Need::LazyMemory => abilities.memory_is_lazy,
        }
    }
}

/// A test of the suite.
pub struct Test {
    /// The module of the suite, which is the theme.
    pub module: &'static str,
    /// The name.
    pub name: &'static str,
    /// The abilities that the test needs.
    pub needs: &'static [Need],
    function: fn(On),
}

impl Test {
    /// Returns the test with this name.
    pub fn named(module: &str, name: &str) -> Option<&'static Self> {
        let mut all = TESTS.iter();
        all.find(|test| test.module == module && test.name == name)
    }

    /// Returns the first need that the device does not meet.
    pub fn unmet_need(&self, on: On) -> Option<Need> {
        let mut needs = self.needs.iter().copied();
        needs.find(|need| !need.is_met(on))
    }

    /// Runs the test on a device.
    ///
    /// # Errors
    /// The reason, if the test is skipped.
    ///
    /// # Panics
    /// If the test fails.
    pub fn run(&self, on: On) -> Result<(), Skipped> {
        if let Some(why) = on.unavailable() {
            return Err(Skipped(why.to_owned()));
        }
        if let Some(need) = self.unmet_need(on) {
            return Err(Skipped(format!("it needs {}", need.words())));
        }
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.function)(on))) else {
            return Ok(());
        };
        match panic.downcast::<NoTwin>() {
            Ok(lacks) => Err(Skipped(format!("it needs a twin of `{}`", lacks.kernel))),
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// The reason why a test was skipped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped(pub String);

/// The body of a registered test: runs it, or prints why it is skipped.
///
/// # Panics
/// If the test fails.
#[doc(hidden)]
pub fn run(on: On, module: &str, name: &str) {
    let test = Test::named(module, name).expect("registered tests come from the list");
    if let Err(Skipped(why)) = test.run(on) {
        print_line(&format!("SKIPPED {module}::{name}: {why}"));
    }
}

/// Returns the tests that need an ability that the device lacks, and that need.
pub fn skipped(on: On) -> Vec<(&'static Test, Need)> {
    let lacking = |test: &'static Test| Some((test, test.unmet_need(on)?));
    TESTS.iter().filter_map(lacking).collect()
}

/// The body of the test that prints all skipped tests.
#[doc(hidden)]
pub fn print_skipped(on: On) {
    if let Some(why) = on.unavailable() {
        return print_line(&format!("all {} tests are SKIPPED: {why}", TESTS.len()));
    }
    let skipped = skipped(on);
    for (test, need) in &skipped {
        let words = need.words();
        print_line(&format!(
            "SKIPPED {}::{}: it needs {words}",
            test.module, test.name
        ));
    }
    print_line(&format!(
        "{} of {} tests are skipped",
        skipped.len(),
        TESTS.len()
    ));
}

/// Writes a line to the standard error directly: the test harness captures the output of `eprintln` in a passing test.
fn print_line(line: &str) {
    // A closed standard error fails no test.
    let _ = writeln!(std::io::stderr(), "{line}");
}

// The macro `__list`, which calls the macro `$then` with its context and with every test: its module, its name, and what
// it needs.
include!(concat!(env!("OUT_DIR"), "/list.rs"));

#[doc(hidden)]
#[macro_export]
macro_rules! __table {
    (() $($module:ident { $($test:ident $([$($need:ident),+])?;)+ })+) => {
        /// Every test of the suite.
        pub static TESTS: &[Test] = &[$($(Test {
            module: stringify!($module),
            name: stringify!($test),
            needs: &[$($(Need::$need),+)?],
            function: suite::$module::$test,
        }),+),+];
    };
}

__list! { __table () }
