//! Allocations: in the order of a stream, at once, and pinned ones of the host.

use crate::calls::device::known_device;
use crate::calls::{Given, Out, functions};
use crate::code::Code;
use crate::memory::{Home, Place};
use crate::operation::Operation;
use crate::state::State;
use ptx::Kind;

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
const RELEASE_THRESHOLD: u32 = 4;
/// Portable, mapped, write-combined.
const HOST_FLAGS: u32 = 1 | 2 | 4;

/// Ends memory now, by the host: whoever used it must be known to have done so.
fn end_now(state: &mut State, call: &str, address: u64, place: Place) -> Result<(), Code> {
    state.must_be_safe(call)?;
    let by = state.this_call(call);
    let range = wrongly(state, |state| state.memory.ask_end(address, place, &by))?;
    let step = state.host_step(&by);
    state.touch(&step, Kind::Write, range);
    let pending = state.memory.pending(address);
    if pending > 0 {
        state.report(format!(
            "freed while in use: {by} frees pinned memory that {pending} copies have yet to use"
        ));
    }
    state.memory.release(address);
    Ok(())
}

/// Reports what is wrong with a use of memory.
fn wrongly<T>(
    state: &mut State,
    body: impl FnOnce(&mut State) -> Result<T, crate::memory::Wrong>,
) -> Result<T, Code> {
    body(state).map_err(|wrong| {
        state.report(wrong.report);
        wrong.code
    })
}

/// The GPU of a pool.
pub(super) fn known_pool(state: &mut State, call: &str, pool: u64) -> Result<usize, Code> {
    if let Some(gpu) = state.pools.get(&pool) {
        return Ok(*gpu);
    }
    state.report(format!(
        "wrong handle: {call} is given {pool:#x}, which is no pool, or was destroyed"
    ));
    Err(Code::INVALID_HANDLE)
}

/// `CUmemPoolProps`, as far as it is looked at.
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
pub(super) const ON_A_GPU: u32 = 1;

functions! {
    cuMemPoolCreate(pool: Out<u64>, properties: Given<PoolProperties>) Context |state| {
        let asked = properties.get()?;
        if (asked.kind, asked.handles, asked.location) != (PINNED, 0, ON_A_GPU) {
            state.report("not modelled: a pool that is shared, or whose memory is on no GPU".to_owned());
            return Err(Code::NOT_SUPPORTED);
        }
        let gpu = known_device(state, asked.gpu)?;
        let made = state.handle();
        pool.put(made)?;
        state.pools.insert(made, gpu);
        Ok(())
    };
    cuMemPoolDestroy(pool: u64) Ending |state| {
        known_pool(state, "cuMemPoolDestroy", pool)?;
        state.pools.remove(&pool);
        Ok(())
    };
    // A hint: how much the pool keeps is seen by nobody here.
    cuMemPoolSetAttribute(pool: u64, attribute: u32, _value: u64) Context |state| {
        known_pool(state, "cuMemPoolSetAttribute", pool)?;
        if attribute != RELEASE_THRESHOLD {
            state.report(format!("not modelled: attribute {attribute} of a pool"));
            return Err(Code::NOT_SUPPORTED);
        }
        Ok(())
    };
    cuMemAllocFromPoolAsync(address: Out<u64>, bytes: usize, pool: u64, stream: u64) Context |state| {
        let call = "cuMemAllocFromPoolAsync";
        let gpu = known_pool(state, call, pool)?;
        state.must_not_be_captured(call, stream, "allocates, which is not modelled in a stream that is captured")?;
        let maker = state.this_call(call);
        let home = Home { gpu, pool: Some(pool), ..state.home_here() };
        let made = state.memory.allocate(bytes, Place::Pool, home, maker)?;
        state.queue(call, stream, Operation::Allocate(made..made + bytes as u64))?;
        address.put(made)
    };
    cuMemFreeAsync(address: u64, stream: u64) Ending |state| {
        let call = "cuMemFreeAsync";
        state.must_not_be_captured(call, stream, "frees, which is not modelled in a stream that is captured")?;
        let by = state.this_call(call);
        let range = wrongly(state, |state| state.memory.ask_end(address, Place::Pool, &by))?;
        state.queue(call, stream, Operation::Free(range))?;
        Ok(())
    };
    cuMemAlloc_v2(address: Out<u64>, bytes: usize) Context |state| {
        state.must_be_safe("cuMemAlloc_v2")?;
        let (home, maker) = (state.home_here(), state.this_call("cuMemAlloc_v2"));
        address.put(state.memory.allocate(bytes, Place::Device, home, maker)?)
    };
    cuMemFree_v2(address: u64) Ending |state| match address {
        0 => Ok(()),
        _ => end_now(state, "cuMemFree_v2", address, Place::Device),
    };
    cuMemHostAlloc(address: Out<u64>, bytes: usize, flags: u32) Context |state| {
        if flags & !HOST_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        state.must_be_safe("cuMemHostAlloc")?;
        let (home, maker) = (state.home_here(), state.this_call("cuMemHostAlloc"));
        address.put(state.memory.allocate(bytes, Place::Pinned, home, maker)?)
    };
    cuMemFreeHost(address: u64) Ending |state| end_now(state, "cuMemFreeHost", address, Place::Pinned);
}
