//! Launches. Parameters are copied during the call.

use crate::calls::{In, functions};
use crate::code::Code;
use crate::function::{Function, THREADS_MAX};
use crate::operation::{Extras, Launch, Operation};
use crate::state::State;
use ptx::Kernel;

/// Most launches that are kept for `Session::launched`.
const LAUNCHED_MAX: usize = 1 << 12;

/// The pointers to the parameters of a launch, from a C caller.
pub(super) type Values = In<*const u8>;

/// Copies the parameters, each to its offset.
fn parameters(values: &Values, kernel: &Kernel) -> Result<Vec<u8>, Code> {
    let values = values.list(kernel.parameters.len())?;
    if values.iter().any(|value| value.is_null()) {
        return Err(Code::INVALID_VALUE);
    }
    let mut bytes = vec![0; kernel.parameter_bytes()];
    for (value, parameter) in values.iter().zip(&kernel.parameters) {
        // SAFETY: the caller passed a pointer to as many bytes as the parameter has.
        let value = unsafe { std::slice::from_raw_parts(*value, parameter.bytes) };
        bytes[parameter.offset..][..parameter.bytes].copy_from_slice(value);
    }
    Ok(bytes)
}

/// A launch without its stream and parameters.
pub(super) struct LaunchRequest {
    pub(super) function: u64,
    pub(super) cubes: [u32; 3],
    pub(super) threads: [u32; 3],
    pub(super) shared_bytes: u32,
    pub(super) extras: Extras,
}

/// Returns the error of a launch, and the code that the call returns.
fn launch_error(of: &Function, request: &LaunchRequest) -> Option<(String, Code)> {
    let LaunchRequest {
        cubes,
        threads,
        shared_bytes,
        ..
    } = request;
    let block: u64 = threads.iter().map(|axis| u64::from(*axis)).product();
    if cubes.contains(&0) || cubes[1] > 65_535 || cubes[2] > 65_535 {
        return Some((format!("a grid of {cubes:?}"), Code::INVALID_VALUE));
    }
    if block == 0 || block > u64::from(THREADS_MAX) || threads[2] > 64 {
        let text = format!("blocks of {threads:?} threads");
        return Some((text, Code::INVALID_VALUE));
    }
    if *shared_bytes > of.shared_max {
        let most = of.shared_max;
        let text =
            format!("{shared_bytes} bytes of dynamic shared memory, expected at most {most}");
        return Some((text, Code::INVALID_VALUE));
    }
    let cluster = request.extras.cluster;
    if let Some(text) = cluster.and_then(|cluster| of.cluster_error(cluster, *cubes)) {
        return Some((text, Code::INVALID_CLUSTER_SIZE));
    }
    None
}

/// Checks a launch and copies its parameters.
pub(super) fn prepare(
    state: &mut State,
    request: LaunchRequest,
    values: &Values,
) -> Result<Launch, Code> {
    let function = state.function(request.function)?;
    let kernel = function.kernel.clone();
    if let Some((error, code)) = launch_error(function, &request) {
        let call = state.this_call();
        let report = format!(
            "invalid launch: {call} of `{}` requests {error}",
            kernel.name
        );
        return Err(state.refuse(code, report));
    }
    let parameters = parameters(values, &kernel)?;
    Ok(Launch {
        function: request.function,
        kernel,
        cubes: request.cubes,
        threads: request.threads,
        shared_bytes: request.shared_bytes,
        parameters,
        extras: request.extras,
    })
}

fn launch(
    state: &mut State,
    stream: u64,
    request: LaunchRequest,
    values: &Values,
    extra: u64,
) -> Result<(), Code> {
    if extra != 0 {
        let report = "not modelled: parameters of a launch as one block (`extra`)";
        return Err(state.refuse(Code::NOT_SUPPORTED, report));
    }
    let on = state.stream(stream)?;
    let (runs_in, priority) = (on.context, on.priority);
    let loaded_in = state.function(request.function)?.context;
    if loaded_in != runs_in || runs_in != state.current {
        let call = state.this_call();
        let report = format!(
            "invalid context: {call} receives a function and a stream that are not both of the current context"
        );
        return Err(state.refuse(Code::INVALID_HANDLE, report));
    }
    let launch = prepare(state, request, values)?;
    if state.launched.len() < LAUNCHED_MAX {
        state.launched.push(launch.describe(priority));
    }
    state.queue(stream, Operation::Launch(launch))?;
    Ok(())
}

/// `CUlaunchAttribute`: the id and the value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Attribute {
    id: u32,
    _pad: u32,
    words: [u32; 16],
}

/// `CU_LAUNCH_ATTRIBUTE_..`
mod attribute {
    pub(super) const COOPERATIVE: u32 = 2;
    pub(super) const CLUSTER: u32 = 4;
    pub(super) const PROGRAMMATIC: u32 = 6;
}

/// `CUlaunchConfig`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Config {
    cubes: [u32; 3],
    threads: [u32; 3],
    shared_bytes: u32,
    stream: u64,
    attributes: *const Attribute,
    count: u32,
}

/// Reads the attributes of a launch.
fn extras(state: &mut State, config: &Config) -> Result<Extras, Code> {
    let mut extras = Extras::default();
    for Attribute { id, words, .. } in In(config.attributes).list(config.count as usize)? {
        match (id, words) {
            (attribute::COOPERATIVE, [yes, ..]) => extras.cooperative = yes != 0,
            (attribute::CLUSTER, [x, y, z, ..]) => extras.cluster = Some([x, y, z]),
            (attribute::PROGRAMMATIC, [yes, ..]) => extras.programmatic = yes != 0,
            _ => {
                let report = format!("not modelled: {} with launch attribute {id}", state.call);
                return Err(state.refuse(Code::NOT_SUPPORTED, report));
            }
        }
    }
    Ok(extras)
}

functions! {
    cuLaunchKernel(
        function: u64, x: u32, y: u32, z: u32, threads_x: u32, threads_y: u32, threads_z: u32, shared_bytes: u32,
        stream: u64, values: Values, extra: u64,
    ) Context |state| {
        let (cubes, threads) = ([x, y, z], [threads_x, threads_y, threads_z]);
        let request = LaunchRequest { function, cubes, threads, shared_bytes, extras: Extras::default() };
        launch(state, stream, request, &values, extra)
    };
    cuLaunchKernelEx(config: In<Config>, function: u64, values: Values, extra: u64) Context |state| {
        let config = config.get()?;
        let extras = extras(state, &config)?;
        let Config { cubes, threads, shared_bytes, stream, .. } = config;
        let request = LaunchRequest { function, cubes, threads, shared_bytes, extras };
        launch(state, stream, request, &values, extra)
    };
}
