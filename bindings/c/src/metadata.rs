//! The metadata of a launch: shapes and strides of tensors, as words that the kernel reads.

use millstream::Metadata;

use crate::sized::{chosen, read_array, read_plain, sized};
use crate::status::Answer;

/// The group of a tensor: metadata has the inputs first, then the outputs, then the tensors that a kernel reads by a
/// tensor map.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ms_tensor_group {
    /// An input.
    Input = 0,
    /// An output.
    Output = 1,
    /// A tensor that is read by a tensor map.
    TensorMap = 2,
}

/// A tensor in the metadata of a launch. All numbers are in elements, and must fit in 32 bits.
///
/// The kernel gets 32-bit words: for each tensor 5, which are its rank, its number of elements, `buffer_len`, and the
/// positions of its shape and of its strides in the words; then the shapes and strides.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_tensor {
    /// `sizeof(ms_tensor)`.
    pub size: u32,
    /// An `ms_tensor_group`.
    pub group: u32,
    /// The lengths along its axes.
    pub shape: *const u64,
    /// The steps between neighbours along its axes.
    pub strides: *const u64,
    /// The number of axes.
    pub rank: usize,
    /// The length of its buffer.
    pub buffer_len: u64,
}

sized!(ms_tensor: 40);

/// Returns the metadata of tensors.
///
/// # Safety
/// `tensors` is NULL or points to `count` tensors, whose pointers are NULL or valid for their rank.
pub(crate) unsafe fn metadata_of(tensors: *const ms_tensor, count: usize) -> Answer<Metadata> {
    let adds = [Metadata::input, Metadata::output, Metadata::tensor_map];
    let mut metadata = Metadata::new();
    // SAFETY: the caller's promise.
    for tensor in unsafe { read_array(tensors, count)? } {
        // SAFETY: as above.
        let shape = unsafe { read_plain(tensor.shape, tensor.rank, "uint64_t")? };
        // SAFETY: as above.
        let strides = unsafe { read_plain(tensor.strides, tensor.rank, "uint64_t")? };
        let add = chosen(tensor.group, adds, "`group` must be an `ms_tensor_group`")?;
        metadata = add(metadata, &shape, &strides, tensor.buffer_len)?;
    }
    Ok(metadata)
}
