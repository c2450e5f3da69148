//! The table of the control functions, and the test's side of it: [`Nccl`] is linked into tests and calls the functions
//! of the loaded library.

use libloading::Library;

use crate::communicator::{fail_hanging, living};
use crate::control::{begin, calls, fail, hang, reports};
use crate::group::open_groups;

/// The control functions. The library of a test has the same types as the loaded one, because one call of the compiler
/// builds both, and the same allocator: that of the system.
struct Controls {
    begin: fn(),
    reports: fn() -> Vec<String>,
    calls: fn(&str) -> u64,
    fail: fn(&str, u64, u32),
    hang: fn(),
    fail_hanging: fn(u32) -> usize,
    living: fn() -> usize,
    open_groups: fn() -> usize,
}

static CONTROLS: Controls = Controls {
    begin,
    reports,
    calls,
    fail,
    hang,
    fail_hanging,
    living,
    open_groups,
};

/// Returns the control functions of this library.
#[unsafe(no_mangle)]
extern "C" fn fake_nccl_controls() -> &'static Controls {
    &CONTROLS
}

/// The controls of the library that this process loads as NCCL. Create one after the session of the fake driver has
/// begun, of which a process has one at a time.
pub struct Nccl(&'static Controls);

impl Nccl {
    /// Forgets the reports, counts and faults of earlier tests, and returns the controls of the loaded library.
    ///
    /// # Errors
    /// The loaded library is not the fake, or there is none.
    pub fn begin() -> Result<Self, libloading::Error> {
        // SAFETY: this library has no initializers, and those of the real one run in each of its users.
        let library = unsafe { Library::new(libloading::library_filename("nccl")) }?;
        // Never unloaded, like in the backend.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: only this library has this name, with this type.
        let find =
            unsafe { library.get::<extern "C" fn() -> &'static Controls>("fake_nccl_controls") };
        let controls = find?();
        (controls.begin)();
        Ok(Self(controls))
    }

    /// Returns the mistakes of callers so far.
    pub fn reports(&self) -> Vec<String> {
        (self.0.reports)()
    }

    /// Returns the number of calls of a function.
    pub fn calls(&self, name: &str) -> u64 {
        (self.0.calls)(name)
    }

    /// Makes the `nth` call from now, the next being 1, of this function return `code`. `launched` stands for
    /// `ncclGroupEnd`, after it has submitted the collective.
    pub fn fail(&self, name: &str, nth: u64, code: u32) {
        (self.0.fail)(name, nth, code);
    }

    /// Makes the next collective stand still until it is aborted.
    pub fn hang(&self) {
        (self.0.hang)();
    }

    /// Makes the collectives that stand still report this error. Returns the number of their communicators: 0 as long as
    /// none was launched. The code 0 is no error.
    pub fn fail_hanging(&self, code: u32) -> usize {
        (self.0.fail_hanging)(code)
    }

    /// Returns the number of communicators that exist.
    pub fn living(&self) -> usize {
        (self.0.living)()
    }

    /// Asserts that nothing is reported, all groups of calls were ended, and all communicators were destroyed.
    ///
    /// # Panics
    /// Something is left.
    pub fn assert_clean(&self) {
        let reports = self.reports();
        assert!(reports.is_empty(), "{}", reports.join("\n"));
        let open = (self.0.open_groups)();
        assert_eq!((open, self.living()), (0, 0), "open groups, communicators");
    }
}
