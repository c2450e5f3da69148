//! Attributes and parameters of functions.

use crate::calls::{Out, functions};
use crate::code::Code;
use crate::function::THREADS_MAX;
use crate::state::State;

/// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`
const THREADS: u32 = 0;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const SHARED_DYNAMIC: u32 = 8;
/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`
const LARGE_CLUSTERS: u32 = 14;

fn attribute(state: &mut State, function: u64, attribute: u32) -> Result<u32, Code> {
    state.function(function)?;
    match attribute {
        THREADS => Ok(THREADS_MAX),
        _ => {
            let report = format!("not modelled: function attribute {attribute}");
            Err(state.refuse(Code::NOT_SUPPORTED, report))
        }
    }
}

fn set_attribute(state: &mut State, function: u64, attribute: u32, value: i32) -> Result<(), Code> {
    let of = state.function(function)?;
    match (attribute, u32::try_from(value)) {
        (SHARED_DYNAMIC, Ok(bytes)) if bytes <= of.dynamic_shared_limit() => of.shared_max = bytes,
        (LARGE_CLUSTERS, Ok(large @ 0..=1)) => of.large_clusters = large == 1,
        (SHARED_DYNAMIC | LARGE_CLUSTERS, _) => return Err(Code::INVALID_VALUE),
        _ => {
            let report = format!("not modelled: setting function attribute {attribute}");
            return Err(state.refuse(Code::INVALID_VALUE, report));
        }
    }
    Ok(())
}

functions! {
    cuFuncLoad(function: u64) Context |state| state.function(function).map(|_| ());
    cuFuncGetAttribute(value: Out<i32>, number: u32, function: u64) Context |state| {
        value.put(attribute(state, function, number)? as i32)
    };
    cuFuncSetAttribute(function: u64, number: u32, value: i32) Context |state| {
        set_attribute(state, function, number, value)
    };
    cuFuncGetParamInfo(function: u64, index: usize, offset: Out<usize>, bytes: Out<usize>) Context |state| {
        let of = state.function(function)?;
        let parameter = of.kernel.parameters.get(index).ok_or(Code::INVALID_VALUE)?;
        bytes.put_if_requested(parameter.bytes);
        offset.put(parameter.offset)
    };
}
