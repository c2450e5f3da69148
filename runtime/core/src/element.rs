//! The Rust types that device memory holds.

pub use half::{bf16, f16};
use millstream_ir::DType;

/// A plain Rust type that stands for one [`DType`] on the device.
///
/// Every bit pattern is a value (`bytemuck::Pod`), so a view of device memory is always sound.
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
