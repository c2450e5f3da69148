//! Charging a slice to the limit of its client, and the wait for memory that returns: see [`Charge`](crate::charge::Charge).

use std::sync::Arc;

use millstream_sync::credit::Credit;
use millstream_sync::facade::THREADS;

use crate::charge::Limit;
use crate::client::{DeviceShared, Stream};
use crate::error::{Error, Full, MemoryError};
use crate::handle::Hold;

impl Limit {
    /// A limit in bytes.
    pub(crate) fn new(device: &DeviceShared, bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            handles: Credit::new(bytes),
            memory: device.credit(bytes),
        })
    }

    /// Charges a slice of which there is no handle yet, made by `stream`. May wait for memory to return, if `wait`.
    ///
    /// # Errors
    /// [`MemoryError::Limit`] where live handles leave no room; else as any wait for room.
    pub(crate) fn charge(
        self: &Arc<Self>,
        stream: &Stream,
        (hold, bytes): (&Hold, u64),
        wait: bool,
    ) -> Result<(), Error> {
        if !THREADS {
            // In a model what others have dropped is there, or not yet.
            stream.device().channel().looked();
        }
        let live = self.handles.try_acquire(bytes);
        live.map_err(|full| MemoryError::Limit {
            client: stream.client().shared.name.clone(),
            asked: bytes,
            in_use: full.in_use,
            limit: full.limit,
        })?;
        let full = || Full::Memory {
            asked: bytes,
            in_use: self.memory.in_use(),
            limit: self.memory.limit(),
        };
        match stream.take_room(wait, &self.memory, (bytes, 0), full) {
            // The charge gives it back.
            Ok(room) => room.keep(),
            Err(error) => {
                self.handles.release(bytes);
                return Err(error);
            }
        }
        hold.payload().charge.begin(self.clone(), bytes);
        Ok(())
    }
}
