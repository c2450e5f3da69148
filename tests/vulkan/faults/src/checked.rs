//! The options of a device whose messages of the validation layer a test collects, and whether there is a device.

use std::sync::{Arc, Mutex, PoisonError};

use millstream_vulkan::{Message, Validation, Vulkan, gpus};

/// Returns the reason why this machine has no device to test.
///
/// # Panics
/// If a device is required (`MILLSTREAM_VULKAN=required`).
pub fn unavailable() -> Option<String> {
    let reason = match gpus() {
        Ok(gpus) if gpus[0].lacks.is_empty() => return None,
        Ok(gpus) => format!("`{}` lacks {}", gpus[0].name, gpus[0].lacks.join(", ")),
        Err(error) => error.to_string(),
    };
    assert!(!is_required(), "{reason}");
    println!("skipped: {reason}");
    Some(reason)
}

fn is_required() -> bool {
    std::env::var("MILLSTREAM_VULKAN").is_ok_and(|value| value == "required")
}

/// The messages of the validation layer.
#[derive(Clone, Default)]
pub struct Checked {
    messages: Arc<Mutex<Vec<Message>>>,
    is_off: bool,
}

impl Checked {
    /// Returns one whose devices are opened without the layer, which is faster.
    pub fn without_layer() -> Self {
        Self {
            messages: Arc::default(),
            is_off: true,
        }
    }

    /// Returns the options of a device with `queues` queues, whose messages are collected if the layer is installed.
    pub fn options(&self, queues: usize) -> Vulkan {
        let options = Vulkan::ordinal(0).queues(queues);
        if self.is_off || !is_required() && !Vulkan::is_validation_installed() {
            return options;
        }
        let heard = self.messages.clone();
        options
            .validation(Validation::Synchronization)
            .on_message(move |message| {
                // Best practices: the layer advises against small allocations, which staging needs at the start.
                if !message.id.starts_with("BestPractices-") {
                    let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                    heard.push(message.clone());
                }
            })
    }

    /// Returns the messages so far, and forgets them.
    pub fn take(&self) -> Vec<String> {
        let mut heard = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        heard.drain(..).map(|message| message.to_string()).collect()
    }
}
