//! Attributes of functions, and occupancy.

use crate::calls::config::Config;
use crate::calls::{In, Out, functions};
use crate::code::Code;
use crate::function::{
    CLUSTER_POLICIES, Function, MULTIPROCESSORS, REGISTERS_PER_THREAD, THREADS_MAX,
};
use crate::state::State;

/// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`
const THREADS: u32 = 0;
/// `CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`
const SHARED: u32 = 1;
/// `CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES`, `.._LOCAL_SIZE_BYTES`: reported as 0.
const CONSTANT: u32 = 2;
const LOCAL: u32 = 3;
/// `CU_FUNC_ATTRIBUTE_NUM_REGS`
const REGISTERS: u32 = 4;
/// `CU_FUNC_ATTRIBUTE_PTX_VERSION`, `.._BINARY_VERSION`: compute capability 9.0.
const PTX_VERSION: u32 = 5;
const BINARY_VERSION: u32 = 6;
const CAPABILITY: u32 = 90;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const SHARED_DYNAMIC: u32 = 8;
/// `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`: a hint in percent; -1 for none.
const CARVEOUT: u32 = 9;
/// `CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET` and the required size, which the supported PTX never declares.
const CLUSTER_MUST_BE_SET: u32 = 10;
const CLUSTER_DEPTH: u32 = 13;
/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`
const LARGE_CLUSTERS: u32 = 14;
/// `CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE`
const CLUSTER_POLICY: u32 = 15;

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
    let of = known_function(state, "cuFuncGetAttribute", function)?;
    let found = match attribute {
        THREADS => THREADS_MAX,
        SHARED => of.kernel.shared_bytes as u32,
        CONSTANT | LOCAL | CLUSTER_MUST_BE_SET..=CLUSTER_DEPTH => 0,
        REGISTERS => REGISTERS_PER_THREAD,
        PTX_VERSION | BINARY_VERSION => CAPABILITY,
        SHARED_DYNAMIC => of.shared_max,
        LARGE_CLUSTERS => of.large_clusters.into(),
        CLUSTER_POLICY => of.cluster_policy,
        _ => {
            state.report(format!("not modelled: function attribute {attribute}"));
            return Err(Code::NOT_SUPPORTED);
        }
    };
    Ok(found)
}

fn set_attribute(state: &mut State, function: u64, attribute: u32, value: i32) -> Result<(), Code> {
    let of = known_function(state, "cuFuncSetAttribute", function)?;
    match (attribute, u32::try_from(value)) {
        (SHARED_DYNAMIC, Ok(bytes)) if bytes <= of.dynamic_shared_limit() => of.shared_max = bytes,
        (CARVEOUT, _) if (-1..=100).contains(&value) => {}
        (LARGE_CLUSTERS, Ok(large @ 0..=1)) => of.large_clusters = large == 1,
        (CLUSTER_POLICY, Ok(policy)) if policy < CLUSTER_POLICIES => of.cluster_policy = policy,
        (SHARED_DYNAMIC | CARVEOUT | LARGE_CLUSTERS | CLUSTER_POLICY, _) => {
            return Err(Code::INVALID_VALUE);
        }
        _ => {
            state.report(format!(
                "not modelled: setting function attribute {attribute}"
            ));
            return Err(Code::INVALID_VALUE);
        }
    }
    Ok(())
}

/// Returns the number of clusters of a launch that fit on the GPU at once.
fn clusters(state: &mut State, function: u64, config: Config) -> Result<i32, Code> {
    let call = "cuOccupancyMaxActiveClusters";
    let (_, extras) = config.parse(state, call)?;
    let of = known_function(state, call, function)?;
    let Some(cluster) = extras.cluster else {
        state.report(format!("invalid launch: {call} receives no cluster"));
        return Err(Code::INVALID_VALUE);
    };
    if let Some(error) = of.cluster_error(cluster, config.cubes) {
        state.report(format!("invalid launch: {call} receives {error}"));
        return Err(Code::INVALID_CLUSTER_SIZE);
    }
    let threads = config.threads.iter().product();
    let blocks = MULTIPROCESSORS * of.blocks_per_multiprocessor(threads, config.shared_bytes);
    let cluster: u32 = cluster.iter().product();
    Ok((blocks / cluster) as i32)
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
    cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: Out<i32>, function: u64, threads: i32, shared_bytes: usize,
    ) Context |state| {
        let of = known_function(state, "cuOccupancyMaxActiveBlocksPerMultiprocessor", function)?;
        let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0);
        let threads = threads.ok_or(Code::INVALID_VALUE)?;
        blocks.put(of.blocks_per_multiprocessor(threads, u32::try_from(shared_bytes).unwrap_or(u32::MAX)) as i32)
    };
    cuOccupancyMaxActiveClusters(count: Out<i32>, function: u64, config: In<Config>) Context |state| {
        count.put(clusters(state, function, config.get()?)?)
    };
}
