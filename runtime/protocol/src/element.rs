//! The Rust types that device memory holds.

pub use half::{bf16, f16};
use millstream_ir::DType;
use sealed::Sealed;

/// A plain Rust type that stands for one [`DType`] on the device.
///
/// Every bit pattern is a value (`bytemuck::Pod`), so a view of device memory is always sound. Kernels for any device are
/// compiled by element type, so other types have none:
///
/// | type | instead |
/// | --- | --- |
/// | `usize`, `isize` | `u64`, `i64`: what a buffer holds does not depend on the machine. As scalars of a launch they are taken as such |
/// | `bool` | `u8`: not every byte is a `bool`. As a scalar of a launch it is taken as 0 or 1 |
/// | a `Pod` struct | its numbers: `stream.create(bytemuck::cast_slice::<Particle, f32>(&them))`, as `u32` if they are of several types. `cast_slice` makes structs of them again, in kernels and of what was read. Parameters of a launch are a buffer of one such struct |
///
/// The trait is sealed: views of memory are sound because each of these types is as its [`DType`] says.
///
/// ```compile_fail
/// # use millstream_client::Stream;
/// # use millstream_protocol::error::Error;
/// # fn f(stream: &Stream) -> Result<(), Error> {
/// let counts = stream.create(&[1_usize, 2])?; // the compiler says: use `u64`
/// # Ok(()) }
/// ```
/// ```compile_fail,E0277
/// # use millstream_protocol::element::Element;
/// # use millstream_ir::DType;
/// #[repr(C, align(8))]
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// struct Wide(u64);
/// impl Element for Wide { // it may lie at an odd byte of `u8` memory, where there is no `&Wide`
///     const DTYPE: DType = DType::U8;
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element of device memory",
    label = "not one of f64, i64, u64, f32, i32, u32, f16, bf16, i16, u16, i8, u8",
    note = "for `usize` use `u64`, for `bool` use `u8`: a buffer is the same on every machine, and every bit pattern is a value",
    note = "for a `Pod` struct use its numbers: `bytemuck::cast_slice::<Struct, f32>(&structs)`, and `cast_slice::<f32, Struct>` of what is read"
)]
pub trait Element: bytemuck::Pod + Send + Sync + Sealed + 'static {
    /// The element type.
    const DTYPE: DType;
}

mod sealed {
    /// Only types of this crate are elements.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be an element of device memory",
        note = "kernels know numbers only: give a `Pod` struct as its numbers, which `bytemuck::cast_slice` makes of it"
    )]
    pub trait Sealed {}
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl Sealed for $rust {}

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
