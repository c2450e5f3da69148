//! Checks of users' modules before the driver receives them: that the module is complete, that the device has what it
//! needs, and that its interface is the kernel's. Drivers do not check this, and some crash.
//!
//! This is no validator: `spirv-val` checks all rules. What is not understood is accepted.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;

use crate::module::{HEADER_WORDS, OP_ENTRY_POINT};

/// What a module must agree with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Bytes of push constants.
    pub(crate) push_bytes: u32,
    /// The number of storage buffers in descriptor set 0.
    pub(crate) descriptors: u32,
    /// The most threads of a cube, in total and along each axis.
    pub(crate) threads_max: u32,
    pub(crate) axes_max: [u32; 3],
    pub(crate) features: crate::driver::Features,
}

/// The largest bound of ids that Vulkan's drivers must support (SPIR-V's universal limit).
const BOUND_MAX: u32 = 0x3F_FFFF;
/// The deepest nesting of types whose size is computed.
const DEPTH_MAX: u32 = 16;

/// Opcodes.
mod op {
    pub(super) const MEMORY_MODEL: u32 = 14;
    pub(super) const EXECUTION_MODE: u32 = 16;
    pub(super) const CAPABILITY: u32 = 17;
    pub(super) const TYPE_INT: u32 = 21;
    pub(super) const TYPE_FLOAT: u32 = 22;
    pub(super) const TYPE_VECTOR: u32 = 23;
    pub(super) const TYPE_ARRAY: u32 = 28;
    pub(super) const TYPE_STRUCT: u32 = 30;
    pub(super) const TYPE_POINTER: u32 = 32;
    pub(super) const CONSTANT: u32 = 43;
    pub(super) const FUNCTION: u32 = 54;
    pub(super) const FUNCTION_END: u32 = 56;
    pub(super) const VARIABLE: u32 = 59;
    pub(super) const DECORATE: u32 = 71;
    pub(super) const MEMBER_DECORATE: u32 = 72;
}

const MODE_LOCAL_SIZE: u32 = 17;
const DECORATION_ARRAY_STRIDE: u32 = 6;
const DECORATION_BINDING: u32 = 33;
const DECORATION_SET: u32 = 34;
const DECORATION_OFFSET: u32 = 35;

const CLASS_UNIFORM_CONSTANT: u32 = 0;
const CLASS_UNIFORM: u32 = 2;
const CLASS_PUSH_CONSTANT: u32 = 9;
const CLASS_STORAGE_BUFFER: u32 = 12;

/// The first version whose entry points list all their variables.
const LISTS_ALL: u32 = 0x0001_0400;

