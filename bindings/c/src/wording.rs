//! The texts of errors that name a call, in C's names. The texts of the runtime name calls of Rust.

use std::fmt::Write;

use millstream::{
    Error,
    error::{ArgumentError, Full, KernelError, MemoryError, ReopenError},
    journal::ReplayError,
};

/// Returns the text of an error.
pub(crate) fn text_of(error: &Error) -> String {
    match error {
        Error::Argument(why) => text_of_argument(why),
        Error::WouldDeadlock => {
            "this call would block a thread that the runtime needs; use `ms_pending_poll` or `ms_pending_on_ready` on \
             this thread"
                .to_owned()
        }
        Error::NoLog => {
            "the submission log of this device is disabled; open the device with `log_submissions` of \
             `ms_device_options`"
                .to_owned()
        }
        Error::Taken => {
            "the answer of this request was already taken by a wait, a poll or a callback".to_owned()
        }
        Error::Memory(MemoryError::Host { .. }) => {
            replace_hint(error, "read it in parts with `ms_buffer_slice`")
        }
        Error::Memory(MemoryError::TooLarge { .. }) => replace_hint(error, "use several buffers"),
        Error::Memory(MemoryError::Limit { .. }) => replace_hint(
            error,
            "destroy buffers with `ms_buffer_destroy`, or set a larger `hard_limit` or `MS_AT_LIMIT_WAIT` in \
             `ms_client_options`",
        ),
        Error::Memory(MemoryError::AboveLimit { .. }) => replace_hint(
            error,
            "create a smaller buffer, or set a larger `hard_limit` in `ms_client_options`",
        ),
        Error::Busy {
            what: what @ Full::Memory { .. },
        } => format!("{what}; destroy buffers with `ms_buffer_destroy`, or try again later"),
        Error::Kernel(KernelError::Feature { .. }) => {
            replace_hint(error, "use another kernel without it")
        }
        _ => error.to_string(),
    }
}

/// Returns the text of an error with another hint after its semicolon.
fn replace_hint(error: &Error, hint: &str) -> String {
    let mut text = error.to_string();
    text.truncate(text.rfind("; ").unwrap_or(text.len()));
    // Writing to a string cannot fail.
    let _ = write!(text, "; {hint}");
    text
}

/// What errors of arguments advise, and the same in C's names.
const ADVICE: [(&str, &str); 9] = [
    ("pass `read(&handle)`", "pass it with `ms_arg_read`"),
    ("pass `write(&handle)`", "pass it with `ms_arg_write`"),
    ("pass `update(&handle)`", "pass it with `ms_arg_update`"),
    ("dynamic cube count", "indirect count of cubes"),
    ("must be 3 `u32`", "must be a buffer of 3 `uint32_t`"),
    (
        "the handle to bind to: bind to a handle that `Recorder::parameter` returned",
        "the buffer to bind to: use one that `ms_recorder_parameter` gave",
    ),
    ("; bind a handle to it", "; pass an `ms_rebind` for it"),
    (
        "set one with `ReplayArgs::set`",
        "pass an `ms_rescalar` for it",
    ),
    ("`Recorder::scalar` returned", "`ms_recorder_scalar` gave"),
];

/// Returns the text of an error of arguments.
pub(crate) fn text_of_argument(error: &ArgumentError) -> String {
    let advice = ADVICE.iter();
    advice.fold(error.to_string(), |text, (rust, c)| text.replace(rust, c))
}

/// Returns the text of an error of a reopening.
pub(crate) fn text_of_reopen(error: &ReopenError) -> String {
    match error {
        ReopenError::Options { backend } => {
            format!("what `{backend}` was opened with can be used only once; open another device")
        }
        _ => error.to_string(),
    }
}

/// Returns the text of an error of a resubmission.
pub(crate) fn text_of_replay(error: &ReplayError) -> String {
    match error {
        ReplayError::Refused { entry, error } => {
            format!("entry {entry} of the log was refused: {}", text_of(error))
        }
        ReplayError::Cut { part } => format!(
            "part {part} of the log is cut off because the log was full, so a replay would run its beginning only; \
             increase `log_submissions` or take the log more often, or call `ms_submission_log_accept_cut` to replay the \
             beginning"
        ),
        _ => error.to_string(),
    }
}
