//! Collectives of several GPUs by NCCL, which is loaded at run time.
//!
//! # Order
//!
//! A collective of NCCL occupies each of its GPUs until all have begun it. So two collectives with two GPUs in common
//! deadlock if one begins first on one GPU, and the other on the other. [`Communicators::launch`] rules that out for all
//! collectives of the process:
//!
//! - One thread at a time submits a collective, to all of its lanes: [`LAUNCHES`].
//! - On each GPU the collective first waits for the end of the one that was submitted before it, of any communicators.
//!
//! So the collectives have one order, that of the lock, and each waits for earlier ones alone.
//!
//! | module | contents |
//! | --- | --- |
//! | `api` | the library's functions |
//! | `launch` | communicators, and the launch of a collective |

mod api;
mod launch;

pub use launch::{CollectiveOperation, CollectivePart, Communicators, ReductionOperation};
use millstream_gpu::unavailable;
use millstream_ir::DType;
use millstream_protocol::OpenError;

/// Returns the version of NCCL: 22800 for 2.28.0. Loads the library, if the machine has it.
///
/// # Errors
/// [`OpenError::Unavailable`]: NCCL is not available. The message says what to do.
pub fn collective_library() -> Result<usize, OpenError> {
    let nccl = api::nccl().map_err(|why| unavailable("NCCL", why))?;
    Ok(nccl.version() as usize)
}

/// Returns NCCL's number of an element type, or `None` if it has no such type.
fn number_of(dtype: DType) -> Option<u32> {
    Some(match dtype {
        DType::I8 => 0,
        DType::U8 => 1,
        DType::I32 => 2,
        DType::U32 => 3,
        DType::I64 => 4,
        DType::U64 => 5,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::Bf16 => 9,
        _ => return None,
    })
}

/// Whether NCCL can combine elements of this type: it has no integers of 16 bits.
pub fn nccl_reduces(dtype: DType) -> bool {
    number_of(dtype).is_some()
}
