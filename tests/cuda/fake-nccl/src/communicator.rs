//! Communicators, and what the communicators of a GPU share.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::{Driver, check};

/// The communicators that were created together, one for each member.
pub(crate) struct Clique {
    pub(crate) devices: Vec<i32>,
    /// Set by the first abort: collectives end without a result.
    pub(crate) aborted: AtomicBool,
    /// Whether a collective stands still until the abort.
    pub(crate) hangs: AtomicBool,
    /// The error of a collective after its launch; 0 for none.
    pub(crate) error: AtomicU32,
}

/// A communicator (`ncclComm_t`).
pub(crate) struct Communicator {
    pub(crate) clique: Arc<Clique>,
    pub(crate) rank: usize,
    /// The stream of the last collective; 0 for none.
    pub(crate) last_stream: Mutex<u64>,
}

/// What the communicators of a GPU share.
struct Shared {
    context: u64,
    word: u64,
    communicators: usize,
}

static SHARED: Mutex<Option<HashMap<i32, Shared>>> = Mutex::new(None);
static LIVING: Mutex<Option<HashSet<usize>>> = Mutex::new(None);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of communicators that exist.
pub(crate) fn living() -> usize {
    lock(&LIVING).get_or_insert_default().len()
}

/// Gives the cliques whose collectives stand still an error. Returns the number of their communicators.
pub(crate) fn fail_hanging(code: u32) -> usize {
    let mut living = lock(&LIVING);
    let living = living.get_or_insert_default().iter();
    // SAFETY: a communicator is removed from the list before it is destroyed.
    let cliques = living.map(|raw| unsafe { &(*(*raw as *const Communicator)).clique });
    let hanging = cliques.filter(|clique| clique.hangs.load(Ordering::SeqCst));
    hanging
        .map(|clique| clique.error.store(code, Ordering::SeqCst))
        .count()
}

impl Communicator {
    pub(crate) fn device(&self) -> i32 {
        self.clique.devices[self.rank]
    }

    /// Creates a communicator of a member.
    pub(crate) fn create(
        driver: &Driver,
        clique: &Arc<Clique>,
        rank: usize,
    ) -> Result<*mut Self, u32> {
        share(driver, clique.devices[rank])?;
        let communicator = Box::into_raw(Box::new(Self {
            clique: clique.clone(),
            rank,
            last_stream: Mutex::new(0),
        }));
        lock(&LIVING)
            .get_or_insert_default()
            .insert(communicator as usize);
        Ok(communicator)
    }

    /// Returns a communicator that exists.
    pub(crate) fn find<'a>(raw: *mut Self) -> Option<&'a Self> {
        let living = lock(&LIVING)
            .get_or_insert_default()
            .contains(&(raw as usize));
        // SAFETY: it was created here and is not destroyed; the caller does not destroy it during its call.
        living.then(|| unsafe { &*raw })
    }

    /// Waits for the communicator's work, and destroys it.
    pub(crate) fn destroy(driver: &Driver, raw: *mut Self) -> Result<(), u32> {
        if !lock(&LIVING)
            .get_or_insert_default()
            .remove(&(raw as usize))
        {
            return Err(crate::status::INVALID_ARGUMENT);
        }
        // SAFETY: it was created here, and is destroyed once.
        let communicator = unsafe { Box::from_raw(raw) };
        let stream = *lock(&communicator.last_stream);
        let waited = match stream {
            0 => Ok(()),
            _ => driver.stream(stream).and_then(|(context, _)| {
                // SAFETY: the driver checks the handle.
                driver.within(context, || check(unsafe { (driver.synchronize)(stream) }))
            }),
        };
        waited.and(unshare(driver, communicator.device()))
    }
}

/// Returns the word that all communicators of a GPU share.
pub(crate) fn word(device: i32) -> u64 {
    let shared = lock(&SHARED);
    let shared = shared.as_ref().and_then(|shared| shared.get(&device));
    shared.map_or(0, |shared| shared.word)
}

fn share(driver: &Driver, device: i32) -> Result<(), u32> {
    let mut shared = lock(&SHARED);
    let shared = shared.get_or_insert_default();
    if let Some(shared) = shared.get_mut(&device) {
        shared.communicators += 1;
        return Ok(());
    }
    let (mut context, mut word) = (0, 0);
    // SAFETY: the out pointers are valid.
    check(unsafe { (driver.retain)(&raw mut context, device) })?;
    let allocated = driver.within(context, || {
        // SAFETY: as above.
        check(unsafe { (driver.allocate)(&raw mut word, 8) })
    });
    if let Err(status) = allocated {
        // SAFETY: retained above.
        unsafe { (driver.release)(device) };
        return Err(status);
    }
    let created = Shared {
        context,
        word,
        communicators: 1,
    };
    shared.insert(device, created);
    Ok(())
}

fn unshare(driver: &Driver, device: i32) -> Result<(), u32> {
    let mut shared = lock(&SHARED);
    let shared = shared.get_or_insert_default();
    let Some(of) = shared.get_mut(&device) else {
        return Ok(());
    };
    of.communicators -= 1;
    if of.communicators > 0 {
        return Ok(());
    }
    let (context, word) = (of.context, of.word);
    shared.remove(&device);
    let freed = driver.within(context, || {
        // SAFETY: allocated once, freed once.
        check(unsafe { (driver.free)(word) })
    });
    // SAFETY: retained once, released once.
    freed.and(check(unsafe { (driver.release)(device) }))
}

impl Clique {
    pub(crate) fn new(devices: &[i32]) -> Arc<Self> {
        Arc::new(Self {
            devices: devices.to_vec(),
            aborted: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            error: AtomicU32::new(0),
        })
    }

    pub(crate) fn is_aborted(&self) -> bool {
        // Acquire: pairs with the release of `abort`.
        self.aborted.load(Ordering::Acquire)
    }

    pub(crate) fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
    }
}
