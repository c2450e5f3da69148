//! Lowers millstream's IR to SPIR-V: one module with the entry point `main` for each [`Function`], for compute shaders
//! of Vulkan 1.2 (SPIR-V 1.5). The crate is a pure function of the IR and of a [`Target`]; it makes no Vulkan calls.
//!
//! ```text
//!  Function ──requirements──► unit: parameter block, buffers, shared arrays; inputs reads them
//!                           ► body: values, by arithmetic and memory; statements, by control
//!                           ► routines: what SPIR-V lacks or rounds badly, as functions of the module
//!           ──emit──► words
//! ```
//!
//! # Interface of a module
//! The parameter block, little endian, is the same for both ways to reach buffers:
//!
//! | bytes | content |
//! | --- | --- |
//! | 8 for each parameter | with [`Buffers::Addresses`] the device address of the first element, aligned to its size; with [`Buffers::Descriptors`] its byte offset in the range of binding `i` of descriptor set 0 |
//! | 8 for each launch word | the word |
//! | 24 if the function reads [`Position::Cube`](millstream_ir::ssa::Position::Cube) or [`Position::Cubes`](millstream_ir::ssa::Position::Cubes) | the total number of cubes along x, y and z, then the coordinates of the first cube of the dispatch, `u32` each. A count of 0 means that of the dispatch, as `NumWorkgroups` has it |
//!
//! A launch of more cubes than one dispatch allows is several dispatches, each with its own first cube, because the base
//! of `vkCmdDispatchBase` has the same limit. `NumWorkgroups` does not sum them up; an indirect dispatch has its counts on
//! the device, and gives zeros.
//!
//! If the block has at most [`Target::parameter_bytes_max`] bytes, it is the push constants ([`Parameters::Pushed`]).
//! Otherwise the push constants are one `u64`, the device address of the block in a buffer, aligned to 8 bytes
//! ([`Parameters::Spilled`]). A function without parameters, words and counts has no push constants.
//!
//! A descriptor is a storage buffer; its range may begin before the first element, because offsets of descriptors have
//! an alignment. A range has less than 2^32 elements.
//!
//! # Memory
//! A barrier acquires and releases buffers and shared memory among the threads of a cube, in the memory model of GLSL.
//! Bindings may overlap: no access to a buffer is moved over a store to another one. A launch must not access bytes
//! beyond the buffers; only modules of [checked](Function::checked) functions check indices. Wide accesses to buffers
//! are vectors, aligned to their size.
//!
//! # Accuracy
//! `exact` is rounded once, as [`millstream_ir::scalar`] defines; other numbers are the greatest known errors in units
//! in the last place. They hold for devices whose sums and products of floats are rounded to nearest (Vulkan demands
//! correct rounding and leaves the direction open), and which do not flush subnormals ([`Features::subnormals_f32`]).
//!
//! | operation | f32 | f64 |
//! | --- | --- | --- |
//! | `+ - *`, `floor`, `ceil`, comparisons, casts | exact | exact |
//! | `/`, `%`, `sqrt`, also with flushed subnormals | exact | exact |
//! | casts to and from halves, also with flushed subnormals | exact | exact |
//! | `fma` | exact | exact |
//! | `exp`, `log`, `sin`, `cos`, `erf` | 2 | 2 |
//! | `tanh` | 2 | 2; 3 if the device's quotients are not exact |
//! | `pow` | 1 | 1 |
//!
//! `sin` and `cos` hold this for every angle. An exact `fma` takes about 130 instructions, of `f32` with [`Features::f64`]
//! about 20: that of `GLSL.std.450` may round twice, and Vulkan has no query for it. The order of reductions is that of a
//! tree, the same on each run.

mod arithmetic;
mod body;
mod control;
mod emit;
mod inputs;
mod memory;
mod requirements;
mod routines;
mod subgroups;
mod target;
mod unit;

#[cfg(test)]
mod tests;

use body::{Body, Call};
use emit::Emit;
use millstream_ir::ssa::Function;
pub use target::{Buffers, Features, LowerError, Target};
use unit::Unit;

/// How a launch passes the parameter block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Parameters {
    /// As push constants.
    Pushed,
    /// In a buffer, whose device address is the push constants.
    Spilled,
}

/// A lowered function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Module {
    /// The words of the module.
    pub words: Vec<u32>,
    /// How a launch passes the parameter block.
    pub parameters: Parameters,
    /// The bytes of the parameter block.
    pub parameter_bytes: u32,
    /// The size of subgroups, all full, that the pipeline has to require; 0 if any will do.
    pub subgroup_width: u32,
}

/// Lowers a checked function.
///
/// ```
/// use millstream_ir::{DType, ssa::Builder};
/// use millstream_spirv::{Parameters, Target, lower};
///
/// let k = Builder::new("double", [64, 1, 1]);
/// let (x, n) = (k.update("x", DType::F32), k.scalar("n", DType::I64));
/// k.range(k.index(), n, k.count(), |i| x.set(i, x.get(i) * 2.0));
/// let module = lower(&k.build()?, &Target::default())?;
///
/// // The address of `x`, `n`, and the grid, which `index` and `count` read.
/// assert_eq!((module.parameters, module.parameter_bytes), (Parameters::Pushed, 8 + 8 + 24));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The target lacks something that the function needs, or the function is not valid.
pub fn lower(function: &Function, target: &Target) -> Result<Module, LowerError> {
    let function = &*function.with_checks();
    let target = &requirements::without_adding(function, target);
    let target = &subgroups::without_needless(function, target);
    let mut emit = Emit::new();
    requirements::check(&mut emit, function, &target.features)?;
    let mut unit = Unit::new(emit, function, target);
    let main = unit.emit.id();
    let void = unit.emit.void();
    unit.emit.begin(main, void, &[]);
    Body::new(&mut unit, function, None).statements()?;
    unit.emit.end(None);
    while let Some((routine, id)) = unit.routines.take_missing() {
        let lowered = routine.function(function.threads, &target.features);
        let parameters = lowered.scalars.iter();
        let parameters: Vec<_> = parameters.map(|word| unit.emit.of(word.dtype)).collect();
        let result = unit.emit.of(lowered.params[0].dtype);
        let call = Call {
            routine,
            arguments: unit.emit.begin(id, result, &parameters),
            result: None,
        };
        let mut body = Body::new(&mut unit, &lowered, Some(call));
        body.statements()?;
        let result = body.call.and_then(|call| call.result);
        unit.emit.end(result);
    }
    requirements::check_limits(function, target, unit.shared_bytes)?;
    Ok(Module {
        parameters: unit.parameters,
        parameter_bytes: unit.parameter_bytes,
        subgroup_width: target.features.subgroup_width,
        words: unit.emit.finish(main, function.threads, &target.features),
    })
}
