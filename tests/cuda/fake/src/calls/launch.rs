//! Launches. Parameters are copied in the call.

use crate::calls::config::Config;
use crate::calls::function::known_function;
use crate::calls::{Given, functions};
use crate::code::Code;
use crate::function::{Function, MULTIPROCESSORS, THREADS_MAX};
use crate::graph::Work;
use crate::operation::{Extras, Launch, Operation};
use crate::state::State;
use ptx::Kernel;

/// More than these are not told.
const LAUNCHED_MAX: usize = 1 << 12;

/// Values of a launch, one for each parameter: pointers of the caller's, who vouches for them.
#[repr(transparent)]
pub(crate) struct Values(*const *const u8);

impl Values {
    pub(super) fn new(list: *const *const u8) -> Self {
        Self(list)
    }

    /// The parameters' bytes, each in its place.
    fn bytes(&self, kernel: &Kernel) -> Result<Vec<u8>, Code> {
        let mut bytes = vec![0; kernel.parameter_bytes()];
        for (index, parameter) in kernel.parameters.iter().enumerate() {
            if self.0.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: the caller's promise: as many pointers as parameters, to as many bytes as each has.
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

/// What is asked of a launch but its stream and its values.
pub(super) struct Asked {
    pub(super) function: u64,
    pub(super) cubes: [u32; 3],
    pub(super) threads: [u32; 3],
    pub(super) shared_bytes: u32,
    pub(super) extras: Extras,
}

/// What is wrong with a launch, and what is answered.
fn wrong(of: &Function, asked: &Asked) -> Option<(String, Code)> {
    let Asked { cubes, threads, .. } = asked;
    let block = threads.iter().map(|axis| u64::from(*axis)).product::<u64>();
    if cubes.contains(&0) || cubes[1] > 65_535 || cubes[2] > 65_535 {
        return Some((format!("a grid of {cubes:?}"), Code::INVALID_VALUE));
    }
    if block == 0 || block > u64::from(THREADS_MAX) || threads[2] > 64 {
        let said = format!("blocks of {threads:?} threads");
        return Some((said, Code::INVALID_VALUE));
    }
    if asked.shared_bytes > of.shared_max {
        let said = format!(
            "{} bytes of dynamic shared memory, of {}",
            asked.shared_bytes, of.shared_max
        );
        return Some((said, Code::INVALID_VALUE));
    }
    if let Some(said) = asked
        .extras
        .cluster
        .and_then(|cluster| of.wrong_cluster(cluster, *cubes))
    {
        return Some((said, Code::INVALID_CLUSTER_SIZE));
    }
    let room = u64::from(MULTIPROCESSORS * of.blocks_at_once(block as u32, asked.shared_bytes));
    let blocks = cubes.iter().map(|axis| u64::from(*axis)).product::<u64>();
    if asked.extras.cooperative && blocks > room {
        let said = format!("{blocks} blocks that cooperate, of {room} that fit at once");
        return Some((said, Code::COOPERATIVE_LAUNCH_TOO_LARGE));
    }
    None
}

/// A launch, with its values as they are now.
pub(super) fn prepare(
    state: &mut State,
    call: &str,
    asked: Asked,
    values: &Values,
) -> Result<Launch, Code> {
    let function = known_function(state, call, asked.function)?;
    let kernel = function.kernel.clone();
    if let Some((wrong, code)) = wrong(function, &asked) {
        let call = state.this_call(call);
        state.report(format!(
            "wrong launch: {call} of `{}` asks for {wrong}",
            kernel.name
        ));
        return Err(code);
    }
    let parameters = values.bytes(&kernel)?;
    Ok(Launch {
        function: asked.function,
        kernel,
        cubes: asked.cubes,
        threads: asked.threads,
        shared_bytes: asked.shared_bytes,
        parameters,
        extras: asked.extras,
    })
}

fn launch(
    state: &mut State,
    call: &str,
    stream: u64,
    asked: Asked,
    values: &Values,
    extra: u64,
) -> Result<(), Code> {
    if extra != 0 {
        state.report("not modelled: parameters of a launch as one block (`extra`)".to_owned());
        return Err(Code::NOT_SUPPORTED);
    }
    let on = state.known_stream(call, stream)?;
    let (runs_in, level) = (on.context, on.priority);
    let made_in = known_function(state, call, asked.function)?.context;
    if made_in != runs_in || runs_in != state.current {
        let call = state.this_call(call);
        state.report(format!(
            "wrong context: {call} is given a function and a stream that are not both of the current context"
        ));
        return Err(Code::INVALID_HANDLE);
    }
    let mut launch = prepare(state, call, asked, values)?;
    // A launch that says nothing has its stream's.
    launch.extras.priority.get_or_insert(level);
    let is_captured = state.is_captured(call, stream)?;
    if state.launched.len() < LAUNCHED_MAX {
        let captured = if is_captured { " captured" } else { "" };
        state.launched.push(launch.said() + captured);
    }
    if is_captured {
        state.capture(stream, Work::Launch(launch));
        return Ok(());
    }
    state.queue(call, stream, Operation::Launch(launch))?;
    Ok(())
}

functions! {
    cuLaunchKernel(
        function: u64, x: u32, y: u32, z: u32, threads_x: u32, threads_y: u32, threads_z: u32, shared_bytes: u32,
        stream: u64, values: Values, extra: u64,
    ) Context |state| {
        let asked = Asked {
            function,
            cubes: [x, y, z],
            threads: [threads_x, threads_y, threads_z],
            shared_bytes,
            extras: Extras::default(),
        };
        launch(state, "cuLaunchKernel", stream, asked, &values, extra)
    };
    cuLaunchKernelEx(config: Given<Config>, function: u64, values: Values, extra: u64) Context |state| {
        let call = "cuLaunchKernelEx";
        let config = config.get()?;
        let (stream, extras) = config.asked(state, call)?;
        let asked = Asked {
            function,
            cubes: config.cubes,
            threads: config.threads,
            shared_bytes: config.shared_bytes,
            extras,
        };
        launch(state, call, stream, asked, &values, extra)
    };
}
