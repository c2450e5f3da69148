//! The Rust types that device memory holds.

pub use half::{bf16, f16};
use millstream_ir::DType;

/// A plain Rust type that stands for one [`DType`] on the device.
///
/// Every bit pattern is a value (`bytemuck::Pod`), so a view of device memory is always sound. Kernels for any device are
/// compiled by element type, so other types have none:
///
/// | type | instead |
/// | --- | --- |
/// | `usize`, `isize` | `u64`, `i64`: what a buffer holds does not depend on the machine. As scalars of a launch they are taken as such |
/// | `bool` | `u8`: not every byte is a `bool`. As a scalar of a launch it is taken as 0 or 1 |
/// | a struct of numbers | its bytes: `stream.create(bytemuck::bytes_of(&it))` or `cast_slice(&them)` as `u8`; kernels cast them back |
///
/// ```compile_fail
/// # use millstream_core::{client::Stream, error::Error};
/// # fn f(stream: &Stream) -> Result<(), Error> {
/// let counts = stream.create(&[1_usize, 2])?; // the compiler says: use `u64`
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element of device memory",
    label = "not one of f64, i64, u64, f32, i32, u32, f16, bf16, i16, u16, i8, u8",
    note = "for `usize` use `u64`, for `bool` use `u8`: a buffer is the same on every machine, and every bit pattern is a value",
    note = "for a struct of numbers use its bytes, which `bytemuck::cast_slice` gives if it is `Pod`, as elements of type `u8`"
)]
pub trait Element: bytemuck::Pod + Send + Sync + 'static {
    /// The element type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements! {
    f64 => F64, i64 => I64, u64 => U64,
    f32 => F32, i32 => I32, u32 => U32,
    f16 => F16, bf16 => Bf16,
    i16 => I16, u16 => U16, i8 => I8, u8 => U8,
}
