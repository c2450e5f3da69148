//! The Rust types of elements in device memory.

pub use half::{bf16, f16};
use millstream_ir::DType;
use sealed::Sealed;

/// A plain Rust type that corresponds to one [`DType`] on the device.
///
/// Every bit pattern is a valid value (`bytemuck::Pod`), so a view of device memory is always sound. Kernels for any
/// device are compiled by element type, so the following types have no `DType`:
///
/// | type | use instead |
/// | --- | --- |
/// | `usize`, `isize` | `u64`, `i64`, which do not depend on the machine. A scalar of a launch may be either |
/// | `bool` | `u8`: not every byte is a valid `bool`. As a scalar of a launch it is accepted as 0 or 1 |
/// | a `Pod` struct | its numbers: `bytemuck::cast_slice::<Particle, f32>(&particles)`; as `u32` for mixed types |
///
/// `cast_slice` converts the numbers back to structs, in kernels and after a read. Pass the parameters of a launch as a
/// buffer of one such struct.
///
/// The trait is sealed: views of memory are sound only if each type has the layout of its [`DType`].
///
/// ```compile_fail
/// # use millstream_client::Stream;
/// # use millstream_protocol::Error;
/// # fn f(stream: &Stream) -> Result<(), Error> {
/// let counts = stream.create(&[1_usize, 2])?; // the compiler says: use `u64`
/// # Ok(()) }
/// ```
/// ```compile_fail,E0277
/// # use millstream_protocol::Element;
/// # use millstream_ir::DType;
/// #[repr(C, align(8))]
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// struct Wide(u64);
/// impl Element for Wide { // a view of `u8` memory may start at an odd byte, where no `&Wide` may exist
///     const DTYPE: DType = DType::U8;
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type of device memory",
    label = "not one of f64, i64, u64, f32, i32, u32, f16, bf16, i16, u16, i8, u8",
    note = "use `u64` for `usize` and `u8` for `bool`: the layout is the same on every machine, and every bit pattern is valid",
    note = "pass a `Pod` struct as its numbers: `bytemuck::cast_slice::<Struct, f32>(&structs)`, and convert data that is read with `cast_slice::<f32, Struct>`"
)]
pub trait Element: bytemuck::Pod + Send + Sync + Sealed + 'static {
    /// The element type on the device.
    const DTYPE: DType;
}

mod sealed {
    /// Restricts `Element` to the types of this crate.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be an element type of device memory",
        note = "kernels accept numbers only: convert a `Pod` struct to its numbers with `bytemuck::cast_slice`"
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
