//! Checks that a target has what a function needs, so that lowering meets no surprise.

use millstream_ir::DType;
use millstream_ir::ssa::{Function, Memory, Stmt};
use spirv::Capability;

use crate::unit::Unit;
use crate::walk::statements;
use crate::{Features, LowerError, Target};

/// Declares the capabilities for the types of a function.
///
/// # Errors
/// The first feature that the target lacks.
pub(crate) fn check(unit: &mut Unit, function: &Function) -> Result<(), LowerError> {
    let features = unit.target.features;
    let kernel = || function.name.clone();
    let shared = function.shared.iter().map(|array| array.dtype);
    // A bool is a byte in shared memory.
    let bytes = shared.clone().filter(|dtype| *dtype == DType::Bool);
    let values = function.values.iter().map(|of| of.dtype);
    let locals = function.locals.iter().map(|array| array.dtype);
    let values = values.chain(locals).chain(shared);
    let values = values.filter(|dtype| *dtype != DType::Bool).chain(bytes);
    for dtype in values {
        let Some((is_given, feature, capability)) = computation(&features, dtype) else {
            continue;
        };
        unit.emit.needs(capability);
        if !is_given {
            let kernel = kernel();
            return Err(LowerError::Type {
                kernel,
                dtype,
                feature,
            });
        }
    }
    for param in &function.params {
        let (is_given, feature, capability) = match param.dtype.size() {
            1 => (
                features.storage_8,
                "storageBuffer8BitAccess",
                Capability::StorageBuffer8BitAccess,
            ),
            2 => (
                features.storage_16,
                "storageBuffer16BitAccess",
                Capability::StorageBuffer16BitAccess,
            ),
            _ => continue,
        };
        unit.emit.needs(capability);
        if !is_given {
            let (kernel, buffer, dtype) = (kernel(), param.name.clone(), param.dtype);
            return Err(LowerError::Storage {
                kernel,
                buffer,
                dtype,
                feature,
            });
        }
    }
    let mut all = statements(&function.body);
    all.try_for_each(|stmt| match stmt {
        Stmt::AtomicAdd { to, .. } => atomic(unit, function, *to),
        _ => Ok(()),
    })
}

/// Checks the size of a cube.
///
/// # Errors
/// A limit that it exceeds.
pub(crate) fn check_limits(
    function: &Function,
    target: &Target,
    shared_bytes: u32,
) -> Result<(), LowerError> {
    let threads = function.threads.iter().product();
    let limits = [
        ("threads", threads, target.threads_max),
        (
            "bytes of shared memory",
            shared_bytes,
            target.shared_bytes_max,
        ),
    ];
    match limits.into_iter().find(|(_, needed, limit)| needed > limit) {
        None => Ok(()),
        Some((what, needed, limit)) => Err(LowerError::Limit {
            kernel: function.name.clone(),
            what,
            needed,
            limit,
        }),
    }
}

/// Returns the feature that computation with a type needs.
fn computation(features: &Features, dtype: DType) -> Option<(bool, &'static str, Capability)> {
    Some(match dtype {
        DType::F64 => (features.f64, "shaderFloat64", Capability::Float64),
        DType::I8 | DType::U8 | DType::Bool => (features.i8, "shaderInt8", Capability::Int8),
        DType::I16 | DType::U16 | DType::F16 | DType::Bf16 => {
            (features.i16, "shaderInt16", Capability::Int16)
        }
        _ => return None,
    })
}

/// Checks an atomic addition. 32 bits are always supported, and floats by compare-and-exchange of their bits.
fn atomic(unit: &Unit, function: &Function, memory: Memory) -> Result<(), LowerError> {
    let features = &unit.target.features;
    let Some((name, dtype)) = function.memory(memory) else {
        return Ok(());
    };
    if dtype.size() < 8 || (dtype.is_float() && unit.added_as(memory, dtype) == dtype) {
        return Ok(());
    }
    let (is_given, feature) = match memory {
        Memory::Shared(_) => (features.shared_i64_atomics, "shaderSharedInt64Atomics"),
        _ => (features.buffer_i64_atomics, "shaderBufferInt64Atomics"),
    };
    if is_given {
        return Ok(());
    }
    let (kernel, memory) = (function.name.clone(), name.to_owned());
    Err(LowerError::Atomic {
        kernel,
        memory,
        dtype,
        feature,
    })
}
