//! Launches. Parameters are copied during the call.

use crate::calls::config::Config;
use crate::calls::function::known_function;
use crate::calls::{In, functions};
use crate::code::Code;
use crate::function::{Function, MULTIPROCESSORS, THREADS_MAX};
use crate::operation::{Extras, Launch, Operation};
use crate::state::State;
use ptx::Kernel;

/// Most launches that are kept for `Session::launched`.
const LAUNCHED_MAX: usize = 1 << 12;

/// The array of pointers to the parameters of a launch, from a C caller.
#[repr(transparent)]
pub(crate) struct Values(*const *const u8);

impl Values {
    pub(super) fn new(list: *const *const u8) -> Self {
        Self(list)
    }

    /// Copies the parameters, each to its offset.
    fn bytes(&self, kernel: &Kernel) -> Result<Vec<u8>, Code> {
        let mut bytes = vec![0; kernel.parameter_bytes()];
        for (index, parameter) in kernel.parameters.iter().enumerate() {
            if self.0.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: the caller passed a pointer for each parameter, to as many bytes as it has.
            unsafe {
                let value = self.0.add(index).read();
                if value.is_null() {
                    return Err(Code::INVALID_VALUE);
                }
                let place = bytes[parameter.offset..].as_mut_ptr();
                std::ptr::copy_nonoverlapping(value, place, parameter.bytes);
            }
        }
        Ok(bytes)
    }
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
    let LaunchRequest { cubes, threads, .. } = request;
    let block = threads.iter().map(|axis| u64::from(*axis)).product::<u64>();
    if cubes.contains(&0) || cubes[1] > 65_535 || cubes[2] > 65_535 {
        return Some((format!("a grid of {cubes:?}"), Code::INVALID_VALUE));
    }
    if block == 0 || block > u64::from(THREADS_MAX) || threads[2] > 64 {
        let text = format!("blocks of {threads:?} threads");
        return Some((text, Code::INVALID_VALUE));
    }
    if request.shared_bytes > of.shared_max {
        let text = format!(
            "{} bytes of dynamic shared memory, expected at most {}",
            request.shared_bytes, of.shared_max
        );
        return Some((text, Code::INVALID_VALUE));
    }
    if let Some(text) = request
        .extras
        .cluster
        .and_then(|cluster| of.cluster_error(cluster, *cubes))
    {
        return Some((text, Code::INVALID_CLUSTER_SIZE));
    }
    let room = u64::from(
        MULTIPROCESSORS * of.blocks_per_multiprocessor(block as u32, request.shared_bytes),
    );
    let blocks = cubes.iter().map(|axis| u64::from(*axis)).product::<u64>();
    if request.extras.cooperative && blocks > room {
        let text = format!("{blocks} cooperative blocks, but {room} fit at once");
        return Some((text, Code::COOPERATIVE_LAUNCH_TOO_LARGE));
    }
    None
}

/// Checks a launch and copies its parameters.
pub(super) fn prepare(
    state: &mut State,
    call: &str,
    request: LaunchRequest,
    values: &Values,
) -> Result<Launch, Code> {
    let function = known_function(state, call, request.function)?;
    let kernel = function.kernel.clone();
    if let Some((error, code)) = launch_error(function, &request) {
        let call = state.this_call(call);
        state.report(format!(
            "invalid launch: {call} of `{}` requests {error}",
            kernel.name
        ));
        return Err(code);
    }
    let parameters = values.bytes(&kernel)?;
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
    call: &str,
    stream: u64,
    request: LaunchRequest,
    values: &Values,
    extra: u64,
) -> Result<(), Code> {
    if extra != 0 {
        state.report("not modelled: parameters of a launch as one block (`extra`)".to_owned());
        return Err(Code::NOT_SUPPORTED);
    }
    let on = state.known_stream(call, stream)?;
    let (runs_in, priority) = (on.context, on.priority);
    let loaded_in = known_function(state, call, request.function)?.context;
    if loaded_in != runs_in || runs_in != state.current {
        let call = state.this_call(call);
        state.report(format!(
            "invalid context: {call} receives a function and a stream that are not both of the current context"
        ));
        return Err(Code::INVALID_HANDLE);
    }
    let launch = prepare(state, call, request, values)?;
    if state.launched.len() < LAUNCHED_MAX {
        state.launched.push(launch.describe(priority));
    }
    state.queue(call, stream, Operation::Launch(launch))?;
    Ok(())
}

functions! {
    cuLaunchKernel(
        function: u64, x: u32, y: u32, z: u32, threads_x: u32, threads_y: u32, threads_z: u32, shared_bytes: u32,
        stream: u64, values: Values, extra: u64,
    ) Context |state| {
        let request = LaunchRequest {
            function,
            cubes: [x, y, z],
            threads: [threads_x, threads_y, threads_z],
            shared_bytes,
            extras: Extras::default(),
        };
        launch(state, "cuLaunchKernel", stream, request, &values, extra)
    };
    cuLaunchKernelEx(config: In<Config>, function: u64, values: Values, extra: u64) Context |state| {
        let call = "cuLaunchKernelEx";
        let config = config.get()?;
        let (stream, extras) = config.parse(state, call)?;
        let request = LaunchRequest {
            function,
            cubes: config.cubes,
            threads: config.threads,
            shared_bytes: config.shared_bytes,
            extras,
        };
        launch(state, call, stream, request, &values, extra)
    };
}
