//! Attributes and parameters of functions.

use crate::calls::{Out, functions};
use crate::code::Code;
use crate::function::{Function, THREADS_MAX};
use crate::state::State;

/// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`
const THREADS: u32 = 0;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const SHARED_DYNAMIC: u32 = 8;
/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`
const LARGE_CLUSTERS: u32 = 14;

pub(super) fn known_function<'a>(
    state: &'a mut State,
    call: &str,
    function: u64,
) -> Result<&'a mut Function, Code> {
    if !state.functions.contains_key(&function) {
        state.report(format!(
            "invalid handle: {call} receives {function:#x}, which is not a function, or its module was unloaded"
        ));
    }
    state
        .functions
        .get_mut(&function)
        .ok_or(Code::INVALID_HANDLE)
}

fn attribute(state: &mut State, function: u64, attribute: u32) -> Result<u32, Code> {
    known_function(state, "cuFuncGetAttribute", function)?;
    match attribute {
        THREADS => Ok(THREADS_MAX),
        _ => {
            state.report(format!("not modelled: function attribute {attribute}"));
            Err(Code::NOT_SUPPORTED)
        }
    }
}

fn set_attribute(state: &mut State, function: u64, attribute: u32, value: i32) -> Result<(), Code> {
    let of = known_function(state, "cuFuncSetAttribute", function)?;
    match (attribute, u32::try_from(value)) {
        (SHARED_DYNAMIC, Ok(bytes)) if bytes <= of.dynamic_shared_limit() => of.shared_max = bytes,
        (LARGE_CLUSTERS, Ok(large @ 0..=1)) => of.large_clusters = large == 1,
        (SHARED_DYNAMIC | LARGE_CLUSTERS, _) => return Err(Code::INVALID_VALUE),
        _ => {
            state.report(format!(
                "not modelled: setting function attribute {attribute}"
            ));
            return Err(Code::INVALID_VALUE);
        }
    }
    Ok(())
}

functions! {
    cuFuncLoad(function: u64) Context |state| known_function(state, "cuFuncLoad", function).map(|_| ());
    cuFuncGetAttribute(value: Out<i32>, number: u32, function: u64) Context |state| {
        value.put(attribute(state, function, number)? as i32)
    };
    cuFuncSetAttribute(function: u64, number: u32, value: i32) Context |state| {
        set_attribute(state, function, number, value)
    };
    cuFuncGetParamInfo(function: u64, index: usize, offset: Out<usize>, bytes: Out<usize>) Context |state| {
        let of = known_function(state, "cuFuncGetParamInfo", function)?;
        let parameter = of.kernel.parameters.get(index).ok_or(Code::INVALID_VALUE)?;
        let (at, size) = (parameter.offset, parameter.bytes);
        offset.put(at)?;
        if bytes.is_requested() {
            bytes.put(size)?;
        }
        Ok(())
    };
}
