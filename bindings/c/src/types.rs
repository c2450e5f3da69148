//! The types of elements and scalars, and accesses, as numbers in C.

use millstream::{Access, DType};

use crate::status::{Answer, Fault};

/// The type of an element or of a scalar. The numbers are distinct from those of `ms_access`.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ms_type {
    /// 64-bit float.
    F64 = 1,
    /// 64-bit signed integer.
    I64 = 2,
    /// 64-bit unsigned integer.
    U64 = 3,
    /// 32-bit float.
    F32 = 4,
    /// 32-bit signed integer.
    I32 = 5,
    /// 32-bit unsigned integer.
    U32 = 6,
    /// 16-bit float, IEEE half.
    F16 = 7,
    /// 16-bit float, bfloat16.
    Bf16 = 8,
    /// 16-bit signed integer.
    I16 = 9,
    /// 16-bit unsigned integer.
    U16 = 10,
    /// 8-bit signed integer.
    I8 = 11,
    /// 8-bit unsigned integer.
    U8 = 12,
}

/// How a task uses a buffer.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ms_access {
    /// It only reads.
    Read = 101,
    /// It defines every byte, and reads none.
    Write = 102,
    /// It reads, and writes some of the bytes.
    Update = 103,
}

pub(crate) fn access_of(given: u32) -> Answer<Access> {
    let unknown = || Fault::argument(format!("expected an `ms_access`, got {given}"));
    known_access(given).ok_or_else(unknown)
}

/// Returns the access of an `ms_access`.
#[inline(always)]
pub(crate) fn known_access(given: u32) -> Option<Access> {
    const READ: u32 = ms_access::Read as u32;
    const WRITE: u32 = ms_access::Write as u32;
    const UPDATE: u32 = ms_access::Update as u32;
    match given {
        READ => Some(Access::Read),
        WRITE => Some(Access::Write),
        UPDATE => Some(Access::ReadWrite),
        _ => None,
    }
}

/// The types of the runtime that have an `ms_type`, in its order, from 1: all but the bool, which is the last.
const TYPES: &[DType] = DType::ALL.split_at(ms_type::U8 as usize).0;
const _: () = {
    use DType::*;
    assert!(matches!(
        TYPES,
        [F64, I64, U64, F32, I32, U32, F16, Bf16, I16, U16, I8, U8]
    ));
};

/// Returns the type of an `ms_type`.
pub(crate) fn dtype_of(given: u32) -> Option<DType> {
    TYPES.get((given as usize).wrapping_sub(1)).copied()
}

pub(crate) fn known_dtype(given: u32) -> Answer<DType> {
    let unknown = || Fault::argument(format!("expected an `ms_type`, got {given}"));
    dtype_of(given).ok_or_else(unknown)
}

/// Returns the `ms_type` of a type; 0 if it has none.
pub(crate) fn kind_of(dtype: DType) -> u32 {
    let place = TYPES.iter().position(|known| *known == dtype);
    place.map_or(0, |place| place as u32 + 1)
}
