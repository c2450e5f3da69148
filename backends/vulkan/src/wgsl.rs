//! Kernels in WGSL, translated to SPIR-V by naga.
//!
//! Buffers are storage buffers of group 0, numbered in declared order. Scalars are the fields of a struct in the address
//! space `immediate`, in declared order:
//!
//! ```wgsl
//! @group(0) @binding(0) var<storage, read_write> values: array<u32>;
//! struct Scalars { by: u32, n: u32 }
//! var<immediate> scalars: Scalars;
//!
//! @compute @workgroup_size(256)
//! fn add(@builtin(global_invocation_id) id: vec3<u32>) {
//!     if id.x < scalars.n { values[id.x] += scalars.by; }
//! }
//! ```
//! Accesses out of bounds read zero, and write nothing.

use std::ffi::CString;
use std::ops::Range;

use millstream_protocol::{Access, Kernel};
use naga::back::spv;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, GlobalVariable, Module, ShaderStage, StorageAccess};

use crate::driver::Features;

/// A translated kernel.
pub(crate) struct Translated {
    pub(crate) words: Vec<u32>,
    pub(crate) entry: CString,
    /// The place of each scalar: its bytes within the packed scalars, and its offset in the push constants.
    pub(crate) scalars: Vec<(Range<usize>, usize)>,
    /// Bytes of the push constants.
    pub(crate) push_bytes: u32,
}

/// Translates a kernel.
///
/// # Errors
/// The text is no valid WGSL, or its interface is not that of the kernel.
pub(crate) fn translate(
    kernel: &Kernel,
    text: &str,
    features: &Features,
) -> Result<Translated, String> {
    let module = naga::front::wgsl::parse_str(text).map_err(|error| error.emit_to_string(text))?;
    let mut validator = Validator::new(ValidationFlags::all(), capabilities(features));
    let info = validator
        .validate(&module)
        .map_err(|error| error.emit_to_string(text))?;
    let entry = entry_point(&module, kernel.name())?;
    let (scalars, bytes) = places(kernel);
    check_globals(kernel, &module, bytes)?;
    let checked = BoundsCheckPolicy::ReadZeroSkipWrite;
    let options = spv::Options {
        lang_version: (1, 5),
        bounds_check_policies: BoundsCheckPolicies {
            index: checked,
            buffer: checked,
            image_load: checked,
            binding_array: checked,
        },
        ..spv::Options::default()
    };
    let selected = spv::PipelineOptions {
        shader_stage: ShaderStage::Compute,
        entry_point: entry.clone(),
    };
    let words = spv::write_vec(&module, &info, &options, Some(&selected))
        .map_err(|error| format!("naga cannot translate the kernel to SPIR-V: {error}"))?;
    Ok(Translated {
        words,
        entry: CString::new(entry).map_err(|error| error.to_string())?,
        scalars,
        push_bytes: bytes.next_multiple_of(4) as u32,
    })
}

/// Returns the optional capabilities that the device has.
fn capabilities(features: &Features) -> Capabilities {
    let mut all = Capabilities::IMMEDIATES | Capabilities::SHADER_INT64;
    all.set(Capabilities::FLOAT64, features.kernels.f64);
    all.set(Capabilities::SHADER_FLOAT16, features.f16);
    all
}

/// Returns the name of the entry point: that of the kernel, or the only one.
fn entry_point(module: &Module, kernel: &str) -> Result<String, String> {
    let compute = module.entry_points.iter();
    let compute = compute.filter(|entry| entry.stage == ShaderStage::Compute);
    let names: Vec<&str> = compute.map(|entry| entry.name.as_str()).collect();
    match names.as_slice() {
        [] => Err("the text has no `@compute` function".to_owned()),
        [only] => Ok((*only).to_owned()),
        all if all.contains(&kernel) => Ok(kernel.to_owned()),
        all => Err(format!(
            "no `@compute` function has the name of the kernel; the text has {}",
            all.join(", ")
        )),
    }
}

/// Returns the place of each scalar in a WGSL struct with these fields, and the bytes of the struct.
fn places(kernel: &Kernel) -> (Vec<(Range<usize>, usize)>, usize) {
    let mut end = 0_usize;
    let place = kernel.signature().scalars().iter().map(|scalar| {
        let size = scalar.dtype.size();
        let start = end.next_multiple_of(size);
        end = start + size;
        (scalar.offset..scalar.offset + size, start)
    });
    (place.collect(), end)
}

/// Returns an error if the global variables are not the arguments of the kernel.
fn check_globals(kernel: &Kernel, module: &Module, bytes: usize) -> Result<(), String> {
    for (_, global) in module.global_variables.iter() {
        let name = global.name.as_deref().unwrap_or("?");
        match global.space {
            AddressSpace::Storage { access } => check_buffer(kernel, global, name, access)?,
            AddressSpace::Immediate => {
                let size = module.types[global.ty].inner.size(module.to_ctx()) as usize;
                if size > bytes.next_multiple_of(8) {
                    return Err(format!(
                        "the immediates `{name}` have {size} bytes, but the declared scalars have {bytes}"
                    ));
                }
            }
            AddressSpace::Private | AddressSpace::WorkGroup | AddressSpace::Function => {}
            _ => {
                return Err(format!(
                    "`{name}` is not a storage buffer; kernels receive storage buffers of group 0, and scalars in \
                     `var<immediate>`"
                ));
            }
        }
    }
    Ok(())
}

fn check_buffer(
    kernel: &Kernel,
    global: &GlobalVariable,
    name: &str,
    access: StorageAccess,
) -> Result<(), String> {
    let bindings = kernel.signature().bindings();
    let place = global.binding.filter(|place| place.group == 0);
    let Some(spec) = place.and_then(|place| bindings.get(place.binding as usize)) else {
        return Err(format!(
            "the buffer `{name}` must be in group 0, at a binding below {}",
            bindings.len()
        ));
    };
    if spec.access == Access::Read && access.contains(StorageAccess::STORE) {
        return Err(format!(
            "the buffer `{name}` is written, but the kernel declares `{}` as read; declare it as updated, or use \
             `var<storage, read>`",
            spec.name
        ));
    }
    Ok(())
}
