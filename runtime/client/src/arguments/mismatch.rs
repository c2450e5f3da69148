//! Errors of arguments. Nearly all of this is cold: a launch whose arguments fit runs [`is_fresh`] at most.

use std::sync::Arc;

use millstream_ir::DType;
use millstream_protocol::access::Access;
use millstream_protocol::element::Element;
use millstream_protocol::error::{Error, LaunchError, ScalarMismatch};
use millstream_protocol::id::SliceId;
use millstream_protocol::kernel::{BindingSpec, Signature};
use millstream_protocol::table::Table;

use crate::arguments::ArgumentCount;
use crate::handle::Handle;

/// The reason why an argument was rejected.
#[derive(Clone)]
pub struct ArgumentError(Box<Mismatch>);

/// Boxed in [`ArgumentError`], so that the result of each step of a successful launch is one word.
#[derive(Clone)]
enum Mismatch {
    /// The argument does not fit the signature.
    Launch(LaunchError),
    /// The handle belongs to another device.
    Foreign {
        /// The table of the other device.
        table: Arc<Table>,
        slice: SliceId,
        /// The binding of a launch that the handle was passed for.
        binding: Option<Arc<str>>,
    },
}

impl std::fmt::Debug for ArgumentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.0 {
            Mismatch::Launch(error) => write!(f, "{error:?}"),
            Mismatch::Foreign { slice, .. } => write!(f, "{slice} of another device"),
        }
    }
}

impl From<LaunchError> for ArgumentError {
    #[cold]
    fn from(error: LaunchError) -> Self {
        ArgumentError(Box::new(Mismatch::Launch(error)))
    }
}

impl ArgumentError {
    #[cold]
    pub(crate) fn foreign<T: Element>(handle: &Handle<T>, binding: Option<&Arc<str>>) -> Self {
        ArgumentError(Box::new(Mismatch::Foreign {
            table: handle.hold().table().clone(),
            slice: handle.id(),
            binding: binding.cloned(),
        }))
    }

    /// Converts to the error of `task`; for a handle of another device, calls `foreign` with its table and what it is.
    #[cold]
    pub(crate) fn into_error(
        self,
        task: &Arc<str>,
        foreign: impl FnOnce(&Arc<Table>, String) -> Error,
    ) -> Error {
        match *self.0 {
            Mismatch::Launch(why) => Error::Launch {
                task: task.clone(),
                why,
            },
            Mismatch::Foreign {
                table,
                slice,
                binding,
            } => {
                let passed_for = binding.map(|name| format!(" for binding `{name}` of `{task}`"));
                let which = format!("of {slice}{}", passed_for.unwrap_or_default());
                foreign(&table, which)
            }
        }
    }
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
pub(super) fn mismatch<T: Element>(
    spec: &BindingSpec,
    table: &Arc<Table>,
    handle: &Handle<T>,
    given: Access,
    typed: Typed,
) -> ArgumentError {
    if !Arc::ptr_eq(handle.hold().table(), table) {
        return ArgumentError::foreign(handle, Some(&spec.name));
    }
    let name = spec.name.clone();
    if spec.access != given && !is_fresh(spec.access, given, typed) {
        let declared = spec.access;
        return LaunchError::Access {
            name,
            declared,
            given,
        }
        .into();
    }
    if let Typed::Yes = typed {
        return element_type(&name, spec.dtype, T::DTYPE);
    }
    let (offset, align) = (handle.start(), spec.dtype.size() as u64);
    if offset.is_multiple_of(align) {
        let (bytes, element_bytes) = (handle.size(), align);
        return LaunchError::PartialElement {
            name,
            bytes,
            element_bytes,
        }
        .into();
    }
    LaunchError::Misaligned {
        name,
        offset,
        align,
    }
    .into()
}

#[cold]
pub(super) fn overlap(
    signature: &Signature,
    (first, second): (usize, usize),
    bytes: u64,
) -> ArgumentError {
    let name = |index: usize| signature.bindings()[index].name.clone();
    LaunchError::Overlap {
        first: name(first),
        second: name(second),
        bytes,
    }
    .into()
}

#[cold]
pub(super) fn miscounted(signature: &Signature, given: ArgumentCount) -> ArgumentError {
    let expected = signature.bindings().len();
    if given.bindings != expected {
        let given = given.bindings;
        return LaunchError::BindingCount { expected, given }.into();
    }
    let (expected, given) = (signature.scalars().len(), given.scalars);
    LaunchError::ScalarCount { expected, given }.into()
}

/// Returns the error for one more argument than a signature declares.
#[cold]
pub(super) fn surplus(signature: &Signature, more: ArgumentCount) -> ArgumentError {
    let declared = ArgumentCount {
        bindings: signature.bindings().len(),
        scalars: signature.scalars().len(),
    };
    miscounted(signature, declared.and(more))
}

#[cold]
pub(super) fn scalar_type(name: &Arc<str>, declared: DType, given: DType) -> ArgumentError {
    LaunchError::ScalarType {
        name: name.clone(),
        declared,
        given,
    }
    .into()
}

#[cold]
pub(crate) fn scalar_parameter(index: u32, misfit: ScalarMismatch) -> ArgumentError {
    let index = index as usize;
    LaunchError::ScalarParameter { index, misfit }.into()
}

#[cold]
fn element_type(name: &Arc<str>, declared: DType, given: DType) -> ArgumentError {
    LaunchError::ElementType {
        name: name.clone(),
        declared,
        given,
    }
    .into()
}
