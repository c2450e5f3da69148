//! The loader, an instance, and the messages of validation layers.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::sync::{Arc, OnceLock};

use ash::{ext, vk};
use millstream_protocol::OpenError;
use millstream_sync::facade::{Mutex, MutexGuard, lock};

use super::{Code, VERSION_MIN, unavailable, version_text};

/// The severity of a message of the driver or of a validation layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Severity {
    /// Something that may be a mistake, or is slow.
    Warning,
    /// A violation of Vulkan's rules.
    Error,
}

/// A message of the driver or of a validation layer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Message {
    /// The severity.
    pub severity: Severity,
    /// The identifier of the violated rule, such as `VUID-vkCmdDispatch-None-08114`; empty if there is none.
    pub id: String,
    /// The text.
    pub text: String,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}: {}", self.severity, self.id, self.text)
    }
}

/// A function that receives the messages of validation layers, on any thread.
pub(crate) type MessageHandler = Arc<dyn Fn(&Message) + Send + Sync>;

/// What Khronos' validation layer checks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[non_exhaustive]
pub enum Validation {
    /// Nothing; the layer is not loaded.
    #[default]
    Off,
    /// The arguments and the order of calls.
    Core,
    /// Also missing barriers and waits between commands, and best practices. The layer cannot see accesses through
    /// buffer addresses: [`Vulkan::descriptors`](crate::Vulkan::descriptors) makes them visible.
    Synchronization,
}

const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// An instance, destroyed on drop.
pub(crate) struct Instance {
    pub(crate) raw: ash::Instance,
    /// The version that both the instance and this crate support.
    pub(crate) version: u32,
    /// Passes messages to the handler.
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    /// The driver has a pointer to it until the instance is destroyed.
    handler: Option<Box<MessageHandler>>,
    /// Whether the instance belongs to the application.
    pub(super) is_adopted: bool,
}

static LOADER: OnceLock<Option<ash::Entry>> = OnceLock::new();

/// Replaces the system's loader in this process, for tests that intercept the driver's functions. Has no effect after
/// the first use of the loader.
///
/// # Safety
/// `get` returns functions that behave as those of a Vulkan loader.
#[doc(hidden)]
pub unsafe fn use_loader(get: vk::PFN_vkGetInstanceProcAddr) {
    let functions = ash::StaticFn {
        get_instance_proc_addr: get,
    };
    // SAFETY: as the caller guarantees.
    LOADER.get_or_init(|| Some(unsafe { ash::Entry::from_static_fn(functions) }));
}

/// Returns the loader. It is loaded once and stays loaded, because drivers do not all support being unloaded.
pub(super) fn loader() -> Result<&'static ash::Entry, OpenError> {
    // SAFETY: the initializers of the Vulkan loader may run in any process.
    let loaded = LOADER.get_or_init(|| unsafe { ash::Entry::load() }.ok());
    loaded.as_ref().ok_or_else(|| {
        unavailable(
            "the Vulkan loader (libvulkan.so.1, vulkan-1.dll) was not found; install it with a driver, on Debian \
             `libvulkan1` and `mesa-vulkan-drivers`",
        )
    })
}

/// Serializes the calls that change the loader's lists of instances, drivers and devices. The loader looks devices up in
/// these lists without a lock, so that opening a device while another thread enumerates or closes devices would crash
/// (seen with the loader 1.4.309).
static CHANGES: Mutex<()> = Mutex::new(());

/// Waits for the turn to create or destroy an instance or a device, or to enumerate devices.
pub(crate) fn change() -> MutexGuard<'static, ()> {
    lock(&CHANGES)
}

