//! The user's side: clients, streams, kernels, answers, recordings.
//!
//! Everything here runs on the user's threads. It checks, builds messages and waits for answers;
//! it decides nothing.

mod callback;
mod compute;
mod copies;
mod device;
mod gone;
mod host;
mod kernel;
mod launch;
mod openings;
mod pending;
mod points;
mod profiles;
mod readbacks;
mod record;
mod replay;
mod reserve;
mod returned;
mod room;
mod stream;
mod tensors;
mod when_room;

use std::sync::atomic::Ordering;

use millstream_sync::credit::Credit;

pub use compute::{ClientBuilder, ComputeClient, WEIGHT_MAX};
pub use device::DeviceShared;
pub use gone::Gone;
pub use host::{IntoBindings, ResourceGuard, ResourceWork};
pub use kernel::KernelHandle;
pub use openings::Openings;
pub use pending::Pending;
pub use points::StreamPoint;
pub use readbacks::{Readback, ReadbackSender, Readbacks, readbacks};
pub use record::Recorder;
pub use replay::Recording;
pub use returned::Returned;
pub use stream::Stream;
pub use tensors::{Tensor, TensorSpec};

pub(crate) use openings::{Bounds, Seat};
pub(crate) use pending::Finish;
pub(crate) use room::{Home, Room};
use when_room::Purse;

use crate::handle::{Hold, Shared};

/// Bytes charged to a client with a hard limit.
pub(crate) struct Charge {
    credit: std::sync::Arc<Credit>,
    bytes: u64,
}

/// Notes what a fresh slice costs its client.
fn charge(hold: &Hold, credit: &std::sync::Arc<Credit>, bytes: u64) {
    let charge = Box::new(Charge {
        credit: credit.clone(),
        bytes,
    });
    // Release: whoever swaps the pointer out reads the box behind it.
    let before = hold
        .payload()
        .charge
        .swap(Box::into_raw(charge), Ordering::AcqRel);
    debug_assert!(before.is_null(), "a fresh slot has no charge");
}

/// The last hold on a slice is going: its client may have the bytes again.
#[cold]
pub(crate) fn credit_charge(hold: &Hold) {
    credit_shared(hold.payload());
}

/// Credits what the slot was charged, unless somebody has.
#[inline]
pub(crate) fn credit_shared(shared: &Shared) {
    // Relaxed: null is the common case, and a charge is stored before the slot is handed out.
    if shared.charge.load(Ordering::Relaxed).is_null() {
        return;
    }
    // AcqRel: pairs with the swap in `charge`; exactly one swap sees the pointer.
    let charge = shared.charge.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if !charge.is_null() {
        // SAFETY: the pointer came from `Box::into_raw` in `charge`, and this swap took it alone.
        let charge = unsafe { Box::from_raw(charge) };
        charge.credit.release(charge.bytes);
    }
}
