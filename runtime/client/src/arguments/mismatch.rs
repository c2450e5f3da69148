//! Errors of arguments. Nearly all of this is cold: a launch whose arguments fit runs [`is_fresh`] at most.
//!
//! Errors are boxed, so that the result of each step of a successful launch is one word.

use std::sync::Arc;

use millstream_ir::DType;
use millstream_protocol::{Access, ArgumentError, ArgumentErrorKind, BindingSpec, Error, Stored};

use crate::arguments::ArgumentCount;
use crate::handle::Handle;
use crate::{DeviceShared, KernelHandle};

/// Returns the error of a launch of this kernel.
#[cold]
pub(crate) fn refused(kernel: &KernelHandle, why: ArgumentError) -> Box<Error> {
    Box::new(Error::Argument(why.of(kernel.name().clone())))
}

/// Whether the element type of a handle must be that of the signature, or its bytes are taken as such elements.
#[derive(Clone, Copy)]
pub(super) enum Typed {
    Yes,
    No,
}

/// Whether an untyped launch binds a declared `ReadWrite` as `Write`, to state that the previous contents are not
/// needed.
#[inline]
pub(super) fn is_fresh(declared: Access, given: Access, typed: Typed) -> bool {
    matches!(
        (declared, given, typed),
        (Access::ReadWrite, Access::Write, Typed::No)
    )
}

/// Returns the first reason for which a binding does not fit.
#[cold]
pub(super) fn mismatch<T: Stored>(
    (kernel, device): (&KernelHandle, &DeviceShared),
    spec: &BindingSpec,
    handle: &Handle<T>,
    given: Access,
    typed: Typed,
) -> Box<Error> {
    let name = &spec.name;
    if !Arc::ptr_eq(handle.hold().table(), device.table()) {
        let place = format!(" for binding `{name}` of `{}`", kernel.name());
        return Box::new(device.foreign_handle(handle, &place));
    }
    let (declared, start, size) = (spec.dtype, handle.start(), handle.size());
    let element = declared.size() as u64;
    let (kind, message) = if spec.access != given && !is_fresh(spec.access, given, typed) {
        let declared = spec.access;
        let message = format!(
            "binding `{name}` must be bound with `{declared}`, got `{given}`: pass `{declared}(&handle)`"
        );
        (ArgumentErrorKind::Access, message)
    } else if let Typed::Yes = typed {
        let given = T::WORD;
        let message = format!(
            "binding `{name}` is declared as {declared}, got elements of {given}: pass a handle of {declared}, or convert one with `Handle::cast`"
        );
        (ArgumentErrorKind::Type, message)
    } else if start.is_multiple_of(element) {
        let message = format!(
            "binding `{name}` has {size} bytes, which are not a multiple of its element size of {element} bytes: pass whole elements"
        );
        (ArgumentErrorKind::Alignment, message)
    } else {
        let message = format!(
            "binding `{name}` starts at byte {start}, which is not a multiple of its element size of {element} bytes: slice at a multiple of {element}, or copy the data to a new slice"
        );
        (ArgumentErrorKind::Alignment, message)
    };
    refused(kernel, ArgumentError::new(kind, message))
}

#[cold]
pub(super) fn overlap(
    kernel: &KernelHandle,
    (first, second): (usize, usize),
    bytes: u64,
) -> Box<Error> {
    let name = |index: usize| &*kernel.kernel.signature().bindings()[index].name;
    let why = ArgumentError::overlap(name(first), name(second), bytes);
    refused(kernel, why)
}

#[cold]
pub(super) fn miscounted(kernel: &KernelHandle, given: ArgumentCount) -> Box<Error> {
    let declared = ArgumentCount::of(kernel.kernel.signature());
    let why = match given.bindings == declared.bindings {
        true => ArgumentError::count("scalar", declared.scalars, given.scalars),
        false => ArgumentError::count("binding", declared.bindings, given.bindings),
    };
    refused(kernel, why)
}

/// Returns the error for one more argument than a signature declares.
#[cold]
pub(super) fn surplus(kernel: &KernelHandle, more: ArgumentCount) -> Box<Error> {
    miscounted(
        kernel,
        ArgumentCount::of(kernel.kernel.signature()).and(more),
    )
}

#[cold]
pub(super) fn scalar_type(
    kernel: &KernelHandle,
    name: &str,
    declared: DType,
    given: DType,
) -> Box<Error> {
    let hint = match declared {
        DType::F16 | DType::Bf16 => format!("write it as `{declared}::from_f32(5.0)`"),
        DType::F32 | DType::F64 => {
            format!("write a literal as `5.0_{declared}`, and a value as `value as {declared}`")
        }
        _ => format!("write a literal as `5_{declared}`, and a value as `value as {declared}`"),
    };
    let message = format!("scalar `{name}` is declared as {declared}, got {given}: {hint}");
    refused(kernel, ArgumentError::new(ArgumentErrorKind::Type, message))
}

/// Returns the error of a scalar parameter of a recording.
#[cold]
pub(crate) fn scalar_parameter(index: u32, what: &str) -> ArgumentError {
    let message = format!("scalar parameter {index} {what}");
    ArgumentError::new(ArgumentErrorKind::Parameter, message)
}

/// What is wrong with a scalar parameter of another recorder.
pub(crate) const FOREIGN_PARAMETER: &str =
    "belongs to another recorder; use one that `Recorder::scalar` returned for this recording";
