//! The Rust types of elements in device memory.

pub use half::{bf16, f16};
use millstream_ir::DType;
use sealed::Sealed;

/// What the elements of a buffer are: an [`Element`], or a struct of numbers.
///
/// Every bit pattern is a valid value (`bytemuck::Pod`), so a view of device memory is always sound. `#[kernel]` implements it
/// for a struct with `#[repr(C)]`; for another struct that is `Pod`, implement it:
///
/// ```
/// use millstream_ir::DType;
/// use millstream_protocol::Stored;
///
/// #[repr(C)]
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// struct Particle {
///     position: [f32; 3],
///     cell: u32,
/// }
///
/// impl Stored for Particle {
///     const WORD: DType = DType::common(&[f32::WORD, u32::WORD]); // `u32`
/// }
/// ```
///
/// These types are none:
///
/// | type | use instead |
/// | --- | --- |
/// | `usize`, `isize` | `u64`, `i64`, which do not depend on the machine. A scalar of a launch may be either |
/// | `bool` | `u8`: not every byte is a valid `bool`. As a scalar of a launch it is accepted as 0 or 1 |
///
/// ```compile_fail
/// # use millstream_client::Stream;
/// # use millstream_protocol::Error;
/// # fn f(stream: &Stream) -> Result<(), Error> {
/// let counts = stream.create(&[1_usize, 2])?; // the compiler says: use `u64`
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type of device memory",
    label = "not one of f64, i64, u64, f32, i32, u32, f16, bf16, i16, u16, i8, u8, and no struct of them",
    note = "use `u64` for `usize` and `u8` for `bool`: the layout is the same on every machine, and every bit pattern is valid",
    note = "a struct of numbers has `#[kernel]`, and below it `#[repr(C)]` and `#[derive(Clone, Copy)]`"
)]
pub trait Stored: bytemuck::Pod + Send + Sync + 'static {
    /// The type of the words that an element consists of, as programs access them. The element's size is a multiple of the
    /// word's.
    const WORD: DType;
}

/// A plain Rust type that corresponds to one [`DType`] on the device.
///
/// The trait is sealed: views of memory are sound only if each type has the layout of its [`DType`]. Native kernels and host
/// tasks have structs as their numbers: `bytemuck::cast_slice::<f32, Particle>(numbers)`.
///
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
    message = "`{Self}` is not a number of device memory",
    label = "not one of f64, i64, u64, f32, i32, u32, f16, bf16, i16, u16, i8, u8",
    note = "use `u64` for `usize` and `u8` for `bool`: the layout is the same on every machine, and every bit pattern is valid",
    note = "here a struct is its numbers: `bytemuck::cast_slice::<Struct, f32>(&structs)`, and back with `cast_slice::<f32, Struct>`"
)]
pub trait Element: Stored + Sealed {
    /// The element type on the device.
    const DTYPE: DType;
}

impl<T: Stored, const N: usize> Stored for [T; N] {
    const WORD: DType = T::WORD;
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

        impl Stored for $rust {
            const WORD: DType = DType::$dtype;
        }
    )*};
}

elements! {
    f64 => F64, i64 => I64, u64 => U64,
    f32 => F32, i32 => I32, u32 => U32,
    f16 => F16, bf16 => Bf16,
    i16 => I16, u16 => U16, i8 => I8, u8 => U8,
}
