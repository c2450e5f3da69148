//! Allocations: in the order of a stream, immediate ones, and pinned host memory.

use std::ops::Range;

use crate::calls::device::known_device;
use crate::calls::{In, Out, functions};
use crate::code::Code;
use crate::memory::AllocKind;
use crate::operation::Operation;
use crate::state::State;
use ptx::Kind;

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
const RELEASE_THRESHOLD: u32 = 4;
/// The flags portable, mapped and write-combined.
const HOST_FLAGS: u32 = 1 | 2 | 4;

/// Marks memory as freed by this call, which must be the function for its kind. Returns its range.
fn begin_free(state: &mut State, address: u64, kind: AllocKind) -> Result<Range<u64>, Code> {
    let by = state.this_call();
    let range = state.memory.begin_free(address, kind, &by);
    range.map_err(|violation| state.refuse(violation.code, violation.report))
}

/// Frees memory during the call, as a step of the host. The host must know that all uses are complete.
fn free_now(state: &mut State, address: u64, kind: AllocKind) -> Result<(), Code> {
    let range = begin_free(state, address, kind)?;
    let by = state.this_call();
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

/// Allocates memory, of a pool or in the current context.
fn allocate(
    state: &mut State,
    bytes: usize,
    kind: AllocKind,
    pool: Option<u64>,
) -> Result<u64, Code> {
    let mut origin = state.current_origin();
    if let Some(pool) = pool {
        origin.gpu = *state.pool(pool)?;
        origin.pool = Some(pool);
    }
    let allocated_by = state.this_call();
    state.memory.allocate(bytes, kind, origin, allocated_by)
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
            let report = "not modelled: a pool that is shared, or not on a GPU";
            return Err(state.refuse(Code::NOT_SUPPORTED, report));
        }
        let gpu = known_device(state, requested.gpu)?;
        let created = state.handle();
        pool.put(created)?;
        state.pools.insert(created, gpu);
        Ok(())
    };
    cuMemPoolDestroy(pool: u64) Ending |state| {
        state.pool(pool)?;
        state.pools.remove(&pool);
        state.memory.end_pool(pool);
        Ok(())
    };
    // Of the threshold only matters whether it is 0: a pool without one keeps nothing, any other keeps all.
    cuMemPoolSetAttribute(pool: u64, attribute: u32, value: In<u64>) Context |state| {
        let gpu = *state.pool(pool)?;
        if attribute != RELEASE_THRESHOLD {
            let report = format!("not modelled: pool attribute {attribute}");
            return Err(state.refuse(Code::NOT_SUPPORTED, report));
        }
        if value.get()? > 0 {
            state.memory.keep(pool, gpu);
        }
        Ok(())
    };
    cuMemPoolTrimTo(pool: u64, keep: usize) Context |state| {
        state.pool(pool)?;
        state.memory.trim(pool, keep as u64);
        Ok(())
    };
    cuMemAllocFromPoolAsync(address: Out<u64>, bytes: usize, pool: u64, stream: u64) Context |state| {
        let created = allocate(state, bytes, AllocKind::Pool, Some(pool))?;
        state.queue(stream, Operation::Allocate(created..created + bytes as u64))?;
        address.put(created)
    };
    cuMemFreeAsync(address: u64, stream: u64) Ending |state| {
        let range = begin_free(state, address, AllocKind::Pool)?;
        state.queue(stream, Operation::Free(range)).map(|_| ())
    };
    cuMemAlloc_v2(address: Out<u64>, bytes: usize) Context |state| {
        address.put(allocate(state, bytes, AllocKind::Device, None)?)
    };
    cuMemFree_v2(address: u64) Ending |state| match address {
        0 => Ok(()),
        _ => free_now(state, address, AllocKind::Device),
    };
    cuMemHostAlloc(address: Out<u64>, bytes: usize, flags: u32) Context |state| match flags & !HOST_FLAGS {
        0 => address.put(allocate(state, bytes, AllocKind::Pinned, None)?),
        _ => Err(Code::INVALID_VALUE),
    };
    cuMemFreeHost(address: u64) Ending |state| free_now(state, address, AllocKind::Pinned);
}