/// The declarations of a module.
#[derive(Default)]
struct Module<'m> {
    /// Type declarations by id: the opcode and the operands after the id.
    types: HashMap<u32, (u32, &'m [u32])>,
    constants: HashMap<u32, u32>,
    /// Global variables: the id, the storage class, and the pointer type.
    variables: Vec<(u32, u32, u32)>,
    sets: HashMap<u32, u32>,
    bindings: HashMap<u32, u32>,
    strides: HashMap<u32, u32>,
    /// Offsets by struct and member.
    offsets: HashMap<(u32, u32), u32>,
    functions: HashSet<u32>,
    /// Compute entry points by id: their names and variables.
    entries: Vec<(u32, Vec<u8>, &'m [u32])>,
    local_sizes: Vec<(u32, [u32; 3])>,
    capabilities: Vec<u32>,
    has_memory_model: bool,
}

/// Checks a module, whose instructions are whole ([`entry_point`](crate::module::entry_point)).
///
/// # Errors
/// What is wrong.
pub(crate) fn check(words: &[u32], entry: &CStr, expected: &Expected) -> Result<(), String> {
    let bound = words[3];
    if bound == 0 || bound > BOUND_MAX {
        return Err(format!(
            "the module's bound of ids is {bound}, expected 1 to {BOUND_MAX}"
        ));
    }
    let module = Module::parse(&words[HEADER_WORDS..])?;
    if !module.has_memory_model {
        return Err("the module has no memory model".to_owned());
    }
    let named = |(_, name, _): &&(u32, Vec<u8>, &[u32])| name == entry.to_bytes();
    let Some((id, _, interface)) = module.entries.iter().find(named) else {
        return Ok(());
    };
    if !module.functions.contains(id) {
        return Err(format!(
            "the function of the entry point, {id}, is not defined"
        ));
    }
    check_capabilities(&module.capabilities, &expected.features)?;
    let sizes = module.local_sizes.iter().filter(|(of, _)| of == id);
    for (_, size) in sizes {
        check_threads(*size, expected)?;
    }
    // Before version 1.4 the entry point does not list all variables; then those of other entry points cannot be told.
    let lists_all = words[1] >= LISTS_ALL;
    if !lists_all && module.entries.len() > 1 {
        return Ok(());
    }
    let used = module.variables.iter();
    let used = used.filter(|(id, ..)| !lists_all || interface.contains(id));
    used.copied()
        .try_for_each(|variable| module.check_variable(variable, expected))
}

fn check_threads([x, y, z]: [u32; 3], expected: &Expected) -> Result<(), String> {
    let all = u64::from(x) * u64::from(y) * u64::from(z);
    let fits = [x, y, z]
        .iter()
        .zip(expected.axes_max)
        .all(|(axis, most)| (1..=most).contains(axis));
    match fits && all <= u64::from(expected.threads_max) {
        true => Ok(()),
        false => Err(format!(
            "the module's cubes have {x} x {y} x {z} threads, expected at most {} along the axes and {} in total",
            expected.axes_max.map(|most| most.to_string()).join(", "),
            expected.threads_max
        )),
    }
}

/// Returns an error for a capability that is known to be missing.
fn check_capabilities(capabilities: &[u32], has: &crate::driver::Features) -> Result<(), String> {
    let missing = capabilities.iter().find_map(|capability| match capability {
        6 => Some("Kernel (the module is for OpenCL)"),
        10 if !has.f64 => Some("Float64"),
        9 if !has.f16 => Some("Float16"),
        22 if !has.i16 => Some("Int16"),
        39 if !has.i8 => Some("Int8"),
        12 if !has.i64_atomics && !has.shared_i64_atomics => Some("Int64Atomics"),
        4433 | 4434 if !has.storage_16 => Some("StorageBuffer16BitAccess"),
        4448 | 4449 if !has.storage_8 => Some("StorageBuffer8BitAccess"),
        _ => None,
    });
    match missing {
        None => Ok(()),
        Some(name) => Err(format!("the module needs the capability {name}")),
    }
}

impl<'m> Module<'m> {
    fn parse(mut rest: &'m [u32]) -> Result<Self, String> {
        let mut module = Self::default();
        let mut is_in_function = false;
        while let [first, ..] = rest {
            let (count, op) = ((first >> 16) as usize, first & 0xFFFF);
            let (instruction, behind) = rest.split_at(count.clamp(1, rest.len()));
            match op {
                op::FUNCTION if is_in_function => {
                    return Err("a function begins before the one before it has ended".to_owned());
                }
                op::FUNCTION_END if !is_in_function => {
                    return Err("a function ends that has not begun".to_owned());
                }
                op::FUNCTION => is_in_function = true,
                op::FUNCTION_END => is_in_function = false,
                _ => {}
            }
            if !(is_in_function && op == op::VARIABLE) {
                module.add(op, &instruction[1..]);
            }
            rest = behind;
        }
        match is_in_function {
            true => Err("the module is truncated: its last function does not end".to_owned()),
            false => Ok(module),
        }
    }

    fn add(&mut self, op: u32, operands: &'m [u32]) {
        match (op, operands) {
            (op::CAPABILITY, [capability]) => self.capabilities.push(*capability),
            (op::MEMORY_MODEL, _) => self.has_memory_model = true,
            (OP_ENTRY_POINT, [_, id, rest @ ..]) => {
                let bytes = rest.iter().flat_map(|word| word.to_le_bytes());
                let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
                let words = name.len() / 4 + 1;
                let interface = rest.get(words..).unwrap_or_default();
                self.entries.push((*id, name, interface));
            }
            (op::EXECUTION_MODE, [id, MODE_LOCAL_SIZE, x, y, z]) => {
                self.local_sizes.push((*id, [*x, *y, *z]));
            }
            (
                op::TYPE_INT
                | op::TYPE_FLOAT
                | op::TYPE_VECTOR
                | op::TYPE_ARRAY
                | op::TYPE_STRUCT
                | op::TYPE_POINTER,
                [id, rest @ ..],
            ) => {
                self.types.insert(*id, (op, rest));
            }
            (op::CONSTANT, [_, id, value, ..]) => {
                self.constants.insert(*id, *value);
            }
            (op::FUNCTION, [_, id, ..]) => {
                self.functions.insert(*id);
            }
            (op::VARIABLE, [pointer, id, class, ..]) => {
                self.variables.push((*id, *class, *pointer));
            }
            (op::DECORATE, [id, decoration, value, ..]) => {
                let values = match *decoration {
                    DECORATION_ARRAY_STRIDE => &mut self.strides,
                    DECORATION_BINDING => &mut self.bindings,
                    DECORATION_SET => &mut self.sets,
                    _ => return,
                };
                values.insert(*id, *value);
            }
            (op::MEMBER_DECORATE, [id, member, DECORATION_OFFSET, offset]) => {
                self.offsets.insert((*id, *member), *offset);
            }
            _ => {}
        }
    }

    fn check_variable(
        &self,
        (id, class, pointer): (u32, u32, u32),
        expected: &Expected,
    ) -> Result<(), String> {
        match class {
            CLASS_PUSH_CONSTANT => match self.pointee(pointer).and_then(|of| self.bytes(of, 0)) {
                Some(bytes) if bytes > u64::from(expected.push_bytes) => Err(format!(
                    "the module's push constants have {bytes} bytes, but those of the kernel's signature {}; declare \
                     what the module reads, as `VulkanLaunch` says",
                    expected.push_bytes
                )),
                _ => Ok(()),
            },
            CLASS_STORAGE_BUFFER | CLASS_UNIFORM | CLASS_UNIFORM_CONSTANT => {
                let of = |values: &HashMap<u32, u32>| values.get(&id).copied().unwrap_or_default();
                let (set, binding) = (of(&self.sets), of(&self.bindings));
                match set == 0 && binding < expected.descriptors {
                    true => Ok(()),
                    false => Err(format!(
                        "the module has a descriptor at set {set}, binding {binding}, but the kernel has {} in set 0; \
                         declare its bindings, and set `VulkanLaunch::descriptors`",
                        expected.descriptors
                    )),
                }
            }
            _ => Ok(()),
        }
    }

    fn pointee(&self, pointer: u32) -> Option<u32> {
        match self.types.get(&pointer)? {
            (op::TYPE_POINTER, [_, to]) => Some(*to),
            _ => None,
        }
    }

    /// Returns the number of bytes of a type with a layout, up to the end of its last member. `None` if it is not known.
    fn bytes(&self, id: u32, depth: u32) -> Option<u64> {
        if depth > DEPTH_MAX {
            return None;
        }
        let of = |id: u32| self.bytes(id, depth + 1);
        match self.types.get(&id)? {
            (op::TYPE_INT | op::TYPE_FLOAT, [bits, ..]) => Some(u64::from(bits / 8)),
            (op::TYPE_VECTOR, [of_one, count]) => of(*of_one)?.checked_mul(u64::from(*count)),
            (op::TYPE_POINTER, _) => Some(8),
            (op::TYPE_ARRAY, [one, count]) => {
                let count = u64::from(*self.constants.get(count)?);
                let stride = u64::from(*self.strides.get(&id)?);
                stride
                    .checked_mul(count.checked_sub(1)?)?
                    .checked_add(of(*one)?)
            }
            (op::TYPE_STRUCT, members) => {
                let mut ends = members.iter().zip(0..).map(|(member, nth)| {
                    let offset = self.offsets.get(&(id, nth))?;
                    of(*member)?.checked_add(u64::from(*offset))
                });
                ends.try_fold(0, |most, end| Some(end?.max(most)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::entry_point;

    /// `add_one` with descriptors: one binding, and 12 bytes of push constants.
    fn module() -> Vec<u32> {
        let bytes = include_bytes!("../../../tests/vulkan/kernels/descriptors/add_one.spv");
        let words = bytes.chunks_exact(4);
        words
            .map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()))
            .collect()
    }

    fn expected() -> Expected {
        Expected {
            push_bytes: 16,
            descriptors: 1,
            threads_max: 1024,
            axes_max: [1024, 1024, 64],
            features: crate::driver::Features::default(),
        }
    }

    fn checked(words: &[u32], expected: &Expected) -> Result<(), String> {
        let name = entry_point(words, "add_one")?;
        check(words, &name, expected)
    }

    #[test]
    fn module_with_the_interface_of_its_kernel_is_accepted() {
        assert_eq!(checked(&module(), &expected()), Ok(()));
    }

    #[test]
    fn module_that_is_truncated_anywhere_is_refused() {
        let module = module();
        for len in 0..module.len() {
            assert!(checked(&module[..len], &expected()).is_err(), "{len} words");
        }
    }

    #[test]
    fn other_interface_than_the_kernels_is_refused() {
        let error = |change: fn(&mut Expected)| {
            let mut expected = expected();
            change(&mut expected);
            checked(&module(), &expected).unwrap_err()
        };
        assert!(error(|of| of.push_bytes = 8).contains("12 bytes"));
        assert!(error(|of| of.descriptors = 0).contains("set 0, binding 0"));
        assert!(error(|of| of.threads_max = 255).contains("256 x 1 x 1"));
        assert!(error(|of| of.axes_max[0] = 128).contains("256 x 1 x 1"));
    }

    proptest::proptest! {
        #[test]
        fn changed_modules_do_not_panic(at in 0_usize..400, word: u32) {
            let mut module = module();
            let at = at % module.len();
            module[at] = word;
            checked(&module, &expected()).ok();
        }

        #[test]
        fn random_words_are_refused(words in proptest::collection::vec(proptest::num::u32::ANY, 0..64)) {
            let mut module = module()[..5].to_vec();
            module.extend(words);
            proptest::prop_assert!(checked(&module, &expected()).is_err());
        }
    }
}
