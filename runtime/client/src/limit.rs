//! Charges a slice to its client's hard limit, and waits for dropped memory to be freed: see
//! [`Charge`](millstream_protocol::charge::Charge).

use std::sync::Arc;

use millstream_protocol::charge::Limit;
use millstream_protocol::error::{Error, Full, MemoryError};
use millstream_protocol::table::SlotRef;
use millstream_sync::facade::THREADS;

use crate::Stream;

impl Stream {
    /// Charges a slice to its client's limit, before the first handle of the slice exists. If `wait` is set, blocks
    /// until enough dropped memory has been freed.
    ///
    /// # Errors
    /// [`MemoryError::Limit`] if live handles leave no room; otherwise the errors of any wait for capacity.
    pub(crate) fn charge(
        &self,
        limit: &Arc<Limit>,
        (hold, bytes): (&SlotRef, u64),
        wait: bool,
    ) -> Result<(), Error> {
        if !THREADS {
            // In a model: first observe everything that other threads dropped before this point.
            self.device().channel().looked();
        }
        let live = limit.handles.try_acquire(bytes);
        live.map_err(|full| MemoryError::Limit {
            client: self.client().shared.name.clone(),
            requested: bytes,
            in_use: full.in_use,
            limit: full.limit,
        })?;
        let full = || Full::Memory {
            requested: bytes,
            in_use: limit.memory.in_use(),
            limit: limit.memory.limit(),
        };
        match self.permit(wait, &limit.memory, (bytes, 0), full) {
            // The charge releases the credit.
            Ok(permit) => permit.forget(),
            Err(error) => {
                limit.handles.release(bytes);
                return Err(error);
            }
        }
        hold.payload().charge.begin(limit.clone(), bytes);
        Ok(())
    }
}
