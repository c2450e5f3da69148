//! Arguments without element types: bytes, and the packed scalars as words. Who compiles kernels has them so, and
//! so has a log.

use millstream_protocol::kernel::Signature;

use crate::arguments::bound::sealed::Sealed;
use crate::arguments::{ArgumentCount, ArgumentError, ArgumentWriter, Arguments, Bound};

/// Arguments that are checked as any others, but for their element types: those are the signature's.
pub(crate) struct Untyped<'a> {
    pub(crate) signature: &'a Signature,
    pub(crate) bindings: &'a [Bound<'a, u8>],
    /// As many as the signature packs.
    pub(crate) words: &'a [u64],
    pub(crate) metadata: &'a [u32],
}

impl Sealed for Untyped<'_> {}

impl Arguments for Untyped<'_> {
    #[inline]
    fn count(&self) -> ArgumentCount {
        ArgumentCount {
            bindings: self.bindings.len(),
            // The writer compares the words.
            scalars: self.signature.scalars().len(),
        }
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) -> Result<(), ArgumentError> {
        for bound in self.bindings {
            writer.bytes(bound.handle(), bound.access())?;
        }
        writer.words(self.words)?;
        if !self.metadata.is_empty() {
            writer.metadata_words(self.metadata.to_vec());
        }
        Ok(())
    }
}
