//! Modules and their functions.

use std::ptr::NonNull;

use crate::calls::{In, Out, functions};
use crate::code::Code;
use crate::control::Text;
use crate::function::Function;
use crate::memory::AllocKind;
use crate::state::{Module, State};
use ptx::Variable;

/// The alignment of blocks of memory, and so the largest of variables.
const VARIABLE_ALIGN_MAX: usize = 512;

/// Returns the newest version of PTX that a driver for this version of CUDA understands, as NVIDIA's table of PTX
/// releases has it.
fn ptx_version(driver: i32) -> (u32, u32) {
    let (major, minor) = (driver as u32 / 1000, driver as u32 % 1000 / 10);
    match (major, minor) {
        (12, 0..=4) => (8, minor),
        (12, 5..=6) => (8, 5),
        (12, _) => (8, minor - 1),
        _ => (major - 4, minor),
    }
}

/// Refuses PTX that is newer than the driver. Returns the log of the driver's compiler with the code.
fn check_version(state: &State, text: &str) -> Result<(), (Code, String)> {
    let newest = ptx_version(state.driver_version);
    let mut lines = text.lines();
    let Some(version) = lines.find_map(|line| line.trim().strip_prefix(".version")) else {
        return Ok(());
    };
    let (major, minor) = version.trim().split_once('.').unwrap_or(("0", "0"));
    let number = |digits: &str| digits.parse::<u32>().unwrap_or(0);
    if (number(major), number(minor)) <= newest {
        return Ok(());
    }
    let log = format!(
        "ptxas fatal   : Unsupported .version {major}.{minor}; current version is '{}.{}'",
        newest.0, newest.1
    );
    Err((Code::UNSUPPORTED_PTX_VERSION, log))
}

/// `CU_JIT_ERROR_LOG_BUFFER`
const ERROR_LOG: u32 = 5;
/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`
const ERROR_LOG_BYTES: u32 = 6;

/// Writes the log of the driver's compiler to the buffer that the options of a load name, if any, with a zero byte at
/// its end, and the number of written bytes in place of the size.
fn write_log(options: &[u32], values: &Out<u64>, log: &str) -> Result<(), Code> {
    let place = |option| options.iter().position(|given| *given == option);
    let (Some(buffer), Some(size)) = (place(ERROR_LOG), place(ERROR_LOG_BYTES)) else {
        return Ok(());
    };
    let (buffer, room) = (values.at(buffer).get()?, values.at(size).get()? as usize);
    let bytes = log.len().min(room.saturating_sub(1));
    if buffer == 0 || room == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let to = buffer as *mut u8;
    // SAFETY: the C caller guarantees that the buffer has the size that it passes.
    unsafe {
        to.copy_from_nonoverlapping(log.as_ptr(), bytes);
        to.add(bytes).write(0);
    }
    values.at(size).put(bytes as u64)
}

fn load(state: &mut State, image: &Text) -> Result<u64, Code> {
    let text = image.get().ok_or(Code::INVALID_VALUE)?;
    check_version(state, &text).map_err(|(code, _)| code)?;
    if text.starts_with('\u{7f}') || text.starts_with('P') {
        let report = "not modelled: a module that is a binary; pass PTX";
        return Err(state.refuse(Code::NO_BINARY_FOR_GPU, report));
    }
    if !text.contains(".version") {
        return Err(Code::INVALID_IMAGE);
    }
    let mut variables = Vec::new();
    let kernels = ptx::parse(&text, &mut |variable| {
        let address = create_variable(state, &variable)?;
        variables.push(address);
        Ok(address)
    });
    let kernels = kernels.map_err(|unknown| {
        free_variables(state, &variables);
        state.refuse(Code::INVALID_PTX, format!("unsupported PTX: {unknown}"))
    })?;
    let handle = state.handle();
    let module = Module {
        kernels: kernels.into_iter().map(Into::into).collect(),
        functions: Vec::new(),
        variables,
    };
    state.modules.insert(handle, module);
    Ok(handle)
}

/// Allocates and initializes a variable of a module.
fn create_variable(state: &mut State, variable: &Variable<'_>) -> Result<u64, String> {
    let allocated_by = format!("the variable `{}` of a module", variable.name);
    let bytes = variable.bytes.max(1);
    if variable.align > VARIABLE_ALIGN_MAX {
        return Err(format!(
            "expected an alignment of at most {VARIABLE_ALIGN_MAX}, got {}",
            variable.align
        ));
    }
    let no_memory = |code: Code| format!("no memory for the variable: {code:?}");
    let origin = state.current_origin();
    let address = state
        .memory
        .allocate(bytes, AllocKind::Device, origin, allocated_by.clone())
        .map_err(no_memory)?;
    let range = address..address + bytes as u64;
    let start = state
        .memory
        .at(&allocated_by, range)
        .map_err(|violation| violation.report)?;
    // SAFETY: the block has `bytes` bytes, and the initial value is no longer.
    unsafe {
        start.write_bytes(0, bytes);
        let initial = NonNull::from(variable.initial).cast();
        start.copy_from_nonoverlapping(initial, variable.initial.len());
    }
    Ok(address)
}

/// Frees the variables of a module.
fn free_variables(state: &mut State, variables: &[u64]) {
    let by = state.this_call();
    for address in variables {
        let freed = state.memory.begin_free(*address, AllocKind::Device, &by);
        if freed.is_ok() {
            state.memory.release(*address);
        }
    }
}

fn function(state: &mut State, module: u64, name: &Text) -> Result<u64, Code> {
    let name = name.get().ok_or(Code::INVALID_VALUE)?;
    let (handle, context) = (state.handle(), state.current);
    let of = state.module(module)?;
    let named = of.kernels.iter().find(|kernel| kernel.name == name);
    let kernel = named.ok_or(Code::NOT_FOUND)?.clone();
    of.functions.push(handle);
    let created = Function::new(context, kernel);
    state.functions.insert(handle, created);
    Ok(handle)
}

functions! {
    cuModuleLoadData(module: Out<u64>, image: Text) Context |state| module.put(load(state, &image)?);
    cuModuleLoadDataEx(
        module: Out<u64>, image: Text, count: u32, options: In<u32>, values: Out<u64>,
    ) Context |state| {
        let options = options.list(count as usize)?;
        let text = image.get().ok_or(Code::INVALID_VALUE)?;
        let checked = check_version(state, &text);
        let log = checked.as_ref().err().map_or("", |(_, log)| log);
        write_log(&options, &values, log)?;
        module.put(load(state, &image)?)
    };
    // Queued launches keep their kernel; unloading it before they have run is reported.
    cuModuleUnload(module: u64) Ending |state| {
        state.module(module)?;
        let of = state.modules.remove(&module).ok_or(Code::INVALID_HANDLE)?;
        for function in of.functions {
            state.functions.remove(&function);
        }
        free_variables(state, &of.variables);
        for kernel in of.kernels {
            if state.streams.is_queued(&kernel) {
                let (by, name) = (state.this_call(), &kernel.name);
                state.report(format!("unloaded while in use: {by} unloads `{name}`, which a queued operation runs"));
            }
        }
        Ok(())
    };
    cuModuleGetFunction(out: Out<u64>, module: u64, name: Text) Context |state| out.put(function(state, module, &name)?);
}
