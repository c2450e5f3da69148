//! Functions of floats: roots, exponentials, angles. A function without a loop of its own uses the reference.

use std::marker::PhantomData;

use millstream_ir::{DType, UnaryOp, scalar};

use super::map::{self, map1};
use millstream_loops::level::{Arithmetic, Kernel, Level, Loop, kernel};
use millstream_loops::operation::{
    Ceil32, Ceil64, Cos32, Cos64, Erf32, Exp32, Exp64, Floor32, Floor64, Log32, Log64, Sin32,
    Sin64, Sqrt32, Sqrt64, Tanh32, Tanh64, tile, tile_mut,
};

/// Returns the loop of a unary operation, if the type has one.
pub(crate) fn unary(op: UnaryOp, dtype: DType, level: Level) -> Option<Kernel> {
    macro_rules! either {
        ($single:ident, $double:ident) => {
            match dtype {
                DType::F32 => map1::<f32, $single>(level),
                DType::F64 => map1::<f64, $double>(level),
                _ => return None,
            }
        };
    }
    Some(match op {
        UnaryOp::Sqrt => either!(Sqrt32, Sqrt64),
        UnaryOp::Exp => either!(Exp32, Exp64),
        UnaryOp::Log => either!(Log32, Log64),
        UnaryOp::Sin => either!(Sin32, Sin64),
        UnaryOp::Cos => either!(Cos32, Cos64),
        UnaryOp::Tanh => either!(Tanh32, Tanh64),
        UnaryOp::Erf if dtype == DType::F32 => map1::<f32, Erf32>(level),
        UnaryOp::Floor => either!(Floor32, Floor64),
        UnaryOp::Ceil => either!(Ceil32, Ceil64),
        _ => return map::unary(op, dtype, level),
    })
}

/// The reference, value by value, on the bits of one type.
struct Reference<B>(PhantomData<B>);

macro_rules! references {
    ($($bits:ident: $dtype:ident),*) => {$(
        impl Loop for Reference<$bits> {
            /// The second operand is a scalar: the index of the operation.
            unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
                // SAFETY: the caller's promises.
                let (d, a, op) = unsafe { (tile_mut::<$bits>(d, n), tile::<$bits>(a, n), *b.cast::<u64>()) };
                let of = scalar::unary(UnaryOp::ALL[op as usize], DType::$dtype);
                let of = of.expect("`by_reference` checked that the operation exists");
                for (d, a) in d.iter_mut().zip(a) {
                    *d = of(u64::from(*a)) as $bits;
                }
            }
        }
    )*};
}

references! { u32: F32, u64: F64 }

/// Returns the loop that calls the reference, and the scalar that it takes as its second operand.
pub(crate) fn by_reference(op: UnaryOp, dtype: DType, level: Level) -> Option<(Kernel, u64)> {
    scalar::unary(op, dtype)?;
    let run = match dtype {
        DType::F32 => kernel::<Reference<u32>>(level),
        DType::F64 => kernel::<Reference<u64>>(level),
        _ => return None,
    };
    Some((run, op as u64))
}

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

/// Random numbers from counters and a scalar seed.
struct Philox;

impl Loop for Philox {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let (d, a, seed) = unsafe { (tile_mut::<u32>(d, n), tile::<u64>(a, n), *b.cast::<u64>()) };
        for (d, a) in d.iter_mut().zip(a) {
            *d = scalar::random(seed, *a) as u32;
        }
    }
}

/// Returns the loop of random numbers, from counters (`i64`) and a scalar seed.
pub(crate) fn random(level: Level) -> Kernel {
    kernel::<Philox>(level)
}
