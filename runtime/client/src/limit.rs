//! Charges slices to their client's hard limit, and waits for memory to be freed: see
//! [`Charge`](millstream_protocol::Charge).

use millstream_protocol::{AtLimit, Error, Full, MemoryError};
use millstream_sync::facade::THREADS;

use crate::Stream;
use crate::create::NewSlice;

impl Stream {
    /// Charges slices to their client's limit, together, before the first handle of one exists. Blocks, unless the
    /// stream does not, until enough memory has been freed, at most until the deadline of the stream.
    ///
    /// # Errors
    /// [`MemoryError::AboveLimit`] if there is never room. [`MemoryError::Limit`] if live handles leave no room and the
    /// client does not wait for that. Otherwise the errors of any wait for capacity.
    pub(crate) fn charge(&self, slices: &[NewSlice]) -> Result<(), Error> {
        let lengths = slices.iter().map(|slice| slice.binding().len);
        let bytes = lengths.fold(0_u64, u64::saturating_add);
        let limit = self.epoch().limit.as_ref();
        let Some(limit) = limit.filter(|_| bytes > 0) else {
            return Ok(());
        };
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
        match self.permit(self.deadline(), &limit.memory, (bytes, 0), full) {
            // The charge releases the credit.
            Ok(permit) => permit.forget(),
            Err(error) => {
                if limit.at_limit == AtLimit::Fail {
                    limit.handles.release(bytes);
                }
                return Err(error);
            }
        }
        slices
            .iter()
            .for_each(|slice| slice.charge(limit, self.holding()));
        Ok(())
    }
}
