//! MPI's functions with checked return codes. All of them are called by the holder of the engine's lock (`link`).
//!
//! The safe interface of the crate `mpi` is not used, because it ignores the return codes. The functions of ULFM are
//! looked up at run time, so that an MPI without them works, too.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use mpi::ffi;
use mpi::ffi::{MPI_Comm, MPI_Group, MPI_Request};

/// The most devices of a rank: each two devices of two ranks have three tags, and MPI allows tags up to 32,767 at least.
pub(crate) const DEVICES_MAX: usize = 100;

/// Why a function of MPI failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// MPI was initialized before, and can be only once in a process.
    #[error("MPI was initialized before in this process; keep the `World` that did")]
    Initialized,
    /// The thread that calls MPI could not be started, or has ended.
    #[error("the thread that calls MPI does not run: {0}")]
    Thread(String),
    /// A rank has ended.
    #[error("`{function}` failed: a rank has ended")]
    RankEnded {
        /// The function.
        function: &'static str,
    },
    /// MPI cannot go on without the ranks that have ended.
    #[error(
        "this MPI cannot make a communicator of the surviving ranks; use Open MPI 5 with `mpirun --with-ft ulfm`"
    )]
    NoSurvivors,
    /// A rank has too many devices in a group.
    #[error(
        "a group has at most {DEVICES_MAX} devices of each rank, and this rank lists {devices}"
    )]
    Devices {
        /// The number of devices of this rank.
        devices: usize,
    },
    /// A list of ranks has a rank that the world has not.
    #[error("there is no rank {rank}: the world has {ranks} ranks")]
    NoRank {
        /// The rank.
        rank: usize,
        /// The number of ranks of the world.
        ranks: usize,
    },
    /// A list of ranks has one twice.
    #[error("rank {rank} is listed twice")]
    RankTwice {
        /// The rank.
        rank: usize,
    },
    /// A list of ranks misses the calling one.
    #[error("the list misses this rank, {rank}: only the ranks of a group make it")]
    NotListed {
        /// The rank of this process.
        rank: usize,
    },
    /// Ranks that make a group together listed other ranks, in another order, or other numbers of devices.
    #[error(
        "rank {rank} makes a group of other ranks, in another order, or with another number of devices; all ranks of a group list the same ranks and as many devices, and make their groups in one order"
    )]
    Lists {
        /// The other rank.
        rank: usize,
    },
    /// A function returned another error.
    #[error("`{function}` failed: {message}")]
    Call {
        /// The function.
        function: &'static str,
        /// MPI's text.
        message: String,
    },
    /// The device is not of the fleet.
    #[error(transparent)]
    Cluster(#[from] millstream_cluster::ClusterError),
}

impl MpiError {
    /// Whether it says that a rank has ended, so that the communicator is of no use any more.
    pub(crate) fn is_rank_ended(&self) -> bool {
        matches!(self, Self::RankEnded { .. })
    }
}

/// The classes of errors that say that a rank has ended: `MPI_ERR_PROC_FAILED`, `.._PENDING` and `MPI_ERR_REVOKED` of Open
/// MPI 5.
const RANK_ENDED: std::ops::RangeInclusive<c_int> = 75..=77;

/// Whether the library reports ranks that have ended: otherwise the classes of these errors have other meanings.
static REPORTS_ENDED_RANKS: AtomicBool = AtomicBool::new(false);

/// Checks a return code.
pub(crate) fn check(function: &'static str, code: c_int) -> Result<(), MpiError> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut class = 0;
    let mut text = [0 as c_char; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut len = 0;
    // SAFETY: the text has the length that MPI documents.
    unsafe {
        ffi::MPI_Error_class(code, &mut class);
        ffi::MPI_Error_string(code, text.as_mut_ptr(), &mut len);
    }
    // Relaxed: one thread calls MPI.
    if RANK_ENDED.contains(&class) && REPORTS_ENDED_RANKS.load(Ordering::Relaxed) {
        return Err(MpiError::RankEnded { function });
    }
    // SAFETY: MPI ends the text with a zero.
    let message = unsafe { CStr::from_ptr(text.as_ptr()) };
    Err(MpiError::Call {
        function,
        message: message.to_string_lossy().into_owned(),
    })
}

/// Calls a function of MPI and checks its return code. The expansion is unsafe like the function.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        $crate::raw::check(stringify!($function), mpi::ffi::$function($($argument),*))
    };
}
pub(crate) use call;

