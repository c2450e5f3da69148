//! The structs of DLPack 1.0, in the layout of its header `dlpack.h`, and the codes of element types.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

use millstream::DType;

use crate::element::form_of;

/// The name of a capsule with a [`ManagedTensor`], and that of one whose consumer has taken the tensor.
pub(crate) const NAME: (&CStr, &CStr) = (c"dltensor", c"used_dltensor");
/// As [`NAME`], of a capsule with a [`ManagedTensorVersioned`].
pub(crate) const VERSIONED_NAME: (&CStr, &CStr) =
    (c"dltensor_versioned", c"used_dltensor_versioned");

/// The version of the structs here. A consumer with the same major version understands them.
pub(crate) const VERSION: Version = Version { major: 1, minor: 0 };

/// The consumer must not write the memory.
pub(crate) const READ_ONLY: u64 = 1;
/// The producer has made a copy for the consumer.
pub(crate) const IS_COPIED: u64 = 2;

/// A kind of memory, and the number of its device.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Device {
    pub(crate) kind: i32,
    pub(crate) index: i32,
}

impl Device {
    /// Memory of the host.
    pub(crate) const CPU: Self = Self { kind: 1, index: 0 };
    const CUDA: i32 = 2;
    const CUDA_HOST: i32 = 3;
    const VULKAN: i32 = 7;

    pub(crate) fn cuda(index: usize) -> Self {
        let (kind, index) = (Self::CUDA, index as i32);
        Self { kind, index }
    }

    pub(crate) fn vulkan(index: usize) -> Self {
        let (kind, index) = (Self::VULKAN, index as i32);
        Self { kind, index }
    }

    /// Whether the processor can read the memory.
    pub(crate) fn is_host(self) -> bool {
        matches!(self.kind, 1 | Self::CUDA_HOST)
    }
}

/// An element type.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DataType {
    pub(crate) code: u8,
    pub(crate) bits: u8,
    pub(crate) lanes: u16,
}

impl DataType {
    /// Returns the code of an element type.
    pub(crate) fn of(dtype: DType) -> Self {
        Self {
            code: form_of(dtype).code,
            bits: 8 * dtype.size() as u8,
            lanes: 1,
        }
    }

    /// Returns the element type of a code; `None` for types that the runtime does not have, such as complex numbers.
    pub(crate) fn dtype(self) -> Option<DType> {
        DType::ALL
            .into_iter()
            .find(|dtype| Self::of(*dtype) == self)
    }
}

/// A view of memory.
#[repr(C)]
pub(crate) struct Tensor {
    pub(crate) data: *mut c_void,
    pub(crate) device: Device,
    pub(crate) ndim: i32,
    pub(crate) dtype: DataType,
    pub(crate) shape: *mut i64,
    /// In elements. Null if the elements are contiguous.
    pub(crate) strides: *mut i64,
    pub(crate) byte_offset: u64,
}

/// A tensor with its owner, as before version 1.0.
#[repr(C)]
pub(crate) struct ManagedTensor {
    pub(crate) tensor: Tensor,
    pub(crate) context: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// A tensor with its owner, since version 1.0. The fields up to `flags` are the same in each later version.
#[repr(C)]
pub(crate) struct ManagedTensorVersioned {
    pub(crate) version: Version,
    pub(crate) context: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut ManagedTensorVersioned)>,
    pub(crate) flags: u64,
    pub(crate) tensor: Tensor,
}

/// Either of the two structs with an owner.
pub(crate) trait Managed: Sized {
    /// The name of its capsule, before and after a consumer takes the tensor.
    const NAME: (&'static CStr, &'static CStr);

    /// Makes one of ours; flags are for the second.
    fn new(tensor: Tensor, flags: u64, deleter: unsafe extern "C" fn(*mut Self)) -> Self;
    /// Returns the function that frees it.
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
    /// Returns the place for what its owner needs.
    fn context(&mut self) -> &mut *mut c_void;
}

/// Implements [`Managed`] for a struct, with the initial values of the fields that the other does not have.
macro_rules! managed {
    ($type:ident, $name:ident, |$flags:ident| { $($field:ident: $value:expr),* }) => {
        impl Managed for $type {
            const NAME: (&'static CStr, &'static CStr) = $name;

            fn new(tensor: Tensor, $flags: u64, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
                let (context, deleter) = (null_mut(), Some(deleter));
                Self { tensor, context, deleter, $($field: $value),* }
            }

            fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
                self.deleter
            }

            fn context(&mut self) -> &mut *mut c_void {
                &mut self.context
            }
        }
    };
}

managed!(ManagedTensor, NAME, |_flags| {});
managed!(ManagedTensorVersioned, VERSIONED_NAME, |flags| { version: VERSION, flags: flags });