impl Instance {
    /// Creates an instance.
    pub(crate) fn new(
        validation: Validation,
        handler: Option<MessageHandler>,
    ) -> Result<Self, OpenError> {
        let entry = loader()?;
        let version = version_of(entry)?;
        if version < VERSION_MIN {
            return Err(unavailable(format!(
                "the Vulkan loader supports version {}, at least {} is needed; update it",
                version_text(version),
                version_text(VERSION_MIN)
            )));
        }
        // Devices limit the version further; nothing of 1.4 is used.
        let version = version.min(vk::API_VERSION_1_3);
        let application = vk::ApplicationInfo::default()
            .engine_name(c"millstream")
            .api_version(version);
        let (mut layers, mut extensions) = (Vec::new(), Vec::new());
        if validation > Validation::Off {
            require_layer(entry)?;
            layers.push(LAYER.as_ptr());
            extensions.push(ext::debug_utils::NAME.as_ptr());
        }
        let takes_settings = validation == Validation::Synchronization && takes_settings(entry)?;
        if takes_settings {
            extensions.push(ext::layer_settings::NAME.as_ptr());
        }
        let enabled = [
            vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION,
            vk::ValidationFeatureEnableEXT::BEST_PRACTICES,
        ];
        let mut features =
            vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
        let settings = [see_shader_accesses()];
        let mut settings = vk::LayerSettingsCreateInfoEXT::default().settings(&settings);
        let mut info = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_layer_names(&layers)
            .enabled_extension_names(&extensions);
        if validation == Validation::Synchronization {
            info = info.push_next(&mut features);
        }
        if takes_settings {
            info = info.push_next(&mut settings);
        }
        let handler = (validation > Validation::Off)
            .then(|| Box::new(handler.unwrap_or_else(|| Arc::new(log))));
        let mut during = handler.as_deref().map(messenger_info);
        if let Some(during) = &mut during {
            // For messages during the creation and the destruction of the instance.
            info = info.push_next(during);
        }
        let turn = change();
        // SAFETY: everything that `info` points to lives until the call returns.
        let created = unsafe { entry.create_instance(&info, None) };
        drop(turn);
        let raw = created.map_err(Code::of("vkCreateInstance"))?;
        let mut instance = Self {
            raw,
            version,
            messenger: None,
            handler: None,
            is_adopted: false,
        };
        if let Some(handler) = handler {
            let functions = ext::debug_utils::Instance::new(entry, &instance.raw);
            let info = messenger_info(instance.handler.insert(handler));
            // SAFETY: the handler lives until the messenger is destroyed.
            let created = unsafe { functions.create_debug_utils_messenger(&info, None) };
            let raw = created.map_err(Code::of("vkCreateDebugUtilsMessengerEXT"))?;
            instance.messenger = Some((functions, raw));
        }
        Ok(instance)
    }
}

fn version_of(entry: &ash::Entry) -> Result<u32, Code> {
    // SAFETY: the loader is loaded.
    let version = unsafe { entry.try_enumerate_instance_version() };
    let version = version.map_err(Code::of("vkEnumerateInstanceVersion"))?;
    Ok(version.unwrap_or(vk::API_VERSION_1_0))
}

/// Returns the version of Vulkan that the loader supports, such as `1.4.309`.
///
/// # Errors
/// [`OpenError::Unavailable`]: the loader is missing.
pub fn loader_version() -> Result<String, OpenError> {
    let version = version_of(loader()?)?;
    let patch = vk::api_version_patch(version);
    Ok(format!("{}.{patch}", version_text(version)))
}

impl Instance {
    /// Returns the instance of an application. Its version does not matter: the functions of its device are looked up.
    pub(crate) fn adopt(raw: ash::Instance) -> Self {
        Self {
            raw,
            version: vk::API_VERSION_1_3,
            messenger: None,
            handler: None,
            is_adopted: true,
        }
    }

    /// Returns `true` if the validation layer is installed.
    pub(crate) fn has_validation() -> bool {
        loader().and_then(require_layer).is_ok()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if self.is_adopted {
            return;
        }
        let _turn = change();
        // SAFETY: created once, destroyed once; everything created from the instance was destroyed before.
        unsafe {
            if let Some((functions, raw)) = &self.messenger {
                functions.destroy_debug_utils_messenger(*raw, None);
            }
            self.raw.destroy_instance(None);
        }
    }
}

/// Returns an error if the validation layer is not installed.
fn require_layer(entry: &ash::Entry) -> Result<(), OpenError> {
    // SAFETY: the loader is loaded.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }
        .map_err(Code::of("vkEnumerateInstanceLayerProperties"))?;
    let is_layer = |layer: &vk::LayerProperties| layer.layer_name_as_c_str() == Ok(LAYER);
    match layers.iter().any(is_layer) {
        true => Ok(()),
        false => Err(unavailable(
            "the validation layer is not installed; install it (on Debian `vulkan-validationlayers`), or open the \
             device without validation",
        )),
    }
}

/// Returns `true` if the validation layer has settings. Layers without them see all accesses that they know.
fn takes_settings(entry: &ash::Entry) -> Result<bool, OpenError> {
    // SAFETY: the loader is loaded.
    let extensions = unsafe { entry.enumerate_instance_extension_properties(Some(LAYER)) }
        .map_err(Code::of("vkEnumerateInstanceExtensionProperties"))?;
    let has = |extension: &vk::ExtensionProperties| {
        extension.extension_name_as_c_str() == Ok(ext::layer_settings::NAME)
    };
    Ok(extensions.iter().any(has))
}