/// The functions for ranks that have ended, of MPIs that have them. `mpi.h` does not declare them.
pub(crate) struct Ulfm {
    pub(crate) revoke: unsafe extern "C" fn(MPI_Comm) -> c_int,
    pub(crate) shrink: unsafe extern "C" fn(MPI_Comm, *mut MPI_Comm) -> c_int,
    pub(crate) iagree: unsafe extern "C" fn(MPI_Comm, *mut c_int, *mut MPI_Request) -> c_int,
    pub(crate) get_failed: unsafe extern "C" fn(MPI_Comm, *mut MPI_Group) -> c_int,
}

impl Ulfm {
    /// Looks the functions up in the library that this process has loaded.
    pub(crate) fn load() -> Option<Self> {
        let library = libloading::os::unix::Library::this();
        // A symbol of Open MPI alone: MPICH has functions of these names with other classes of errors, and its `mpiexec`
        // ends all ranks.
        // SAFETY: the symbol is not accessed.
        unsafe { library.get::<*const c_void>(c"ompi_mpi_comm_world") }.ok()?;
        // SAFETY: the types are those of Open MPI's `mpiext_ftmpi_c.h`; the library of MPI is never unloaded.
        let found = unsafe {
            Some(Self {
                revoke: *library.get(c"MPIX_Comm_revoke").ok()?,
                shrink: *library.get(c"MPIX_Comm_shrink").ok()?,
                iagree: *library.get(c"MPIX_Comm_iagree").ok()?,
                get_failed: *library.get(c"MPIX_Comm_get_failed").ok()?,
            })
        };
        // Relaxed: one thread calls MPI.
        REPORTS_ENDED_RANKS.store(true, Ordering::Relaxed);
        found
    }

    /// Returns the lowest rank of the communicator that is known to have ended.
    pub(crate) fn ended_rank(&self, comm: MPI_Comm) -> Option<u32> {
        // SAFETY: the communicator exists; each group that is made is freed.
        unsafe {
            let (mut failed, mut all) = (ffi::RSMPI_GROUP_NULL, ffi::RSMPI_GROUP_NULL);
            check("MPIX_Comm_get_failed", (self.get_failed)(comm, &mut failed)).ok()?;
            let mut size = 0;
            call!(MPI_Group_size(failed, &mut size)).ok()?;
            let mut rank = None;
            if size > 0 && call!(MPI_Comm_group(comm, &mut all)).is_ok() {
                let (first, mut found) = (0, 0);
                let translated = call!(MPI_Group_translate_ranks(
                    failed, 1, &first, all, &mut found
                ));
                rank = translated.is_ok().then_some(found as u32);
                ffi::MPI_Group_free(&mut all);
            }
            ffi::MPI_Group_free(&mut failed);
            rank
        }
    }
}

/// Returns the address that stands for a send buffer that is the receive buffer. MPI defines it as a macro, differently in
/// each library.
pub(crate) fn in_place() -> *const c_void {
    std::ptr::without_provenance(if is_open_mpi() { 1 } else { usize::MAX })
}

/// Whether the library is Open MPI, or one that is made of it.
pub(crate) fn is_open_mpi() -> bool {
    let mut text = [0 as c_char; ffi::MPI_MAX_LIBRARY_VERSION_STRING as usize + 1];
    let mut len = 0;
    // SAFETY: the text has the length that MPI documents.
    let version = unsafe {
        ffi::MPI_Get_library_version(text.as_mut_ptr(), &mut len);
        CStr::from_ptr(text.as_ptr())
    };
    version.to_bytes().starts_with(b"Open MPI")
}
