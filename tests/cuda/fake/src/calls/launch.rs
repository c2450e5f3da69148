//! Launches. Parameters are copied in the call.

use crate::calls::function::{CLUSTER_POLICIES, known_function};
use crate::calls::{Given, functions};
use crate::code::Code;
use crate::function::{Function, MULTIPROCESSORS, THREADS_MAX};
use crate::graph::Work;
use crate::state::State;
use crate::stream::{Extras, Launch, Operation};
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

/// `CUlaunchAttribute`: which, and what.
#[repr(C)]
#[derive(Clone, Copy)]
struct Attribute {
    id: u32,
    _pad: u32,
    words: [u32; 16],
}

/// `CU_LAUNCH_ATTRIBUTE_..`
mod attribute {
    pub(super) const IGNORE: u32 = 0;
    pub(super) const COOPERATIVE: u32 = 2;
    pub(super) const CLUSTER: u32 = 4;
    pub(super) const CLUSTER_POLICY: u32 = 5;
    pub(super) const PROGRAMMATIC: u32 = 6;
    pub(super) const PRIORITY: u32 = 8;
    /// Access windows, synchronization policy, events, memory domains, preferred clusters, graphs, carveout.
    pub(super) const LAST: u32 = 16;
}

/// `CUlaunchConfig`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Config {
    pub(crate) cubes: [u32; 3],
    pub(crate) threads: [u32; 3],
    pub(crate) shared_bytes: u32,
    stream: u64,
    attributes: *const Attribute,
    count: u32,
}

impl Config {
    /// The stream, and what the attributes say.
    pub(super) fn asked(&self, state: &mut State, call: &str) -> Result<(u64, Extras), Code> {
        let mut extras = Extras::default();
        if self.count > 0 && self.attributes.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        for index in 0..self.count as usize {
            // SAFETY: the caller's promise: so many attributes.
            let Attribute { id, words, .. } =
                unsafe { self.attributes.add(index).read_unaligned() };
            match (id, words) {
                (attribute::IGNORE, _) => {}
                (attribute::COOPERATIVE, [yes, ..]) => extras.cooperative = yes != 0,
                (attribute::CLUSTER, [x, y, z, ..]) => extras.cluster = Some([x, y, z]),
                (attribute::CLUSTER_POLICY, [policy, ..]) if policy < CLUSTER_POLICIES => {
                    extras.cluster_policy = Some(policy);
                }
                (attribute::PROGRAMMATIC, [yes, ..]) => extras.programmatic = yes != 0,
                (attribute::PRIORITY, [priority, ..]) => {
                    extras.priority = Some(priority.cast_signed());
                }
                (attribute::CLUSTER_POLICY, [policy, ..]) => {
                    state.report(format!(
                        "wrong launch: {call} is given policy {policy} for clusters"
                    ));
                    return Err(Code::INVALID_VALUE);
                }
                (..=attribute::LAST, _) => {
                    state.report(format!("not modelled: attribute {id} of a launch"));
                    return Err(Code::NOT_SUPPORTED);
                }
                _ => {
                    state.report(format!(
                        "wrong launch: {call} is given attribute {id}, which there is not"
                    ));
                    return Err(Code::INVALID_VALUE);
                }
            }
        }
        Ok((self.stream, extras))
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
