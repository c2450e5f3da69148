//! Charging a slice to the limit of its client, and the wait for memory that returns: see [`Charge`](millstream_protocol::charge::Charge).

use std::sync::Arc;

use millstream_protocol::charge::Limit;
use millstream_protocol::error::{Error, Full, MemoryError};
use millstream_protocol::table::Hold;
use millstream_sync::facade::THREADS;

use crate::Stream;

impl Stream {
    /// Charges a slice of which there is no handle yet to its client's limit. May wait for memory to return, if `wait`.
    ///
    /// # Errors
    /// [`MemoryError::Limit`] where live handles leave no room; else as any wait for room.
    pub(crate) fn charge(
        &self,
        limit: &Arc<Limit>,
        (hold, bytes): (&Hold, u64),
        wait: bool,
    ) -> Result<(), Error> {
        if !THREADS {
            // In a model what others have dropped is there, or not yet.
            self.device().channel().looked();
        }
        let live = limit.handles.try_acquire(bytes);
        live.map_err(|full| MemoryError::Limit {
            client: self.client().shared.name.clone(),
            asked: bytes,
            in_use: full.in_use,
            limit: full.limit,
        })?;
        let full = || Full::Memory {
            asked: bytes,
            in_use: limit.memory.in_use(),
            limit: limit.memory.limit(),
        };
        match self.take_room(wait, &limit.memory, (bytes, 0), full) {
            // The charge gives it back.
            Ok(room) => room.keep(),
            Err(error) => {
                limit.handles.release(bytes);
                return Err(error);
            }
        }
        hold.payload().charge.begin(limit.clone(), bytes);
        Ok(())
    }
}
