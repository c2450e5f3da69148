//! Communicators, and what the communicators of a GPU share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::driver;

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

/// A communicator. A handle (`ncclComm_t`) is a number.
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

static SHARED: LazyLock<Mutex<HashMap<i32, Shared>>> = LazyLock::new(Mutex::default);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Communicator {
    pub(crate) fn device(&self) -> i32 {
        self.clique.devices[self.rank]
    }

    /// Creates a communicator of a member.
    pub(crate) fn new(clique: &Arc<Clique>, rank: usize) -> Result<Arc<Self>, u32> {
        share(clique.devices[rank])?;
        Ok(Arc::new(Self {
            clique: clique.clone(),
            rank,
            last_stream: Mutex::new(0),
        }))
    }

    /// Waits for the communicator's work, and ends it.
    pub(crate) fn end(&self) -> Result<(), u32> {
        let stream = *lock(&self.last_stream);
        let waited = match stream {
            0 => Ok(()),
            _ => driver::stream(stream).and_then(|(context, _)| {
                driver::within(context, || driver::call("cuStreamSynchronize", &[stream]))
            }),
        };
        waited.and(unshare(self.device()))
    }
}

/// Returns the word that all communicators of a GPU share.
pub(crate) fn word(device: i32) -> u64 {
    lock(&SHARED).get(&device).map_or(0, |shared| shared.word)
}

fn share(device: i32) -> Result<(), u32> {
    let mut shared = lock(&SHARED);
    if let Some(shared) = shared.get_mut(&device) {
        shared.communicators += 1;
        return Ok(());
    }
    let gpu = device as u64;
    let context = driver::make("cuDevicePrimaryCtxRetain", &[gpu])?;
    let allocated = driver::within(context, || driver::make("cuMemAlloc_v2", &[8]));
    let word = allocated.inspect_err(|_| {
        let _ = driver::call("cuDevicePrimaryCtxRelease_v2", &[gpu]);
    })?;
    let created = Shared {
        context,
        word,
        communicators: 1,
    };
    shared.insert(device, created);
    Ok(())
}

fn unshare(device: i32) -> Result<(), u32> {
    let mut shared = lock(&SHARED);
    let Some(of) = shared.get_mut(&device) else {
        return Ok(());
    };
    of.communicators -= 1;
    if of.communicators > 0 {
        return Ok(());
    }
    let (context, word) = (of.context, of.word);
    shared.remove(&device);
    let freed = driver::within(context, || driver::call("cuMemFree_v2", &[word]));
    freed.and(driver::call(
        "cuDevicePrimaryCtxRelease_v2",
        &[device as u64],
    ))
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
