//! Modules of users: how their entry points receive the arguments, and which entry point a kernel has.

use std::ffi::CString;

/// The options of a kernel with a source in SPIR-V, added by [`Kernel::with`](millstream_protocol::kernel::Kernel::with).
///
/// # Arguments
/// An entry point receives its arguments as one block:
///
/// 1. a `u64` for each binding, in declared order: the device address of its first byte, or 0 if it is empty;
/// 2. the packed scalars ([`Signature`](millstream_protocol::kernel::Signature)): sorted by type, each type from a
///    multiple of eight bytes on;
/// 3. the words of metadata, if any.
///
/// With [`VulkanLaunch::descriptors`] the buffers are storage buffers of descriptor set 0, numbered in declared order,
/// and the first words of the block are not addresses: each is the byte offset of the first element in the range of its
/// descriptor, because descriptors begin at multiples of a device's alignment.
///
/// The specialization constants 0, 1 and 2 are the threads of a cube ([`Kernel::threads`]), if the module has them, as
/// with `local_size_x_id = 0` in GLSL.
///
/// [`Kernel::threads`]: millstream_protocol::kernel::Kernel::threads
///
/// A launch has at most the cubes that one dispatch of the device may have; kernels of the IR may have more.
///
/// A block of at most 128 bytes is the push constants. Of a longer one the push constants hold the device address, a
/// `u64`. In GLSL:
///
/// ```glsl
/// #extension GL_EXT_buffer_reference : require
/// #extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
/// layout(local_size_x = 256) in;
/// layout(buffer_reference, std430) buffer Words { uint at[]; };
/// layout(push_constant) uniform Block { Words values; uint by; uint n; };
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct VulkanLaunch {
    /// The most words of metadata that a launch passes. Missing ones are 0.
    pub metadata_words: usize,
    /// Whether the buffers are descriptors instead of addresses.
    pub descriptors: bool,
}

impl VulkanLaunch {
    /// Sets the most words of metadata that a launch passes. Missing ones are 0.
    #[must_use]
    pub fn metadata_words(mut self, words: usize) -> Self {
        self.metadata_words = words;
        self
    }

    /// Sets whether the entry point receives its buffers as descriptors instead of addresses. The device must have the
    /// extension `VK_KHR_push_descriptor`.
    #[must_use]
    pub fn descriptors(mut self, enabled: bool) -> Self {
        self.descriptors = enabled;
        self
    }
}

const MAGIC: u32 = 0x0723_0203;
pub(crate) const HEADER_WORDS: usize = 5;
pub(crate) const OP_ENTRY_POINT: u32 = 15;
const MODEL_COMPUTE: u32 = 5;

/// Returns the name of the entry point of a kernel: the kernel's name, or the name of the module's only entry point for
/// compute.
///
/// # Errors
/// The module is no SPIR-V, is truncated, or has no such entry point.
pub(crate) fn entry_point(words: &[u32], kernel: &str) -> Result<CString, String> {
    if words.len() < HEADER_WORDS || words[0] != MAGIC {
        return Err("the module is not SPIR-V of this machine's byte order".to_owned());
    }
    let mut names = Vec::new();
    let mut rest = &words[HEADER_WORDS..];
    while let [first, ..] = rest {
        let (count, op) = ((first >> 16) as usize, first & 0xFFFF);
        if count == 0 || count > rest.len() {
            let at = words.len() - rest.len();
            return Err(format!("the module is truncated at word {at}"));
        }
        let (instruction, behind) = rest.split_at(count);
        if op == OP_ENTRY_POINT && count > 3 && instruction[1] == MODEL_COMPUTE {
            let text: Vec<u8> = instruction[3..]
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect();
            let name = text.split(|byte| *byte == 0).next().unwrap_or_default();
            names.push(String::from_utf8_lossy(name).into_owned());
        }
        rest = behind;
    }
    let name = match names.iter().find(|name| *name == kernel) {
        Some(name) => name,
        None => match names.as_slice() {
            [] => return Err("the module has no entry point for compute".to_owned()),
            [only] => only,
            several => {
                return Err(format!(
                    "no entry point has the name of the kernel; the module has {}",
                    several.join(", ")
                ));
            }
        },
    };
    CString::new(name.as_str())
        .map_err(|_| "the entry point's name contains a zero byte".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_entry(names: &[&str]) -> Vec<u32> {
        let mut words = vec![MAGIC, 0x0001_0500, 0, 1, 0];
        for name in names {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(bytes.len() / 4 * 4 + 4, 0);
            let text: Vec<u32> = bytes
                .chunks(4)
                .map(|c| u32::from_le_bytes(c.try_into().unwrap_or_default()))
                .collect();
            words.push(((3 + text.len()) as u32) << 16 | OP_ENTRY_POINT);
            words.extend([MODEL_COMPUTE, 1]);
            words.extend(text);
        }
        words
    }

    #[test]
    fn entry_point_is_that_of_the_kernel_or_the_only_one() {
        assert_eq!(
            entry_point(&with_entry(&["main"]), "k"),
            Ok(c"main".to_owned())
        );
        assert_eq!(
            entry_point(&with_entry(&["a", "k"]), "k"),
            Ok(c"k".to_owned())
        );
    }

    #[test]
    fn broken_modules_are_errors_that_say_why() {
        let error = |words: &[u32]| entry_point(words, "k").unwrap_err();
        assert!(error(&[]).contains("not SPIR-V"));
        assert!(error(&[MAGIC.swap_bytes(), 0, 0, 0, 0]).contains("byte order"));
        let mut cut = with_entry(&["main"]);
        cut.pop();
        assert_eq!(error(&cut), "the module is truncated at word 5");
        assert!(error(&with_entry(&[])).contains("no entry point"));
        assert!(error(&with_entry(&["a", "b"])).contains("a, b"));
    }
}
