//! Which calls of this MPI accept memory of CUDA devices, and how the bytes of a call reach MPI.
//!
//! | the bytes | of a part |
//! | --- | --- |
//! | by address | MPI reads and writes memory of the device |
//! | in pieces | pinned memory of the host holds a few pieces of a larger call (`pieces`) |
//! | by the host | all others: the device copies everything to the host before, and back after the call |
//!
//! The way is the choice of a rank: what travels is the same for all, except that all ranks cut a call into pieces if
//! one of them needs that, which they learn by the check of the call. A CUDA-aware MPI may refuse some calls
//! nevertheless: Open MPI documents non-blocking collectives as calls that do not work with memory of a device,
//! reductions with UCX as well.
//!
//! Other ways were rejected. Blocking collectives, which Open MPI supports with memory of a device, would hold up all
//! other calls while one group waits. Collectives of our own over sends and receives need kernels for the reductions,
//! and MPI knows its network. The places of an all-gather and a reduce-scatter are not contiguous on the ranks that
//! need no pieces, so both are not cut.

use std::ffi::c_int;
use std::sync::OnceLock;

use millstream_cluster::{Announcement, Operation};

use crate::check::{BYTES_MAX, read_bytes};
use crate::element::is_own;
use crate::pieces::PIECE_BYTES;
use crate::raw::is_open_mpi;

/// Overrides what this module finds out.
const VARIABLE: &str = "MILLSTREAM_MPI_CUDA";

/// The calls that accept memory of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aware {
    Nothing,
    /// Sends and receives.
    Transfers,
    All,
}

/// How the bytes of a part reach MPI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    ByHost,
    ByAddress,
    InPieces,
}

static AWARE: OnceLock<Aware> = OnceLock::new();

/// Asks MPI, which must be initialized.
pub(crate) fn ask() {
    let variable = std::env::var(VARIABLE).ok();
    let aware = Aware::new(variable.as_deref(), query(), is_open_mpi());
    // MPI is initialized once, so this is as well.
    let _ = AWARE.set(aware);
    tracing::debug!(?aware, "calls of MPI that accept memory of CUDA devices");
}

/// Calls `MPIX_Query_cuda_support`, if this MPI has it.
fn query() -> c_int {
    let library = libloading::os::unix::Library::this();
    // SAFETY: the type is that of Open MPI and MPICH; the library of MPI is never unloaded.
    unsafe {
        let function = library.get::<unsafe extern "C" fn() -> c_int>(c"MPIX_Query_cuda_support");
        function.map_or(0, |function| function())
    }
}

impl Aware {
    fn new(variable: Option<&str>, answer: c_int, is_open_mpi: bool) -> Self {
        match variable {
            Some("none") => return Self::Nothing,
            Some("transfers") => return Self::Transfers,
            Some("all") => return Self::All,
            Some(other) => tracing::warn!(
                "{VARIABLE} is `{other}`, and should be `none`, `transfers` or `all`; it has no effect"
            ),
            None => {}
        }
        match answer {
            1 if is_open_mpi => Self::Transfers,
            1 => Self::All,
            _ => Self::Nothing,
        }
    }

    /// Returns the way of a part on a CUDA device.
    fn way(self, call: &Announcement, size: usize) -> Way {
        let is_transfer = match call.operation {
            Operation::Send { .. } | Operation::Receive { .. } => true,
            // Such a call may travel in a record. In larger groups it does not; there is one rule.
            _ if read_bytes(call, size) <= BYTES_MAX => return Way::ByHost,
            _ => false,
        };
        // Our own operations are functions of the host.
        let is_own = match call.operation {
            Operation::AllReduce(reduction) | Operation::ReduceScatter(reduction) => {
                is_own(call.dtype, reduction)
            }
            _ => false,
        };
        let accepted = self == Self::All || is_transfer && self == Self::Transfers;
        match call.operation {
            _ if call.bytes() == 0 => Way::ByHost,
            _ if accepted && !is_own => Way::ByAddress,
            // Their pieces are not contiguous on all ranks.
            Operation::AllGather | Operation::ReduceScatter(_) => Way::ByHost,
            _ if call.bytes() > PIECE_BYTES => Way::InPieces,
            _ => Way::ByHost,
        }
    }
}

/// Returns the way of a part on a CUDA device in a call of a group of `size` ranks.
pub(crate) fn way(call: &Announcement, size: usize) -> Way {
    let aware = AWARE.get().copied().unwrap_or(Aware::Nothing);
    aware.way(call, size)
}

/// Returns the way of a part, whose call says whether it is on a CUDA device.
pub(crate) fn way_of_part(call: &Announcement, size: usize) -> Way {
    match call.on_device {
        true => way(call, size),
        false => Way::ByHost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_mpi_accepts_devices_in_transfers_alone() {
        assert_eq!(Aware::new(None, 1, true), Aware::Transfers);
        assert_eq!(Aware::new(None, 1, false), Aware::All);
        assert_eq!(Aware::new(None, 0, false), Aware::Nothing);
        assert_eq!(Aware::new(Some("all"), 0, true), Aware::All);
        assert_eq!(Aware::new(Some("none"), 1, false), Aware::Nothing);
        assert_eq!(Aware::new(Some("transfers"), 1, false), Aware::Transfers);
        assert_eq!(Aware::new(Some("yes"), 1, true), Aware::Transfers);
    }
}
