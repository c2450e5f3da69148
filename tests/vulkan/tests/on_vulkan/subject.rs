//! The device of a test, its kernels, and the checks by the validation layer.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use millstream::Kernel;
use millstream::vulkan::{Message, Validation, Vulkan, VulkanLaunch, VulkanResources, gpus};
use millstream_conformance::support::MetadataWords;
use millstream_conformance::{Abilities, Checks, Clock, Mode, Opening, Setting, Subject};

/// The first GPU of the machine.
pub(crate) struct OnVulkan;

/// Returns the reason why this machine has no device to test.
///
/// # Panics
/// If a device is required (`MILLSTREAM_VULKAN=required`).
pub(crate) fn unavailable() -> Option<&'static str> {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| match gpus() {
        Ok(gpus) => match gpus[0].lacks.as_slice() {
            [] => None,
            lacks => Some(format!("`{}` lacks {}", gpus[0].name, lacks.join(", "))),
        },
        Err(error) => Some(error.to_string()),
    });
    let reason = reason.as_deref()?;
    assert!(!is_required(), "{reason}");
    Some(reason)
}

/// Whether a missing driver is a failure.
fn is_required() -> bool {
    std::env::var("MILLSTREAM_VULKAN").is_ok_and(|value| value == "required")
}

/// Whether the validation layer is installed.
fn has_layer() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| is_required() || Vulkan::is_validation_installed())
}

/// Returns the options of the first GPU with this number of queues. Tests leave no files behind.
pub(crate) fn with_queues(queues: usize) -> Vulkan {
    Vulkan::ordinal(0).queues(queues).no_pipeline_cache()
}

/// The options of a device with as much validation as is installed. Kernels receive descriptors, so that the layer
/// sees their accesses.
pub(crate) fn checked(options: Vulkan) -> Opening<Vulkan> {
    let messages = Messages::default();
    if !has_layer() {
        return Opening::checked(options, messages);
    }
    let heard = messages.0.clone();
    let options = options.validation(Validation::Synchronization);
    let options = options.on_message(move |message| {
        if !ACCEPTED.contains(&message.id.as_str()) {
            lock(&heard).push(message.clone());
        }
    });
    Opening::checked(options, messages)
}

/// Advice that does not apply.
const ACCEPTED: &[&str] = &[
    // glslang writes it for SPIR-V 1.5, where it is not deprecated.
    "BestPractices-SpirvDeprecated_WorkgroupSize",
];

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The messages of the validation layer. Dropped after the device has closed: there must be none.
#[derive(Default)]
pub(crate) struct Messages(Arc<Mutex<Vec<Message>>>);

impl Checks for Messages {}

impl Drop for Messages {
    fn drop(&mut self) {
        let messages = std::mem::take(&mut *lock(&self.0));
        let all: Vec<String> = messages.iter().map(ToString::to_string).collect();
        if !std::thread::panicking() {
            assert!(all.is_empty(), "{}", all.join("\n"));
        }
    }
}

impl Subject for OnVulkan {
    type Kind = Vulkan;

    fn open(&self, setting: &Setting) -> Opening<Vulkan> {
        let queues = match setting.mode {
            Mode::OneQueue => 1,
            Mode::Threads | Mode::Driven => 2,
        };
        let options = with_queues(queues).descriptors(true);
        checked(match setting.memory_bytes {
            Some(bytes) => options.memory_limit(bytes),
            None => options,
        })
    }

    fn unavailable(&self) -> Option<&'static str> {
        unavailable()
    }

    fn abilities(&self, mode: Mode) -> Abilities {
        Abilities::default().with(|has| {
            has.rust_kernels = false;
            has.dynamic_launches_heal = false;
            has.holds_kernels = false;
            has.one_queue = mode == Mode::OneQueue;
            // A descriptor begins at an aligned place before the view. At most this on the GPUs of today.
            has.view_alignment = 64;
            has.clock = Clock::Device;
        })
    }

    fn twin(&self, kernel: Kernel) -> Kernel {
        let mut options = VulkanLaunch::default();
        if let Some(MetadataWords(words)) = kernel.extension() {
            options = options.metadata_words(*words);
        }
        match module(kernel.name()) {
            Some((module, descriptors)) => {
                kernel.spirv(module).with(options.descriptors(descriptors))
            }
            None => kernel,
        }
    }

    fn lacks_twin(&self, kernel: &str) -> bool {
        module(kernel).is_none()
    }

    fn read(&self, resources: &VulkanResources, index: usize) -> Vec<u32> {
        let Some((start, bytes)) = resources.host_pointer(index) else {
            return Vec::new();
        };
        // SAFETY: in a guard no task writes the memory.
        let words =
            unsafe { std::slice::from_raw_parts(start.as_ptr().cast::<u32>(), bytes as usize / 4) };
        words.to_vec()
    }

    fn change(
        &self,
        resources: &VulkanResources,
        index: usize,
        change: &mut dyn FnMut(&mut [u32]),
    ) {
        resources.finish().unwrap();
        match resources.host_pointer(index) {
            // SAFETY: all earlier tasks of the queue have completed, and later ones wait for this task.
            Some((start, bytes)) => change(unsafe {
                std::slice::from_raw_parts_mut(start.as_ptr().cast::<u32>(), bytes as usize / 4)
            }),
            None => change(&mut []),
        }
    }
}

/// Returns the SPIR-V of a kernel of the suite, and whether it has descriptors: glslang's output for the GLSL in
/// `kernels`. With descriptors the validation layer sees the accesses.
pub(crate) fn module(kernel: &str) -> Option<(Vec<u32>, bool)> {
    macro_rules! files {
        ($($name:literal),*; $long:literal) => {
            match kernel {
                $($name => (include_bytes!(concat!("../../kernels/descriptors/", $name, ".spv")).as_slice(), true),)*
                $long => (include_bytes!(concat!("../../kernels/addresses/", $long, ".spv")).as_slice(), false),
                _ => return None,
            }
        };
    }
    let (bytes, descriptors) = files!(
        "add", "add_one", "atomics", "count_cubes", "held", "held_reader", "mix", "places", "set", "sum", "transfer";
        "large"
    );
    let words = bytes.chunks_exact(4);
    let word = |word: &[u8]| u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    Some((words.map(word).collect(), descriptors))
}
