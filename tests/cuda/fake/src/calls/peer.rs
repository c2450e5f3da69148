//! Several GPUs: who may use whose memory, and copies between them. Copies need no such allowance: the driver takes them
//! through the host where it must.

use crate::calls::context::known_context;
use crate::calls::copy::copy;
use crate::calls::device::known_device;
use crate::calls::memory::{ON_A_GPU, known_pool};
use crate::calls::{Given, Out, functions};
use crate::code::Code;
use crate::operation::Rows;
use crate::state::State;

/// `CU_MEM_ACCESS_FLAGS_PROT_..`: nothing, or reads and writes. Reads alone there are not, for pools.
const NO_ACCESS: u32 = 0;
const READ_AND_WRITE: u32 = 3;

/// `CUmemAccessDesc`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Access {
    location: u32,
    gpu: i32,
    flags: u32,
}

fn enable(state: &mut State, peer: u64, flags: u32) -> Result<(), Code> {
    known_context(state, "cuCtxEnablePeerAccess", peer)?;
    if flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    if peer == state.current {
        return Err(Code::INVALID_CONTEXT);
    }
    if !state.peers.possible {
        return Err(Code::PEER_ACCESS_UNSUPPORTED);
    }
    match state.peers.enabled.insert((state.current, peer)) {
        true => Ok(()),
        false => Err(Code::PEER_ACCESS_ALREADY_ENABLED),
    }
}

fn set_access(state: &mut State, pool: u64, access: &[Access]) -> Result<(), Code> {
    let home = known_pool(state, "cuMemPoolSetAccess", pool)?;
    for Access {
        location,
        gpu,
        flags,
    } in access
    {
        if *location != ON_A_GPU {
            return Err(Code::INVALID_VALUE);
        }
        let gpu = known_device(state, *gpu)?;
        let allowed = state.peers.of_pools.entry(pool).or_default();
        match *flags {
            // Its own GPU may always, and that is not taken away.
            READ_AND_WRITE if gpu == home => {}
            READ_AND_WRITE if !state.peers.possible => return Err(Code::INVALID_DEVICE),
            READ_AND_WRITE => _ = allowed.insert(gpu),
            NO_ACCESS if gpu != home => _ = allowed.remove(&gpu),
            _ => return Err(Code::INVALID_VALUE),
        }
    }
    Ok(())
}

/// Memory of a copy between GPUs must be of the context that it is said to be of.
fn must_be_of(state: &mut State, call: &str, address: u64, context: u64) -> Result<(), Code> {
    let gpu = known_context(state, call, context)?;
    match state.memory.home(address) {
        Some(home) if home.gpu != gpu => {
            let call = state.this_call(call);
            state.report(format!(
                "wrong context: {call} is told that {address:#x} is memory of a context that it is not of"
            ));
            Err(Code::INVALID_VALUE)
        }
        _ => Ok(()),
    }
}

functions! {
    cuDeviceCanAccessPeer(answer: Out<i32>, device: i32, peer: i32) Init |state| {
        let (device, peer) = (known_device(state, device)?, known_device(state, peer)?);
        answer.put(i32::from(device != peer && state.peers.possible))
    };
    cuCtxEnablePeerAccess(peer: u64, flags: u32) Context |state| enable(state, peer, flags);
    cuCtxDisablePeerAccess(peer: u64) Ending |state| match state.peers.enabled.remove(&(state.current, peer)) {
        true => Ok(()),
        false => Err(Code::PEER_ACCESS_NOT_ENABLED),
    };
    cuMemPoolSetAccess(pool: u64, access: Given<Access>, count: usize) Context |state| {
        set_access(state, pool, &access.list(count)?)
    };
    cuMemcpyPeerAsync(
        target: u64, target_context: u64, source: u64, source_context: u64, bytes: usize, stream: u64,
    ) Context |state| {
        let call = "cuMemcpyPeerAsync";
        must_be_of(state, call, target, target_context)?;
        must_be_of(state, call, source, source_context)?;
        let bytes = bytes as u64;
        copy(state, call, Rows::line(target, bytes), Rows::line(source, bytes), stream)
    };
}
