//! Arguments without element types: bindings as bytes, and scalars as packed words. Compiled kernels and submission
//! logs have them in this form.

use millstream_protocol::{Error, Signature, TensorMap};

use crate::arguments::bound::sealed::Sealed;
use crate::arguments::{ArgumentCount, ArgumentWriter, Arguments, Bound};

/// Arguments that are checked like all others, except that their element types are those of the signature.
pub(crate) struct Untyped<'a> {
    pub(crate) signature: &'a Signature,
    pub(crate) bindings: &'a [Bound<'a, u8>],
    /// Their number must match the signature's.
    pub(crate) words: &'a [u64],
    pub(crate) metadata: &'a [u32],
    pub(crate) tensor_maps: &'a [TensorMap],
}

impl Sealed for Untyped<'_> {}

impl Arguments for Untyped<'_> {
    #[inline]
    fn count(&self) -> ArgumentCount {
        ArgumentCount {
            bindings: self.bindings.len(),
            // The writer checks the number of words.
            scalars: self.signature.scalars().len(),
        }
    }

    fn write<'h>(&self, writer: &mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>
    where
        Self: 'h,
    {
        for bound in self.bindings {
            writer.bytes(bound.handle(), bound.access())?;
        }
        writer.words(self.words)?;
        if !self.metadata.is_empty() {
            writer.metadata_words(self.metadata.to_vec());
        }
        if !self.tensor_maps.is_empty() {
            writer.tensor_maps(self.tensor_maps)?;
        }
        Ok(())
    }
}
