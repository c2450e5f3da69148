//! The controls for tests: their state in the loaded library, and [`Nccl`], which is linked into tests and accesses that
//! state.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Mutex};

use libloading::Library;

use crate::communicator::{Communicator, lock};
use crate::loaded;

#[derive(Default)]
pub(crate) struct Control {
    pub(crate) reports: Vec<String>,
    calls: HashMap<String, u64>,
    /// The function, the calls until the fault, and the code.
    faults: Vec<(String, u64, u32)>,
    /// Whether the next collective stands still.
    pub(crate) hangs: bool,
    /// The communicators that exist, by their handles.
    pub(crate) living: BTreeMap<u64, Arc<Communicator>>,
    created: u64,
    /// The groups of all threads that are not ended.
    pub(crate) open_groups: usize,
}

impl Control {
    /// Adds a communicator and returns its handle.
    pub(crate) fn add(&mut self, communicator: Arc<Communicator>) -> u64 {
        self.created += 1;
        self.living.insert(self.created, communicator);
        self.created
    }
}

/// Returns the communicator of this handle, if it exists.
pub(crate) fn find(handle: u64) -> Option<Arc<Communicator>> {
    with(|control| control.living.get(&handle).cloned())
}

static CONTROL: LazyLock<Mutex<Control>> = LazyLock::new(Mutex::default);

/// Accesses the state.
pub(crate) fn with<T>(body: impl FnOnce(&mut Control) -> T) -> T {
    body(&mut lock(&CONTROL))
}

/// Reports a mistake of the caller.
pub(crate) fn report(report: String) {
    with(|control| control.reports.push(report));
}

/// Counts a call. Returns the code of the fault that it meets.
pub(crate) fn count(name: &str) -> Result<(), u32> {
    with(|control| {
        *control.calls.entry(name.to_owned()).or_default() += 1;
        let mut met = None;
        control.faults.retain_mut(|(of, after, code)| {
            if of == name {
                *after -= 1;
            }
            if *after == 0 {
                met = Some(*code);
            }
            *after > 0
        });
        met.map_or(Ok(()), Err)
    })
}

/// Returns the state of this library. That of a test has the same types, because one call of the compiler builds both, and
/// the same allocator: that of the system.
#[unsafe(no_mangle)]
extern "C" fn fake_nccl_control() -> &'static Mutex<Control> {
    &CONTROL
}

/// The controls of the library that this process loads as NCCL. Create one after the session of the fake driver has
/// begun, of which a process has one at a time.
pub struct Nccl {
    library: &'static Library,
    control: &'static Mutex<Control>,
}

impl Nccl {
    /// Forgets the reports, counts and faults of earlier tests, and returns the controls of the loaded library.
    ///
    /// # Errors
    /// The loaded library is not the fake, or there is none.
    pub fn begin() -> Result<Self, libloading::Error> {
        let library = loaded::library("nccl")?;
        // SAFETY: only this library has this name, with this type.
        let find = unsafe {
            library.get::<extern "C" fn() -> &'static Mutex<Control>>("fake_nccl_control")
        };
        let control = find?();
        let nccl = Self { library, control };
        nccl.with(|control| {
            *control = Control {
                living: std::mem::take(&mut control.living),
                created: control.created,
                open_groups: control.open_groups,
                ..Control::default()
            };
        });
        Ok(nccl)
    }

    fn with<T>(&self, body: impl FnOnce(&mut Control) -> T) -> T {
        body(&mut lock(self.control))
    }

    /// Calls a function of the library by its name, with up to sixteen numbers or pointers, which must be valid.
    pub fn call(&self, name: &str, arguments: &[u64]) -> u32 {
        loaded::call(self.library, name, arguments)
    }

    /// Returns the mistakes of callers so far.
    pub fn reports(&self) -> Vec<String> {
        self.with(|control| control.reports.clone())
    }

    /// Returns the number of calls of a function.
    pub fn calls(&self, name: &str) -> u64 {
        self.with(|control| control.calls.get(name).copied().unwrap_or(0))
    }

    /// Makes the `nth` call from now, the next being 1, of this function return `code`. `launched` stands for
    /// `ncclGroupEnd`, after it has submitted the collective.
    pub fn fail(&self, name: &str, nth: u64, code: u32) {
        self.with(|control| control.faults.push((name.to_owned(), nth.max(1), code)));
    }

    /// Makes the next collective stand still until it is aborted.
    pub fn hang(&self) {
        self.with(|control| control.hangs = true);
    }

    /// Makes the collectives that stand still report this error. Returns the number of their communicators: 0 as long as
    /// none was launched. The code 0 is no error.
    pub fn fail_hanging(&self, code: u32) -> usize {
        self.with(|control| {
            let cliques = control.living.values().map(|living| &living.clique);
            let hanging = cliques.filter(|clique| clique.hangs.load(Ordering::SeqCst));
            hanging
                .map(|clique| clique.error.store(code, Ordering::SeqCst))
                .count()
        })
    }

    /// Returns the number of communicators that exist.
    pub fn living(&self) -> usize {
        self.with(|control| control.living.len())
    }

    /// Asserts that nothing is reported, all groups of calls were ended, and all communicators were destroyed.
    ///
    /// # Panics
    /// Something is left.
    pub fn assert_clean(&self) {
        let reports = self.reports();
        assert!(reports.is_empty(), "{}", reports.join("\n"));
        let open = self.with(|control| control.open_groups);
        assert_eq!((open, self.living()), (0, 0), "open groups, communicators");
    }
}