/// The setting that makes synchronization validation see what shaders access through descriptors. With it the layer
/// assumes that a shader accesses the whole range of a descriptor. It is off by default (1.4.309).
fn see_shader_accesses() -> vk::LayerSettingEXT<'static> {
    static TRUE: vk::Bool32 = vk::TRUE;
    vk::LayerSettingEXT {
        value_count: 1,
        p_values: (&raw const TRUE).cast(),
        ..vk::LayerSettingEXT::default()
            .layer_name(LAYER)
            .setting_name(c"syncval_shader_accesses_heuristic")
            .ty(vk::LayerSettingTypeEXT::BOOL32)
    }
}

/// Returns the options of a messenger that calls the handler.
fn messenger_info(handler: &MessageHandler) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    use vk::DebugUtilsMessageSeverityFlagsEXT as Level;
    use vk::DebugUtilsMessageTypeFlagsEXT as Kind;
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(Level::ERROR | Level::WARNING)
        .message_type(Kind::GENERAL | Kind::VALIDATION | Kind::PERFORMANCE)
        .pfn_user_callback(Some(receive))
        .user_data((&raw const *handler).cast_mut().cast())
}

/// Returns `true` if the layer only advises against what this crate does for a reason: it enables the extension that
/// passes messages on, and one whose successor the device lacks; a replay may begin while an earlier one of the same
/// recording is in flight; and small buffers, which are few, have memory of their own.
fn is_expected(message: &Message) -> bool {
    let subject = match message.id.as_str() {
        "BestPractices-specialuse-extension" => "VK_EXT_debug_utils",
        "BestPractices-deprecated-extension" => "VK_EXT_calibrated_timestamps",
        "BestPractices-vkBeginCommandBuffer-simultaneous-use" => "SIMULTANEOUS_USE",
        "BestPractices-vkAllocateMemory-small-allocation" => "vkAllocateMemory",
        "BestPractices-vkBindBufferMemory-small-dedicated-allocation" => "vkBindBufferMemory",
        _ => return false,
    };
    message.text.contains(subject)
}

/// The handler if the user passes none.
fn log(message: &Message) {
    match message.severity {
        Severity::Error => {
            tracing::error!(target: "millstream::vulkan", id = message.id, "{}", message.text);
        }
        Severity::Warning => {
            tracing::warn!(target: "millstream::vulkan", id = message.id, "{}", message.text);
        }
    }
}

/// Receives a message from the loader.
unsafe extern "system" fn receive(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the loader passes valid data, and the pointer that `messenger_info` registered.
    let (data, handler) = unsafe { (&*data, &*user.cast::<MessageHandler>()) };
    let text = |pointer: *const std::ffi::c_char| match pointer.is_null() {
        true => String::new(),
        // SAFETY: a string of the loader, terminated by zero.
        false => unsafe { CStr::from_ptr(pointer) }
            .to_string_lossy()
            .into_owned(),
    };
    let message = Message {
        severity: match severity.contains(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR) {
            true => Severity::Error,
            false => Severity::Warning,
        },
        id: text(data.p_message_id_name),
        text: text(data.p_message),
    };
    if is_expected(&message) {
        return vk::FALSE;
    }
    // A panic must not unwind into the driver.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handler(&message)));
    vk::FALSE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_advice_against_what_this_crate_does_is_dropped() {
        let message = |id: &str, extension: &str| Message {
            severity: Severity::Warning,
            id: id.to_owned(),
            text: format!("vkCreateInstance(): Attempting to enable extension {extension}, but"),
        };
        let special = "BestPractices-specialuse-extension";
        assert!(is_expected(&message(special, "VK_EXT_debug_utils")));
        assert!(!is_expected(&message(special, "VK_EXT_transform_feedback")));
        assert!(!is_expected(&message("VUID-1", "VK_EXT_debug_utils")));
        let deprecated = "BestPractices-deprecated-extension";
        let clocks = "VK_EXT_calibrated_timestamps";
        assert!(is_expected(&message(deprecated, clocks)));
        assert!(!is_expected(&message(deprecated, "VK_EXT_debug_utils")));
        let several = "BestPractices-vkBeginCommandBuffer-simultaneous-use";
        assert!(is_expected(&message(
            several,
            "VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT"
        )));
    }
}
