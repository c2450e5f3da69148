//! Memory of the host in copies: what is there at the call, and what nobody may rely on until the copy.

use crate::memory::Memory;
use crate::operation::Rows;

/// What pinned memory holds between the call of a copy to it and the copy.
const UNDEFINED: u8 = 0xD5;

/// Reads rows of the host's.
pub(crate) fn host_bytes(rows: Rows) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.bytes() as usize);
    for range in rows.ranges() {
        let len = (range.end - range.start) as usize;
        // SAFETY: memory of the host that the caller of the driver vouches for.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(range.start as *const u8, len)
        });
    }
    bytes
}

impl Memory {
    /// Pinned bytes as they are now, which a copy will still find; unless what was asked before is to write them.
    pub(crate) fn pinned_bytes(&mut self, rows: Rows) -> Option<Vec<u8>> {
        let awaited = self.is_awaited(&rows.bounds());
        (!awaited).then(|| host_bytes(rows))
    }

    /// A copy is to write pinned bytes: whoever reads them too early reads what they never were.
    pub(crate) fn await_rows(&mut self, rows: Rows) {
        // An earlier copy may be to read or write them yet.
        if self.pending(rows.start) == 0 {
            for range in rows.ranges() {
                let len = (range.end - range.start) as usize;
                // SAFETY: pinned memory that is there, which the caller has given to this copy.
                unsafe { (range.start as *mut u8).write_bytes(UNDEFINED, len) };
            }
        }
        self.await_write(rows.bounds());
    }
}
