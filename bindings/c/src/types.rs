//! The types of elements and scalars, and accesses: as numbers in C, and as types in Rust.

use millstream::{Access, DType, bf16, f16};

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

/// Returns the type of an `ms_type`, which numbers [`DType::ALL`] from 1; it has no bool.
pub(crate) fn dtype_of(given: u32) -> Option<DType> {
    let dtype = DType::ALL.get((given as usize).wrapping_sub(1)).copied();
    dtype.filter(|dtype| *dtype != DType::Bool)
}

pub(crate) fn known_dtype(given: u32) -> Answer<DType> {
    let unknown = || Fault::argument(format!("expected an `ms_type`, got {given}"));
    dtype_of(given).ok_or_else(unknown)
}

/// Returns the `ms_type` of a type; 0 if it has none.
pub(crate) fn kind_of(dtype: DType) -> u32 {
    let mut numbers = 1..=ms_type::U8 as u32;
    numbers
        .find(|number| dtype_of(*number) == Some(dtype))
        .unwrap_or(0)
}

/// Something to do for a type that is known at run time.
pub(crate) trait ForType {
    type Output;

    fn run<T: ScalarElement>(self) -> Answer<Self::Output>;
}

/// An element that a launch also takes as a scalar.
pub(crate) trait ScalarElement: millstream::Element + millstream::Argument {}

impl<T: millstream::Element + millstream::Argument> ScalarElement for T {}

pub(crate) fn with_dtype<F: ForType>(dtype: DType, task: F) -> Answer<F::Output> {
    match dtype {
        DType::F64 => task.run::<f64>(),
        DType::I64 => task.run::<i64>(),
        DType::U64 => task.run::<u64>(),
        DType::F32 => task.run::<f32>(),
        DType::I32 => task.run::<i32>(),
        DType::U32 => task.run::<u32>(),
        DType::F16 => task.run::<f16>(),
        DType::Bf16 => task.run::<bf16>(),
        DType::I16 => task.run::<i16>(),
        DType::U16 => task.run::<u16>(),
        DType::I8 => task.run::<i8>(),
        DType::U8 => task.run::<u8>(),
        other => Err(Fault::argument(format!(
            "elements of {other} have no type here"
        ))),
    }
}
