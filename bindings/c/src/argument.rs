//! The arguments of a launch, and how a kernel wants them.

use millstream::{DType, KernelHandle};

use crate::buffer::ms_buffer;
use crate::sized::sized;
use crate::types::kind_of;

/// A value of an argument: the field of its kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ms_value {
    /// `MS_ACCESS_..`.
    pub buffer: *const ms_buffer,
    /// `MS_TYPE_F64`.
    pub f64: f64,
    /// `MS_TYPE_I64`.
    pub i64: i64,
    /// `MS_TYPE_U64`, and the number of a scalar parameter (`MS_PARAMETER`).
    pub u64: u64,
    /// `MS_TYPE_F32`.
    pub f32: f32,
    /// `MS_TYPE_I32`.
    pub i32: i32,
    /// `MS_TYPE_U32`.
    pub u32: u32,
    /// `MS_TYPE_I16`.
    pub i16: i16,
    /// `MS_TYPE_U16`, and the bits of `MS_TYPE_F16` and `MS_TYPE_BF16`.
    pub u16: u16,
    /// `MS_TYPE_I8`.
    pub i8: i8,
    /// `MS_TYPE_U8`.
    pub u8: u8,
}

/// Returns the bits of a scalar of this type. The bytes of the union beyond it are not read: the caller need not have set
/// them.
pub(crate) fn bits_of(value: &ms_value, dtype: DType) -> u64 {
    // SAFETY: the caller has set the field of the type, and any bits are a number.
    unsafe {
        match dtype.size() {
            1 => value.u8.into(),
            2 => value.u16.into(),
            4 => value.u32.into(),
            _ => value.u64,
        }
    }
}

/// An argument of a launch: a buffer with an access, or a scalar. The functions `ms_arg_..` make them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_argument {
    /// `sizeof(ms_argument)`.
    pub size: u32,
    /// An `ms_access`, an `ms_type`, or `MS_PARAMETER`.
    pub kind: u32,
    /// The value.
    pub value: ms_value,
}

/// The kind of an argument that is a scalar parameter of a recording.
pub const MS_PARAMETER: u32 = 201;

sized!(ms_argument: 16);

/// What a launch needs to know of a kernel's signature, in little memory.
pub(crate) struct Layout {
    pub(crate) bindings: usize,
    scalars: usize,
    /// The scalars, those of one type that follow each other taken together.
    pub(crate) runs: Box<[ScalarRun]>,
}

/// Scalars of one type that follow each other without gaps in the words of a launch.
pub(crate) struct ScalarRun {
    /// The size and the kind of each argument.
    pub(crate) head: u64,
    /// The first byte.
    pub(crate) offset: u32,
    /// The size of each scalar.
    pub(crate) bytes: u32,
    pub(crate) count: u32,
}

#[inline(always)]
pub(crate) fn head_of(size: u32, kind: u32) -> u64 {
    u64::from(kind) << 32 | u64::from(size)
}

/// The size of an argument, as its field has it.
pub(crate) const OURS: u32 = size_of::<ms_argument>() as u32;

impl Layout {
    pub(crate) fn of(kernel: &KernelHandle) -> Self {
        let signature = kernel.kernel().signature();
        let mut runs: Vec<ScalarRun> = Vec::new();
        for scalar in signature.scalars() {
            let head = head_of(OURS, kind_of(scalar.dtype));
            let (offset, bytes) = (scalar.offset as u32, scalar.dtype.size() as u32);
            match runs.last_mut() {
                Some(run) if run.head == head && run.offset + run.count * bytes == offset => {
                    run.count += 1;
                }
                _ => runs.push(ScalarRun {
                    head,
                    offset,
                    bytes,
                    count: 1,
                }),
            }
        }
        Self {
            bindings: signature.bindings().len(),
            scalars: signature.scalars().len(),
            runs: runs.into(),
        }
    }

    pub(crate) fn arguments(&self) -> usize {
        self.bindings + self.scalars
    }
}
