//! Several GPUs: access to the memory of peers, and copies between GPUs. Copies need no access: the driver copies
//! through the host if necessary.

use crate::calls::context::known_context;
use crate::calls::copy::copy;
use crate::calls::device::known_device;
use crate::calls::memory::LOCATION_DEVICE;
use crate::calls::{In, Out, functions};
use crate::code::Code;
use crate::operation::Rows;
use crate::state::State;

/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const READ_AND_WRITE: u32 = 3;

/// `CUmemAccessDesc`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Access {
    location: u32,
    gpu: i32,
    flags: u32,
}

fn set_access(state: &mut State, pool: u64, access: &[Access]) -> Result<(), Code> {
    let owner = *state.pool(pool)?;
    for Access {
        location,
        gpu,
        flags,
    } in access
    {
        let gpu = known_device(state, *gpu)?;
        let allowed = state.peers.of_pools.entry(pool).or_default();
        match (*location, *flags) {
            // The pool's own GPU always has access.
            (LOCATION_DEVICE, READ_AND_WRITE) if gpu == owner => {}
            (LOCATION_DEVICE, READ_AND_WRITE) if state.peers.possible => _ = allowed.insert(gpu),
            (LOCATION_DEVICE, READ_AND_WRITE) => return Err(Code::INVALID_DEVICE),
            _ => {
                let report =
                    "not modelled: access to a pool that is not to read and write, of a GPU";
                return Err(state.refuse(Code::INVALID_VALUE, report));
            }
        }
    }
    Ok(())
}

/// Checks that the memory of a peer copy belongs to the GPU of the context passed with it.
fn check_origin(state: &mut State, address: u64, context: u64) -> Result<(), Code> {
    let gpu = known_context(state, context)?;
    match state.memory.origin(address) {
        Some(origin) if origin.gpu != gpu => {
            let call = state.this_call();
            let report = format!(
                "invalid context: {call} receives {address:#x} with a context of another GPU"
            );
            Err(state.refuse(Code::INVALID_VALUE, report))
        }
        _ => Ok(()),
    }
}

functions! {
    cuDeviceCanAccessPeer(answer: Out<i32>, device: i32, peer: i32) Init |state| {
        let (device, peer) = (known_device(state, device)?, known_device(state, peer)?);
        answer.put(i32::from(device != peer && state.peers.possible))
    };
    cuMemPoolSetAccess(pool: u64, access: In<Access>, count: usize) Context |state| {
        set_access(state, pool, &access.list(count)?)
    };
    cuMemcpyPeerAsync(
        target: u64, target_context: u64, source: u64, source_context: u64, bytes: usize, stream: u64,
    ) Context |state| {
        check_origin(state, target, target_context)?;
        check_origin(state, source, source_context)?;
        copy(state, Rows::line(target, bytes as u64), Rows::line(source, bytes as u64), stream)
    };
}
