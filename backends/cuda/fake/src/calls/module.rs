//! Modules, functions and launches.

use crate::calls::{Out, functions};
use crate::code::Code;
use crate::control::Text;
use crate::ptx::{self, Kernel};
use crate::state::{Function, Module, State};
use crate::stream::{Launch, Operation};

/// Threads of a block, at most; as `ATTRIBUTES` says.
const THREADS_MAX: u32 = 1024;
/// Shared memory of a block without asking for more, and with.
const SHARED_MAX: u32 = 48 << 10;
const SHARED_MAX_ASKED: u32 = 227 << 10;

/// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`
const ATTRIBUTE_THREADS: u32 = 0;
/// `CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`
const ATTRIBUTE_SHARED: u32 = 1;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const ATTRIBUTE_SHARED_DYNAMIC: u32 = 8;

/// Values of a launch, one for each parameter: pointers of the caller's, who vouches for them.
#[repr(transparent)]
pub(crate) struct Values(*const *const u8);

impl Values {
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

fn known_function<'a>(
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

fn load(state: &mut State, image: &Text) -> Result<u64, Code> {
    let text = image.get().ok_or(Code::INVALID_VALUE)?;
    if text.starts_with('\u{7f}') || text.starts_with('P') {
        state.report("not modelled: a module that is a binary; give its PTX".to_owned());
        return Err(Code::NO_BINARY_FOR_GPU);
    }
    if !text.contains(".version") {
        return Err(Code::INVALID_IMAGE);
    }
    let kernels = ptx::parse(&text).map_err(|unknown| {
        state.report(format!("PTX that the fake does not know: {unknown}"));
        Code::INVALID_PTX
    })?;
    let handle = state.handle();
    let module = Module {
        kernels: kernels.into_iter().map(Into::into).collect(),
        functions: Vec::new(),
    };
    state.modules.insert(handle, module);
    Ok(handle)
}

fn function(state: &mut State, module: u64, name: &Text) -> Result<u64, Code> {
    let name = name.get().ok_or(Code::INVALID_VALUE)?;
    let Some(of) = state.modules.get(&module) else {
        state.report(format!(
            "wrong handle: cuModuleGetFunction is given {module:#x}, which is no module, or was unloaded"
        ));
        return Err(Code::INVALID_HANDLE);
    };
    let named = of.kernels.iter().find(|kernel| kernel.name == name);
    let kernel = named.ok_or(Code::NOT_FOUND)?.clone();
    let handle = state.handle();
    let shared_max = SHARED_MAX.saturating_sub(kernel.shared_bytes as u32);
    state
        .functions
        .insert(handle, Function { kernel, shared_max });
    if let Some(of) = state.modules.get_mut(&module) {
        of.functions.push(handle);
    }
    Ok(handle)
}

fn launch(
    state: &mut State,
    of: u64,
    [cubes, threads]: [[u32; 3]; 2],
    shared_bytes: u32,
    stream: u64,
    values: &Values,
) -> Result<(), Code> {
    let call = "cuLaunchKernel";
    state.known_stream(call, stream)?;
    let function = known_function(state, call, of)?;
    let (kernel, shared_max) = (function.kernel.clone(), function.shared_max);
    let block = threads.iter().map(|axis| u64::from(*axis)).product::<u64>();
    let wrong = if cubes.contains(&0) || cubes[1] > 65_535 || cubes[2] > 65_535 {
        Some(format!("a grid of {cubes:?}"))
    } else if block == 0 || block > u64::from(THREADS_MAX) || threads[2] > 64 {
        Some(format!("blocks of {threads:?} threads"))
    } else if shared_bytes > shared_max {
        Some(format!(
            "{shared_bytes} bytes of dynamic shared memory, of {shared_max}"
        ))
    } else {
        None
    };
    if let Some(wrong) = wrong {
        let call = state.this_call(call);
        state.report(format!(
            "wrong launch: {call} of `{}` asks for {wrong}",
            kernel.name
        ));
        return Err(Code::INVALID_VALUE);
    }
    let parameters = values.bytes(&kernel)?;
    let launch = Launch {
        kernel,
        cubes,
        threads,
        shared_bytes,
        parameters,
    };
    state.queue(call, stream, Operation::Launch(launch))?;
    Ok(())
}

functions! {
    cuModuleLoadData(module: Out<u64>, image: Text) Context |state| module.put(load(state, &image)?);
    // Launches that are queued keep their kernel; to unload it before they have run is wrong.
    cuModuleUnload(module: u64) Ending |state| {
        let Some(of) = state.modules.remove(&module) else {
            state.report(format!(
                "wrong handle: cuModuleUnload is given {module:#x}, which is no module, or was unloaded"
            ));
            return Err(Code::INVALID_HANDLE);
        };
        for function in of.functions {
            state.functions.remove(&function);
        }
        for kernel in of.kernels {
            if state.streams.is_queued(&kernel) {
                let by = state.this_call("cuModuleUnload");
                state.report(format!("unloaded while in use: {by} unloads `{}`, which is yet to run", kernel.name));
            }
        }
        Ok(())
    };
    cuModuleGetFunction(made: Out<u64>, module: u64, name: Text) Context |state| made.put(function(state, module, &name)?);
    cuFuncLoad(function: u64) Context |state| known_function(state, "cuFuncLoad", function).map(|_| ());
    cuFuncGetAttribute(value: Out<i32>, attribute: u32, function: u64) Context |state| {
        let of = known_function(state, "cuFuncGetAttribute", function)?;
        let found = match attribute {
            ATTRIBUTE_THREADS => THREADS_MAX,
            ATTRIBUTE_SHARED => of.kernel.shared_bytes as u32,
            ATTRIBUTE_SHARED_DYNAMIC => of.shared_max,
            _ => {
                state.report(format!("not modelled: attribute {attribute} of a function"));
                return Err(Code::NOT_SUPPORTED);
            }
        };
        value.put(found as i32)
    };
    cuFuncSetAttribute(function: u64, attribute: u32, value: i32) Context |state| {
        let of = known_function(state, "cuFuncSetAttribute", function)?;
        let room = SHARED_MAX_ASKED.saturating_sub(of.kernel.shared_bytes as u32);
        match (attribute, u32::try_from(value)) {
            (ATTRIBUTE_SHARED_DYNAMIC, Ok(bytes)) if bytes <= room => {
                of.shared_max = bytes;
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        }
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
    cuLaunchKernel(
        function: u64, x: u32, y: u32, z: u32, threads_x: u32, threads_y: u32, threads_z: u32, shared_bytes: u32,
        stream: u64, values: Values, extra: u64,
    ) Context |state| {
        if extra != 0 {
            state.report("not modelled: parameters of a launch as one block (`extra`)".to_owned());
            return Err(Code::NOT_SUPPORTED);
        }
        launch(state, function, [[x, y, z], [threads_x, threads_y, threads_z]], shared_bytes, stream, &values)
    };
}
