//! Which entry point of a user's module a kernel has, and checks before the driver receives the module: that it is
//! complete, that the device has what it needs, and that its interface is the kernel's. Drivers do not check this, and
//! some crash.
//!
//! This is no validator: `spirv-val` checks all rules. What is not understood is accepted.

use std::ffi::CString;

use ash::vk;
use spirv::{Capability, Decoration, ExecutionMode, ExecutionModel, Op, StorageClass};

use crate::driver::{Features, Interface};

/// What a module must agree with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) interface: Interface,
    pub(crate) limits: vk::PhysicalDeviceLimits,
    pub(crate) features: Features,
}

/// The largest bound of ids that Vulkan's drivers must support (SPIR-V's universal limit).
const BOUND_MAX: u32 = 0x3F_FFFF;
/// The deepest nesting of types whose size is computed.
const DEPTH_MAX: u32 = 16;

/// Words before the first instruction.
const HEADER_WORDS: usize = 5;
/// The execution mode with the threads of a cube.
const LOCAL_SIZE: u32 = ExecutionMode::LocalSize as u32;
/// The first version whose entry points list all their variables.
const LISTS_ALL: u32 = 0x0001_0400;

/// The instructions of a module outside of its functions, and those that begin functions, each with its operands.
struct Module<'m>(Vec<(Op, &'m [u32])>);

/// An entry point: its function, its name, and the variables that it lists.
struct EntryPoint<'m> {
    id: u32,
    name: CString,
    interface: &'m [u32],
}

/// Checks a module, and returns the name of the entry point of a kernel: the kernel's name, or the name of the module's
/// only entry point for compute.
///
/// # Errors
/// What is wrong.
pub(crate) fn check(words: &[u32], kernel: &str, expected: &Expected) -> Result<CString, String> {
    let module = Module::parse(words)?;
    let entry = module.entry(kernel)?;
    let bound = words[3];
    if bound == 0 || bound > BOUND_MAX {
        return Err(format!(
            "the module's bound of ids is {bound}, expected 1 to {BOUND_MAX}"
        ));
    }
    if module.all(Op::MemoryModel).next().is_none() {
        return Err("the module has no memory model".to_owned());
    }
    let id = entry.id;
    if !module.all(Op::Function).any(|of| of.get(1) == Some(&id)) {
        return Err(format!(
            "the function of the entry point, {id}, is not defined"
        ));
    }
    module.check_capabilities(&expected.features)?;
    for mode in module.all(Op::ExecutionMode) {
        if let [of, LOCAL_SIZE, x, y, z] = mode
            && *of == id
        {
            check_threads([*x, *y, *z], &expected.limits)?;
        }
    }
    // Before version 1.4 the entry point does not list all variables; then those of other entry points cannot be told.
    let lists_all = words[1] >= LISTS_ALL;
    if lists_all || module.all(Op::EntryPoint).count() == 1 {
        for variable in module.all(Op::Variable) {
            if let [pointer, id, class, ..] = variable
                && (!lists_all || entry.interface.contains(id))
            {
                module.check_variable((*id, *class, *pointer), expected)?;
            }
        }
    }
    Ok(entry.name)
}

/// Returns an error if a device with these limits has no cubes of these threads.
pub(crate) fn check_threads(
    [x, y, z]: [u32; 3],
    limits: &vk::PhysicalDeviceLimits,
) -> Result<(), String> {
    let all = u64::from(x) * u64::from(y) * u64::from(z);
    let (axes, total) = (
        limits.max_compute_work_group_size,
        limits.max_compute_work_group_invocations,
    );
    let mut each = [x, y, z].into_iter().zip(axes);
    match each.all(|(axis, most)| (1..=most).contains(&axis)) && all <= u64::from(total) {
        true => Ok(()),
        false => Err(format!(
            "the kernel's cubes have {x} x {y} x {z} threads, expected at most {} along the axes and {total} in total",
            axes.map(|most| most.to_string()).join(", ")
        )),
    }
}

impl<'m> Module<'m> {
    fn parse(words: &'m [u32]) -> Result<Self, String> {
        if words.len() < HEADER_WORDS || words[0] != spirv::MAGIC_NUMBER {
            return Err("the module is not SPIR-V of this machine's byte order".to_owned());
        }
        let mut instructions = Vec::new();
        let mut is_in_function = false;
        let mut rest = &words[HEADER_WORDS..];
        while let [first, ..] = rest {
            let count = (first >> 16) as usize;
            if count == 0 || count > rest.len() {
                let at = words.len() - rest.len();
                return Err(format!("the module is truncated at word {at}"));
            }
            let (instruction, behind) = rest.split_at(count);
            rest = behind;
            match Op::from_u32(first & 0xFFFF) {
                Some(Op::Function) if is_in_function => {
                    return Err("a function begins before the one before it has ended".to_owned());
                }
                Some(Op::FunctionEnd) if !is_in_function => {
                    return Err("a function ends that has not begun".to_owned());
                }
                Some(Op::FunctionEnd) => is_in_function = false,
                Some(op) if !is_in_function => {
                    is_in_function = op == Op::Function;
                    instructions.push((op, &instruction[1..]));
                }
                _ => {}
            }
        }
        match is_in_function {
            true => Err("the module is truncated: its last function does not end".to_owned()),
            false => Ok(Self(instructions)),
        }
    }

