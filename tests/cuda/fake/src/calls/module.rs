//! Modules, and the functions in them.

use std::ptr::NonNull;

use crate::calls::{Out, functions};
use crate::code::Code;
use crate::control::Text;
use crate::function::Function;
use crate::memory::Place;
use crate::state::{Module, State};
use ptx::Variable;

/// Blocks of memory are aligned so, and with them variables.
const VARIABLE_ALIGN_MAX: usize = 512;

fn load(state: &mut State, image: &Text) -> Result<u64, Code> {
    let text = image.get().ok_or(Code::INVALID_VALUE)?;
    if text.starts_with('\u{7f}') || text.starts_with('P') {
        state.report("not modelled: a module that is a binary; give its PTX".to_owned());
        return Err(Code::NO_BINARY_FOR_GPU);
    }
    if !text.contains(".version") {
        return Err(Code::INVALID_IMAGE);
    }
    let mut variables = Vec::new();
    let kernels = ptx::parse(&text, &mut |variable| {
        let address = put_variable(state, &variable)?;
        variables.push(address);
        Ok(address)
    });
    let kernels = kernels.map_err(|unknown| {
        end_variables(state, &variables, "cuModuleLoadData");
        state.report(format!("PTX that the fake does not know: {unknown}"));
        Code::INVALID_PTX
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

/// Memory for a variable of a module, with what it is at first.
fn put_variable(state: &mut State, variable: &Variable<'_>) -> Result<u64, String> {
    let maker = format!("the variable `{}` of a module", variable.name);
    let bytes = variable.bytes.max(1);
    if variable.align > VARIABLE_ALIGN_MAX {
        return Err(format!("it is aligned to {}", variable.align));
    }
    let said = |code: Code| format!("no memory for it: {code:?}");
    let home = state.home_here();
    let address = state
        .memory
        .allocate(bytes, Place::Device, home, maker.clone())
        .map_err(said)?;
    let range = address..address + bytes as u64;
    let start = state
        .memory
        .at(&maker, range)
        .map_err(|wrong| wrong.report)?;
    // SAFETY: so many bytes are there, and what they are at first is no more.
    unsafe {
        start.write_bytes(0, bytes);
        let initial = NonNull::from(variable.initial).cast();
        start.copy_from_nonoverlapping(initial, variable.initial.len());
    }
    Ok(address)
}

/// Nothing uses the variables of a module any more.
fn end_variables(state: &mut State, variables: &[u64], call: &str) {
    let by = state.this_call(call);
    for address in variables {
        if state.memory.ask_end(*address, Place::Device, &by).is_ok() {
            state.memory.release(*address);
        }
    }
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
    let made = Function::new(state.current, kernel);
    state.functions.insert(handle, made);
    if let Some(of) = state.modules.get_mut(&module) {
        of.functions.push(handle);
    }
    Ok(handle)
}

functions! {
    cuModuleLoadData(module: Out<u64>, image: Text) Context |state| {
        state.must_be_safe("cuModuleLoadData")?;
        module.put(load(state, &image)?)
    };
    // Launches that are queued keep their kernel; to unload it before they have run is wrong.
    cuModuleUnload(module: u64) Ending |state| {
        state.must_be_safe("cuModuleUnload")?;
        let Some(of) = state.modules.remove(&module) else {
            state.report(format!(
                "wrong handle: cuModuleUnload is given {module:#x}, which is no module, or was unloaded"
            ));
            return Err(Code::INVALID_HANDLE);
        };
        for function in of.functions {
            state.functions.remove(&function);
        }
        end_variables(state, &of.variables, "cuModuleUnload");
        for kernel in of.kernels {
            if state.streams.is_queued(&kernel) {
                let by = state.this_call("cuModuleUnload");
                state.report(format!("unloaded while in use: {by} unloads `{}`, which is yet to run", kernel.name));
            }
        }
        Ok(())
    };
    cuModuleGetFunction(made: Out<u64>, module: u64, name: Text) Context |state| made.put(function(state, module, &name)?);
}
