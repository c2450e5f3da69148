//! Packs the arguments of a launch: buffers become bindings, numbers become words.

use millstream::{CubeCount, DType, bind};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

use crate::buffer::Buffer;
use crate::element::bits_of;
use crate::errors::{argument_error, caused};
use crate::kernel::{Kernel, Parameter, ParameterKind};

/// Bindings and words of most launches fit here, so that a launch allocates nothing.
const INLINE: usize = 8;

/// A binding of a launch.
type Binding<'a> = millstream::Bound<'a, u8>;

/// Converts a number of cubes: an `int`, or a tuple of one to three.
pub(crate) fn count_of(count: &Bound<'_, PyAny>) -> PyResult<CubeCount> {
    if let Ok(axes) = count.cast::<PyTuple>() {
        let axis = |index: usize| match index < axes.len() {
            true => axes.get_borrowed_item(index)?.extract::<u32>(),
            false => Ok(1),
        };
        if axes.is_empty() || axes.len() > 3 {
            let message = format!("a count has 1 to 3 axes, got {}", axes.len());
            return Err(argument_error(message));
        }
        return Ok(CubeCount::d3(axis(0)?, axis(1)?, axis(2)?));
    }
    Ok(CubeCount::d1(count.extract()?))
}

/// The packed arguments of a launch.
pub(crate) struct Packed<'a> {
    pub(crate) bindings: SmallVec<[Binding<'a>; INLINE]>,
    pub(crate) words: SmallVec<[u64; INLINE]>,
}

/// Packs the arguments of a launch. Numbers for which `is_slot` returns `true` are left out; it gets the type and the byte
/// among the words.
#[inline]
pub(crate) fn pack<'a>(
    kernel: &Kernel,
    args: &'a Bound<'_, PyTuple>,
    mut is_slot: impl FnMut(&Bound<'_, PyAny>, DType, usize) -> PyResult<bool>,
) -> PyResult<Packed<'a>> {
    check_number(kernel, args)?;
    let mut bindings = SmallVec::new();
    let mut words = SmallVec::<[u64; INLINE]>::from_elem(0, kernel.words);
    for (index, parameter) in kernel.parameters.iter().enumerate() {
        let given = args.get_borrowed_item(index)?;
        match parameter.kind {
            ParameterKind::Binding {
                dtype,
                access,
                axes,
            } => {
                let Ok(buffer) = given.cast::<Buffer>() else {
                    let why = format!("takes a Buffer, got {}", given.get_type().name()?);
                    return Err(unfit(kernel, parameter, &why));
                };
                // The tuple keeps the buffer alive until the launch.
                let buffer: &Buffer = extend(args, buffer.get());
                if buffer.dtype != dtype {
                    let why = format!("is declared as {dtype}, got elements of {}", buffer.dtype);
                    return Err(unfit(kernel, parameter, &why));
                }
                if axes > 1 && buffer.shape.len() != axes {
                    let why = format!("has {axes} axes, got a buffer of shape {:?}", buffer.shape);
                    return Err(unfit(kernel, parameter, &why));
                }
                bindings.push(bind(&buffer.handle, access));
            }
            ParameterKind::Scalar { dtype, offset } => {
                if is_slot(&given, dtype, offset)? {
                    continue;
                }
                let bits = bits_of(dtype, &given).map_err(|error| {
                    let why = format!("takes a number of type {dtype}: {error}");
                    caused(unfit(kernel, parameter, &why), error)
                })?;
                // Little endian within a word, as the scalars of the runtime.
                if let Some(word) = words.get_mut(offset / 8) {
                    *word |= bits << (8 * (offset % 8));
                }
            }
        }
    }
    for extent in &kernel.extents {
        // Each is the length of a binding, whose argument is a buffer.
        let given = args.get_borrowed_item(extent.parameter)?;
        let shape = &given.cast::<Buffer>()?.get().shape;
        let length = match extent.axis {
            Some(axis) => shape.get(axis).copied().unwrap_or_default(),
            None => shape.iter().product(),
        };
        if let Some(word) = words.get_mut(extent.word) {
            *word = length as u64;
        }
    }
    Ok(Packed { bindings, words })
}

/// Returns a buffer for as long as the tuple that holds a reference to it.
fn extend<'a>(_args: &'a Bound<'_, PyTuple>, buffer: &Buffer) -> &'a Buffer {
    // SAFETY: a tuple is immutable, so it keeps each of its items alive for as long as it lives itself. The class is
    // frozen, so no exclusive reference to the value exists.
    unsafe { &*std::ptr::from_ref(buffer) }
}

/// Checks that there are as many arguments as parameters.
fn check_number(kernel: &Kernel, args: &Bound<'_, PyTuple>) -> PyResult<()> {
    let (expected, given) = (kernel.parameters.len(), args.len());
    if expected == given {
        return Ok(());
    }
    let names: Vec<&str> = kernel.parameters.iter().map(|p| &*p.name).collect();
    let message = format!(
        "kernel `{}` takes {expected} arguments ({}), got {given}",
        kernel.handle.name(),
        names.join(", ")
    );
    Err(argument_error(message))
}

/// Returns the error of an argument that does not fit.
#[cold]
fn unfit(kernel: &Kernel, parameter: &Parameter, why: &str) -> PyErr {
    let (name, kernel) = (&parameter.name, kernel.handle.name());
    argument_error(format!("`{name}` of kernel `{kernel}` {why}"))
}
