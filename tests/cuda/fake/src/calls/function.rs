//! Attributes of functions, and what fits at once.

use crate::calls::config::Config;
use crate::calls::{Given, Out, functions};
use crate::code::Code;
use crate::function::{
    CLUSTER_POLICIES, Function, MULTIPROCESSORS, REGISTERS_OF_A_THREAD, THREADS_MAX,
};
use crate::state::State;

/// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`
const THREADS: u32 = 0;
/// `CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`
const SHARED: u32 = 1;
/// `CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES`, `.._LOCAL_SIZE_BYTES`: of neither is anything interpreted.
const CONSTANT: u32 = 2;
const LOCAL: u32 = 3;
/// `CU_FUNC_ATTRIBUTE_NUM_REGS`
const REGISTERS: u32 = 4;
/// `CU_FUNC_ATTRIBUTE_PTX_VERSION`, `.._BINARY_VERSION`: of compute capability 9.0.
const PTX_VERSION: u32 = 5;
const BINARY_VERSION: u32 = 6;
const CAPABILITY: u32 = 90;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const SHARED_DYNAMIC: u32 = 8;
/// `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`: a hint in percent, -1 is none.
const CARVEOUT: u32 = 9;
/// `CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET`, and the size, which no PTX that is interpreted here asks for.
const CLUSTER_MUST_BE_SET: u32 = 10;
const CLUSTER_DEPTH: u32 = 13;
/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`
const CLUSTERS_ARE_LARGE: u32 = 14;
/// `CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE`
const CLUSTER_POLICY: u32 = 15;

pub(super) fn known_function<'a>(
    state: &'a mut State,
    call: &str,
    function: u64,
) -> Result<&'a mut Function, Code> {
    if !state.functions.contains_key(&function) {
        state.report(format!(
            "wrong handle: {call} is given {function:#x}, which is no function, or its module was unloaded"
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
        REGISTERS => REGISTERS_OF_A_THREAD,
        PTX_VERSION | BINARY_VERSION => CAPABILITY,
        SHARED_DYNAMIC => of.shared_max,
        CLUSTERS_ARE_LARGE => of.clusters_are_large.into(),
        CLUSTER_POLICY => of.cluster_policy,
        _ => {
            state.report(format!("not modelled: attribute {attribute} of a function"));
            return Err(Code::NOT_SUPPORTED);
        }
    };
    Ok(found)
}

fn set_attribute(state: &mut State, function: u64, attribute: u32, value: i32) -> Result<(), Code> {
    let of = known_function(state, "cuFuncSetAttribute", function)?;
    match (attribute, u32::try_from(value)) {
        (SHARED_DYNAMIC, Ok(bytes)) if bytes <= of.shared_room() => of.shared_max = bytes,
        (CARVEOUT, _) if (-1..=100).contains(&value) => {}
        (CLUSTERS_ARE_LARGE, Ok(large @ 0..=1)) => of.clusters_are_large = large == 1,
        (CLUSTER_POLICY, Ok(policy)) if policy < CLUSTER_POLICIES => of.cluster_policy = policy,
        (SHARED_DYNAMIC | CARVEOUT | CLUSTERS_ARE_LARGE | CLUSTER_POLICY, _) => {
            return Err(Code::INVALID_VALUE);
        }
        _ => {
            state.report(format!(
                "not modelled: to set attribute {attribute} of a function"
            ));
            return Err(Code::INVALID_VALUE);
        }
    }
    Ok(())
}

/// How many clusters of a launch fit onto the GPU at once.
fn clusters(state: &mut State, function: u64, config: Config) -> Result<i32, Code> {
    let call = "cuOccupancyMaxActiveClusters";
    let (_, extras) = config.asked(state, call)?;
    let of = known_function(state, call, function)?;
    let Some(cluster) = extras.cluster else {
        state.report(format!("wrong launch: {call} is given no cluster"));
        return Err(Code::INVALID_VALUE);
    };
    if let Some(wrong) = of.wrong_cluster(cluster, config.cubes) {
        state.report(format!("wrong launch: {call} is given {wrong}"));
        return Err(Code::INVALID_CLUSTER_SIZE);
    }
    let threads = config.threads.iter().product();
    let blocks = MULTIPROCESSORS * of.blocks_at_once(threads, config.shared_bytes);
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
        if bytes.is_wanted() {
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
        blocks.put(of.blocks_at_once(threads, u32::try_from(shared_bytes).unwrap_or(u32::MAX)) as i32)
    };
    cuOccupancyMaxActiveClusters(count: Out<i32>, function: u64, config: Given<Config>) Context |state| {
        count.put(clusters(state, function, config.get()?)?)
    };
}
