//! The peer's kernels: an empty one, and one with a marker.

use cubecl_ir::metadata::Info;
use cubecl_ir::settings::{Dim3, ExecutionMode, KernelSettings};
use cubecl_ir::{AddressType, ElemType, Scope, UIntKind};
use cubecl_server::id::KernelId;
use cubecl_server::kernel::{CubeKernel, KernelDefinition, KernelMetadata};

use crate::noop::Mark;

/// The kernel of every measured launch. It has no size, so boxing it does not allocate.
#[derive(Debug)]
pub(super) struct Noop;

/// A kernel that is a marker to the device.
#[derive(Debug)]
pub(super) struct Marked(pub(super) Mark);

/// Returns the marker of a kernel.
pub(super) fn mark_of(kernel: &dyn CubeKernel) -> Mark {
    let kernel: &dyn std::any::Any = kernel;
    kernel
        .downcast_ref::<Marked>()
        .map_or(Mark::None, |marked| marked.0)
}

fn definition() -> KernelDefinition {
    let settings =
        KernelSettings::new(Dim3::new_single(), ExecutionMode::Checked, AddressType::U32);
    KernelDefinition {
        body: Scope::root(settings.clone()),
        settings,
        info: Info::default(),
    }
}

impl KernelMetadata for Noop {
    fn id(&self) -> KernelId {
        KernelId::new::<Self>()
    }

    fn address_type(&self) -> ElemType {
        ElemType::UInt(UIntKind::U32)
    }
}

impl CubeKernel for Noop {
    fn define(&self) -> KernelDefinition {
        definition()
    }
}

impl KernelMetadata for Marked {
    fn id(&self) -> KernelId {
        KernelId::new::<Self>()
    }

    fn address_type(&self) -> ElemType {
        ElemType::UInt(UIntKind::U32)
    }
}

impl CubeKernel for Marked {
    fn define(&self) -> KernelDefinition {
        definition()
    }
}
