//! Checks that a target has what a function needs, so that lowering meets no surprise.

use millstream_ir::ssa::{AtomicOp, Function, Memory, Op, statements};
use millstream_ir::{BinaryOp, DType};
use spirv::Capability;

use crate::emit::Emit;
use crate::{Features, LowerError, Target};

/// What a function needs of a device: whether the device has it, the feature of Vulkan, and the capability of the module.
type Need = (bool, &'static str, Capability);

/// Declares the capabilities that a function needs.
///
/// # Errors
/// The first feature that the target lacks.
pub(crate) fn check(
    emit: &mut Emit,
    function: &Function,
    has: &Features,
) -> Result<(), LowerError> {
    let shared = function.shared.iter().map(|array| array.dtype);
    // A bool is a byte in shared memory.
    let bytes = shared.clone().filter(|dtype| *dtype == DType::Bool);
    let values = function.values.iter().map(|of| of.dtype);
    let locals = function.locals.iter().map(|array| array.dtype);
    let tables = function.tables.iter().map(|table| table.dtype);
    let values = values.chain(locals).chain(tables).chain(shared);
    let values = values.filter(|dtype| *dtype != DType::Bool).chain(bytes);
    let computed = values.filter_map(|dtype| {
        let need = computation(has, dtype)?;
        Some((need, format!("computes with {dtype}"), "use another type"))
    });
    let stored = function.params.iter().filter_map(|param| {
        let need = storage(has, param.dtype)?;
        let what = format!("has {} elements in buffer `{}`", param.dtype, param.name);
        Some((need, what, "store elements of 32 bits"))
    });
    let atomic = statements(&function.body).filter_map(|stmt| {
        let Some(Op::Atomic(op, memory, _)) = stmt.op() else {
            return None;
        };
        let (name, dtype) = function.memory(*memory)?;
        let need = atomic(has, *op, *memory, dtype)?;
        let what = match op {
            AtomicOp::Update(BinaryOp::Add, _) => "adds to",
            _ => "accesses",
        };
        let what = format!("{what} `{name}` of type {dtype} atomically");
        Some((need, what, "use a type of 32 bits, or reduce instead"))
    });
    for ((is_given, feature, capability), what, instead) in computed.chain(stored).chain(atomic) {
        emit.needs(capability);
        if !is_given {
            return Err(LowerError::Feature {
                kernel: function.name.clone(),
                what,
                feature,
                instead,
            });
        }
    }
    Ok(())
}

/// Returns the target as one whose device does not add to floats in shared memory, if the function also loads or swaps such
/// floats atomically: those operations are on the bits of the elements, which have one type in the module.
pub(crate) fn without_adding(function: &Function, target: &Target) -> Target {
    let mut target = *target;
    for op in statements(&function.body).filter_map(|stmt| stmt.op()) {
        if let Op::Atomic(AtomicOp::Load | AtomicOp::Swap(_), Memory::Shared(_), _) = op {
            target.features.shared_f32_atomic_add = false;
            target.features.shared_f64_atomic_add = false;
        }
    }
    target
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

/// Returns what computation with a type needs.
fn computation(has: &Features, dtype: DType) -> Option<Need> {
    use DType::{Bf16, Bool, F16, F64, I8, I16, U8, U16};
    match dtype {
        F64 => Some((has.f64, "shaderFloat64", Capability::Float64)),
        I8 | U8 | Bool => Some((has.i8, "shaderInt8", Capability::Int8)),
        I16 | U16 | F16 | Bf16 => Some((has.i16, "shaderInt16", Capability::Int16)),
        _ => None,
    }
}

/// Returns what a buffer with elements of a type needs.
fn storage(has: &Features, dtype: DType) -> Option<Need> {
    use Capability::{StorageBuffer8BitAccess as Of8, StorageBuffer16BitAccess as Of16};
    match dtype.size() {
        1 => Some((has.storage_8, "storageBuffer8BitAccess", Of8)),
        2 => Some((has.storage_16, "storageBuffer16BitAccess", Of16)),
        _ => None,
    }
}

/// Returns what an atomic operation on this memory needs. Those of 32 bits need nothing: floats that the device does not add
/// are added by compare-and-exchange of their bits, and other operations on floats are on their bits.
fn atomic(has: &Features, op: AtomicOp, memory: Memory, dtype: DType) -> Option<Need> {
    let (is_given, feature) = match memory {
        Memory::Shared(_) => (has.shared_i64_atomics, "shaderSharedInt64Atomics"),
        _ => (has.buffer_i64_atomics, "shaderBufferInt64Atomics"),
    };
    let adds = matches!(op, AtomicOp::Update(..)) && has.adds(memory, dtype);
    match (dtype, adds) {
        (DType::F32, true) => Some((true, feature, Capability::AtomicFloat32AddEXT)),
        (DType::F64, true) => Some((true, feature, Capability::AtomicFloat64AddEXT)),
        _ if dtype.size() == 8 => Some((is_given, feature, Capability::Int64Atomics)),
        _ => None,
    }
}
