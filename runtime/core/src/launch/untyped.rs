//! The arguments of a launch as a log has them: bytes, whose types are the signature's.

use millstream_ir::DType;

use crate::access::Access;
use crate::element::Element;
use crate::error::LaunchError;
use crate::handle::Handle;
use crate::kernel::{ScalarSpec, Signature};
use crate::launch::arguments::sealed::Sealed;
use crate::launch::{ArgumentCount, ArgumentError, ArgumentWriter, Arguments};

/// Arguments from a log. They are checked as any others, but for the element types, which it does not tell apart.
pub(crate) struct Logged<'a> {
    pub(crate) signature: &'a Signature,
    pub(crate) bindings: Vec<(Handle<u8>, Access)>,
    /// As many as the signature packs.
    pub(crate) scalars: &'a [u64],
    pub(crate) metadata: Vec<u32>,
}

/// Calls `$call` with the Rust type that stands for an element type.
macro_rules! for_dtype {
    ($dtype:expr, $name:expr, $call:ident($($argument:expr),*)) => {
        match $dtype {
            DType::F64 => $call::<f64>($($argument),*),
            DType::I64 => $call::<i64>($($argument),*),
            DType::U64 => $call::<u64>($($argument),*),
            DType::F32 => $call::<f32>($($argument),*),
            DType::I32 => $call::<i32>($($argument),*),
            DType::U32 => $call::<u32>($($argument),*),
            DType::I16 => $call::<i16>($($argument),*),
            DType::U16 => $call::<u16>($($argument),*),
            DType::I8 => $call::<i8>($($argument),*),
            DType::U8 => $call::<u8>($($argument),*),
            // No Rust type stands for the others, so no kernel that was launched declares them.
            declared => Err(LaunchError::ElementType {
                name: $name.clone(),
                declared,
                given: DType::U8,
            }
            .into()),
        }
    };
}

fn bind<T: Element>(
    writer: &mut ArgumentWriter<'_>,
    handle: &Handle<u8>,
    access: Access,
) -> Result<(), ArgumentError> {
    // What ends a view without making up an element is not the launch's.
    let spare = handle.size() % size_of::<T>() as u64;
    let whole = handle.clone().offset_end(spare)?;
    writer.binding(&whole.cast::<T>()?, access)
}

fn scalar<T: Element>(
    writer: &mut ArgumentWriter<'_>,
    words: &[u64],
    spec: &ScalarSpec,
) -> Result<(), ArgumentError> {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    let bytes = bytes.get(spec.offset..spec.offset + size_of::<T>());
    writer.scalar::<T>(bytes.map_or_else(T::zeroed, bytemuck::pod_read_unaligned))
}

impl Sealed for Logged<'_> {}

impl Arguments for Logged<'_> {
    fn count(&self) -> ArgumentCount {
        ArgumentCount {
            bindings: self.bindings.len(),
            scalars: self.signature.scalars().len(),
        }
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) -> Result<(), ArgumentError> {
        let declared = self.signature.bindings().iter();
        for ((handle, access), spec) in self.bindings.iter().zip(declared) {
            for_dtype!(spec.dtype, spec.name, bind(writer, handle, *access))?;
        }
        for spec in self.signature.scalars() {
            for_dtype!(spec.dtype, spec.name, scalar(writer, self.scalars, spec))?;
        }
        if !self.metadata.is_empty() {
            writer.metadata_words(self.metadata.clone());
        }
        Ok(())
    }
}
