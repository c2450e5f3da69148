//! Allocations: in the order of a stream, immediate ones, and pinned host memory.

use crate::calls::device::known_device;
use crate::calls::{In, Out, functions};
use crate::code::Code;
use crate::memory::{AllocKind, Origin};
use crate::operation::Operation;
use crate::state::State;
use ptx::Kind;

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
const RELEASE_THRESHOLD: u32 = 4;
/// The flags portable, mapped and write-combined.
const HOST_FLAGS: u32 = 1 | 2 | 4;

/// Frees memory during the call, as a step of the host. The host must know that all uses are complete.
fn free_now(state: &mut State, call: &str, address: u64, kind: AllocKind) -> Result<(), Code> {
    let by = state.this_call(call);
    let range = report_violation(state, |state| state.memory.begin_free(address, kind, &by))?;
    let step = state.host_step(&by);
    state.record_access(&step, Kind::Write, range);
    let pending = state.memory.pending(address);
    if pending > 0 {
        state.report(format!(
            "freed while in use: {by} frees pinned memory that {pending} queued operations use"
        ));
    }
    state.memory.release(address);
    Ok(())
}

/// Reports an invalid use of memory.
fn report_violation<T>(
    state: &mut State,
    body: impl FnOnce(&mut State) -> Result<T, crate::memory::Violation>,
) -> Result<T, Code> {
    body(state).map_err(|violation| {
        state.report(violation.report);
        violation.code
    })
}

/// Returns the GPU of a pool.
pub(super) fn known_pool(state: &mut State, call: &str, pool: u64) -> Result<usize, Code> {
    if let Some(gpu) = state.pools.get(&pool) {
        return Ok(*gpu);
    }
    state.report(format!(
        "invalid handle: {call} receives {pool:#x}, which is not a pool, or was destroyed"
    ));
    Err(Code::INVALID_HANDLE)
}

/// The first fields of `CUmemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PoolProperties {
    kind: u32,
    handles: u32,
    location: u32,
    gpu: i32,
}

/// `CU_MEM_ALLOCATION_TYPE_PINNED`
const PINNED: u32 = 1;
/// `CU_MEM_LOCATION_TYPE_DEVICE`
pub(super) const LOCATION_DEVICE: u32 = 1;

functions! {
    cuMemPoolCreate(pool: Out<u64>, properties: In<PoolProperties>) Context |state| {
        let requested = properties.get()?;
        if (requested.kind, requested.handles, requested.location) != (PINNED, 0, LOCATION_DEVICE) {
            state.report("not modelled: a pool that is shared, or not on a GPU".to_owned());
            return Err(Code::NOT_SUPPORTED);
        }
        let gpu = known_device(state, requested.gpu)?;
        let created = state.handle();
        pool.put(created)?;
        state.pools.insert(created, gpu);
        Ok(())
    };
    cuMemPoolDestroy(pool: u64) Ending |state| {
        known_pool(state, "cuMemPoolDestroy", pool)?;
        state.pools.remove(&pool);
        state.memory.end_pool(pool);
        Ok(())
    };
    // Of the threshold only matters whether it is 0: a pool without one keeps nothing, any other keeps all.
    cuMemPoolSetAttribute(pool: u64, attribute: u32, value: In<u64>) Context |state| {
        let gpu = known_pool(state, "cuMemPoolSetAttribute", pool)?;
        if attribute != RELEASE_THRESHOLD {
            state.report(format!("not modelled: pool attribute {attribute}"));
            return Err(Code::NOT_SUPPORTED);
        }
        if value.get()? > 0 {
            state.memory.keep(pool, gpu);
        }
        Ok(())
    };
    cuMemPoolTrimTo(pool: u64, keep: usize) Context |state| {
        known_pool(state, "cuMemPoolTrimTo", pool)?;
        state.memory.trim(pool, keep as u64);
        Ok(())
    };
    cuMemAllocFromPoolAsync(address: Out<u64>, bytes: usize, pool: u64, stream: u64) Context |state| {
        let call = "cuMemAllocFromPoolAsync";
        let gpu = known_pool(state, call, pool)?;
        let allocated_by = state.this_call(call);
        let origin = Origin { gpu, pool: Some(pool), ..state.current_origin() };
        let created = state.memory.allocate(bytes, AllocKind::Pool, origin, allocated_by)?;
        state.queue(call, stream, Operation::Allocate(created..created + bytes as u64))?;
        address.put(created)
    };
    cuMemFreeAsync(address: u64, stream: u64) Ending |state| {
        let call = "cuMemFreeAsync";
        let by = state.this_call(call);
        let range = report_violation(state, |state| state.memory.begin_free(address, AllocKind::Pool, &by))?;
        state.queue(call, stream, Operation::Free(range))?;
        Ok(())
    };
    cuMemAlloc_v2(address: Out<u64>, bytes: usize) Context |state| {
        let (origin, allocated_by) = (state.current_origin(), state.this_call("cuMemAlloc_v2"));
        address.put(state.memory.allocate(bytes, AllocKind::Device, origin, allocated_by)?)
    };
    cuMemFree_v2(address: u64) Ending |state| match address {
        0 => Ok(()),
        _ => free_now(state, "cuMemFree_v2", address, AllocKind::Device),
    };
    cuMemHostAlloc(address: Out<u64>, bytes: usize, flags: u32) Context |state| {
        if flags & !HOST_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (origin, allocated_by) = (state.current_origin(), state.this_call("cuMemHostAlloc"));
        address.put(state.memory.allocate(bytes, AllocKind::Pinned, origin, allocated_by)?)
    };
    cuMemFreeHost(address: u64) Ending |state| free_now(state, "cuMemFreeHost", address, AllocKind::Pinned);
}
