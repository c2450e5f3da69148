//! Charges a slice to its client's hard limit, and waits for memory to be freed: see
//! [`Charge`](millstream_protocol::charge::Charge).

use std::sync::Arc;

use millstream_protocol::charge::Limit;
use millstream_protocol::error::{Error, Full, MemoryError};
use millstream_protocol::options::AtLimit;
use millstream_protocol::table::SlotRef;
use millstream_sync::facade::THREADS;

use crate::Stream;

impl Stream {
    /// Charges a slice to its client's limit, before the first handle of the slice exists. If `wait` is set, blocks
    /// until enough memory has been freed, at most until the deadline of the stream.
    ///
    /// # Errors
    /// [`MemoryError::AboveLimit`] if there is never room. [`MemoryError::Limit`] if live handles leave no room and the
    /// client does not wait for that. Otherwise the errors of any wait for capacity.
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
        let client = || self.client().shared.name.clone();
        if bytes > limit.memory.limit() {
            return Err(Error::Memory(MemoryError::AboveLimit {
                client: client(),
                requested: bytes,
                limit: limit.memory.limit(),
            }));
        }
        if limit.at_limit == AtLimit::Fail {
            let live = limit.handles.try_acquire(bytes);
            live.map_err(|full| MemoryError::Limit {
                client: client(),
                requested: bytes,
                in_use: full.in_use,
                limit: full.limit,
            })?;
        }
        let full = || Full::Memory {
            requested: bytes,
            in_use: limit.memory.in_use(),
            limit: limit.memory.limit(),
        };
        match self.permit_until(self.deadline(), wait, &limit.memory, (bytes, 0), full) {
            // The charge releases the credit.
            Ok(permit) => permit.forget(),
            Err(error) => {
                if limit.at_limit == AtLimit::Fail {
                    limit.handles.release(bytes);
                }
                return Err(error);
            }
        }
        hold.payload()
            .charge
            .begin(limit.clone(), bytes, self.holding().cloned());
        Ok(())
    }
}