    /// Returns the operands of all such instructions.
    fn all(&self, op: Op) -> impl Iterator<Item = &'m [u32]> {
        let such = self.0.iter().filter(move |(of, _)| *of == op);
        such.map(|(_, operands)| *operands)
    }

    /// Returns the entry point of a kernel.
    fn entry(&self, kernel: &str) -> Result<EntryPoint<'m>, String> {
        const COMPUTE: u32 = ExecutionModel::GLCompute as u32;
        let compute = self.all(Op::EntryPoint).filter_map(|operands| {
            let [COMPUTE, id, rest @ ..] = operands else {
                return None;
            };
            let bytes = rest.iter().flat_map(|word| word.to_le_bytes());
            let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
            let words = name.len() / 4 + 1;
            Some(EntryPoint {
                id: *id,
                interface: rest.get(words..).unwrap_or_default(),
                // The name has no zero.
                name: CString::new(name).unwrap_or_default(),
            })
        });
        let mut compute: Vec<_> = compute.collect();
        let named = |entry: &EntryPoint<'_>| entry.name.as_bytes() == kernel.as_bytes();
        match (compute.iter().position(named), compute.len()) {
            (Some(at), _) => Ok(compute.swap_remove(at)),
            (None, 1) => Ok(compute.remove(0)),
            (None, 0) => Err("the module has no entry point for compute".to_owned()),
            (None, _) => {
                let names = compute.iter().map(|entry| entry.name.to_string_lossy());
                Err(format!(
                    "no entry point has the name of the kernel; the module has {}",
                    names.collect::<Vec<_>>().join(", ")
                ))
            }
        }
    }

    /// Returns an error for a capability that is known to be missing.
    fn check_capabilities(&self, has: &Features) -> Result<(), String> {
        use Capability as C;
        let kernels = &has.kernels;
        let needed = self.all(Op::Capability).flatten();
        let known = needed.filter_map(|one| C::from_u32(*one));
        let mut missing = known.filter(|capability| match capability {
            C::Kernel => true,
            C::Float64 => !kernels.f64,
            C::Float16 => !has.f16,
            C::Int16 => !kernels.i16,
            C::Int8 => !kernels.i8,
            C::Int64Atomics => !kernels.buffer_i64_atomics && !kernels.shared_i64_atomics,
            C::StorageBuffer16BitAccess | C::UniformAndStorageBuffer16BitAccess => {
                !kernels.storage_16
            }
            C::StorageBuffer8BitAccess | C::UniformAndStorageBuffer8BitAccess => !kernels.storage_8,
            _ => false,
        });
        match missing.next() {
            None => Ok(()),
            Some(C::Kernel) => {
                Err("the module is for OpenCL (it needs the capability Kernel)".to_owned())
            }
            Some(missing) => Err(format!("the module needs the capability {missing:?}")),
        }
    }

    /// Returns the first number of a decoration of an id.
    fn decoration(&self, id: u32, decoration: Decoration) -> Option<u32> {
        self.all(Op::Decorate).find_map(|operands| match operands {
            [of, by, value, ..] if (*of, *by) == (id, decoration as u32) => Some(*value),
            _ => None,
        })
    }

    fn check_variable(
        &self,
        (id, class, pointer): (u32, u32, u32),
        expected: &Expected,
    ) -> Result<(), String> {
        use StorageClass as S;
        let pushed = expected.interface.push_bytes();
        let descriptors = expected.interface.descriptors.unwrap_or_default();
        match StorageClass::from_u32(class) {
            Some(S::PushConstant) => match self.pointee(pointer).and_then(|of| self.bytes(of, 0)) {
                Some(bytes) if bytes > u64::from(pushed) => Err(format!(
                    "the module's push constants have {bytes} bytes, but those of the kernel's signature {pushed}; declare \
                     what the module reads, as `VulkanLaunch` says"
                )),
                _ => Ok(()),
            },
            Some(S::StorageBuffer | S::Uniform | S::UniformConstant) => {
                let of = |decoration| self.decoration(id, decoration).unwrap_or_default();
                let (set, binding) = (of(Decoration::DescriptorSet), of(Decoration::Binding));
                match set == 0 && binding < descriptors {
                    true => Ok(()),
                    false => Err(format!(
                        "the module has a descriptor at set {set}, binding {binding}, but the kernel has {descriptors} in \
                         set 0; declare its bindings, and set `VulkanLaunch::descriptors`"
                    )),
                }
            }
            _ => Ok(()),
        }
    }

    /// Returns the instruction that declares a type, and its operands after the id.
    fn type_of(&self, id: u32) -> Option<(Op, &'m [u32])> {
        // The numbers of the instructions for types are consecutive.
        let types = Op::TypeVoid as u32..=Op::TypeFunction as u32;
        self.0.iter().find_map(|(op, operands)| match operands {
            [of, rest @ ..] if *of == id && types.contains(&(*op as u32)) => Some((*op, rest)),
            _ => None,
        })
    }

    fn pointee(&self, pointer: u32) -> Option<u32> {
        match self.type_of(pointer)? {
            (Op::TypePointer, [_, to]) => Some(*to),
            _ => None,
        }
    }

    /// Returns the number of bytes of a type with a layout, up to the end of its last member. `None` if it is not known.
    fn bytes(&self, id: u32, depth: u32) -> Option<u64> {
        const OFFSET: u32 = Decoration::Offset as u32;
        if depth > DEPTH_MAX {
            return None;
        }
        let of = |id: u32| self.bytes(id, depth + 1);
        match self.type_of(id)? {
            (Op::TypeInt | Op::TypeFloat, [bits, ..]) => Some(u64::from(bits / 8)),
            (Op::TypeVector, [of_one, count]) => of(*of_one)?.checked_mul(u64::from(*count)),
            (Op::TypePointer, _) => Some(8),
            (Op::TypeArray, [one, count]) => {
                let mut constants = self.all(Op::Constant);
                let count = constants.find_map(|operands| match operands {
                    [_, of, value, ..] if of == count => Some(u64::from(*value)),
                    _ => None,
                })?;
                let stride = u64::from(self.decoration(id, Decoration::ArrayStride)?);
                stride
                    .checked_mul(count.checked_sub(1)?)?
                    .checked_add(of(*one)?)
            }
            (Op::TypeStruct, members) => {
                let mut ends = members.iter().zip(0..).map(|(member, nth)| {
                    let mut offsets = self.all(Op::MemberDecorate);
                    let offset = offsets.find_map(|operands| match operands {
                        [of, at, OFFSET, offset] if (*of, *at) == (id, nth) => Some(*offset),
                        _ => None,
                    })?;
                    of(*member)?.checked_add(u64::from(offset))
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
            interface: Interface {
                parameter_bytes: 16,
                descriptors: Some(1),
                ..Interface::default()
            },
            limits: vk::PhysicalDeviceLimits {
                max_compute_work_group_invocations: 1024,
                max_compute_work_group_size: [1024, 1024, 64],
                ..vk::PhysicalDeviceLimits::default()
            },
            features: Features::default(),
        }
    }

    fn checked(words: &[u32], expected: &Expected) -> Result<(), String> {
        check(words, "add_one", expected).map(drop)
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
        assert!(error(|of| of.interface.parameter_bytes = 8).contains("12 bytes"));
        assert!(error(|of| of.interface.descriptors = None).contains("set 0, binding 0"));
        assert!(
            error(|of| of.limits.max_compute_work_group_invocations = 255).contains("256 x 1 x 1")
        );
        assert!(error(|of| of.limits.max_compute_work_group_size[0] = 128).contains("256 x 1 x 1"));
    }

    fn entry_name(words: &[u32], kernel: &str) -> Result<CString, String> {
        let module = Module::parse(words)?;
        Ok(module.entry(kernel)?.name)
    }

    fn with_entry(names: &[&str]) -> Vec<u32> {
        let mut words = vec![spirv::MAGIC_NUMBER, 0x0001_0500, 0, 1, 0];
        for name in names {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(bytes.len() / 4 * 4 + 4, 0);
            let text: Vec<u32> = bytes
                .chunks(4)
                .map(|c| u32::from_le_bytes(c.try_into().unwrap_or_default()))
                .collect();
            words.push(((3 + text.len()) as u32) << 16 | Op::EntryPoint as u32);
            words.extend([ExecutionModel::GLCompute as u32, 1]);
            words.extend(text);
        }
        words
    }

    #[test]
    fn entry_point_is_that_of_the_kernel_or_the_only_one() {
        assert_eq!(
            entry_name(&with_entry(&["main"]), "k"),
            Ok(c"main".to_owned())
        );
        assert_eq!(
            entry_name(&with_entry(&["a", "k"]), "k"),
            Ok(c"k".to_owned())
        );
    }

    #[test]
    fn broken_modules_are_errors_that_say_why() {
        let error = |words: &[u32]| entry_name(words, "k").unwrap_err();
        assert!(error(&[]).contains("not SPIR-V"));
        assert!(error(&[spirv::MAGIC_NUMBER.swap_bytes(), 0, 0, 0, 0]).contains("byte order"));
        let mut cut = with_entry(&["main"]);
        cut.pop();
        assert_eq!(error(&cut), "the module is truncated at word 5");
        assert!(error(&with_entry(&[])).contains("no entry point"));
        assert!(error(&with_entry(&["a", "b"])).contains("a, b"));
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
