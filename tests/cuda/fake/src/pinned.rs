//! Host memory in copies: the bytes at the call, and the undefined bytes of a target until the copy is executed.

use crate::memory::Memory;
use crate::operation::Rows;

/// The pattern of pinned memory between the call of a copy to it and its execution.
const UNDEFINED: u8 = 0xD5;

/// Reads rows of host memory.
pub(crate) fn host_bytes(rows: Rows) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.bytes() as usize);
    for range in rows.ranges() {
        let len = (range.end - range.start) as usize;
        // SAFETY: the caller passed this host memory to the driver.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(range.start as *const u8, len)
        });
    }
    bytes
}

impl Memory {
    /// Returns the pinned bytes at the call of a copy that reads them, or `None` if an earlier operation is still to
    /// write them.
    pub(crate) fn pinned_bytes(&mut self, rows: Rows) -> Option<Vec<u8>> {
        let awaited = self.has_expected_write(&rows.bounds());
        (!awaited).then(|| host_bytes(rows))
    }

    /// Prepares a copy that writes pinned bytes: fills them with a pattern, so that a host that reads them too early
    /// reads wrong values.
    pub(crate) fn expect_rows(&mut self, rows: Rows) {
        // An earlier operation may still read or write the bytes.
        if self.pending(rows.start) == 0 {
            for range in rows.ranges() {
                let len = (range.end - range.start) as usize;
                // SAFETY: live pinned memory, which the caller passed to this copy.
                unsafe { (range.start as *mut u8).write_bytes(UNDEFINED, len) };
            }
        }
        self.expect_write(rows.bounds());
    }
}
