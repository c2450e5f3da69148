//! The texts of errors that name a call, in C's names. The texts of the runtime name calls of Rust.

use millstream::{
    Error,
    error::{ArgumentError, ArgumentErrorKind, Full, KernelError, MemoryError, ReopenError},
    journal::ReplayError,
};

/// Returns the text of an error.
pub(crate) fn text_of(error: &Error) -> String {
    // In place of the advice after the last semicolon.
    let advice = match error {
        Error::Argument(why) => return text_of_argument(why),
        Error::Taken => {
            let text =
                "the answer of this request was already taken by a wait, a poll or a callback";
            return text.to_owned();
        }
        Error::Busy {
            what: what @ Full::Memory { .. },
        } => {
            return format!("{what}; destroy buffers with `ms_buffer_destroy`, or try again later");
        }
        Error::WouldDeadlock => "use `ms_pending_poll` or `ms_pending_on_ready` on this thread",
        Error::NoLog => "open the device with `log_submissions` of `ms_device_options`",
        Error::Memory(MemoryError::Host { .. }) => "read it in parts with `ms_buffer_slice`",
        Error::Memory(MemoryError::TooLarge { .. }) => "use several buffers",
        Error::Memory(MemoryError::Limit { .. }) => {
            "destroy buffers with `ms_buffer_destroy`, or set a larger `hard_limit` or `MS_AT_LIMIT_WAIT` in \
             `ms_client_options`"
        }
        Error::Memory(MemoryError::AboveLimit { .. }) => {
            "create a smaller buffer, or set a larger `hard_limit` in `ms_client_options`"
        }
        Error::Kernel(KernelError::Feature { .. }) => "use another kernel without it",
        _ => return error.to_string(),
    };
    let text = error.to_string();
    let what = text.rsplit_once("; ").map_or(&*text, |(what, _)| what);
    format!("{what}; {advice}")
}

/// Returns the text of an error of arguments.
pub(crate) fn text_of_argument(error: &ArgumentError) -> String {
    // What it says in Rust's names, and the same in C's.
    let advice: &[[&str; 2]] = match error.kind {
        ArgumentErrorKind::Access => &[
            ["pass `read(&handle)`", "pass it with `ms_arg_read`"],
            ["pass `write(&handle)`", "pass it with `ms_arg_write`"],
            ["pass `update(&handle)`", "pass it with `ms_arg_update`"],
        ],
        ArgumentErrorKind::Count => &[[
            "a dynamic cube count must be 3 `u32` (x, y, z), got a handle of",
            "an indirect count of cubes must be a buffer of 3 `uint32_t` (x, y, z), got",
        ]],
        ArgumentErrorKind::Parameter => &[
            [
                "the handle to bind to: bind to a handle that `Recorder::parameter` returned",
                "the buffer to bind to: use one that `ms_recorder_parameter` gave",
            ],
            ["; bind a handle to it", "; pass an `ms_rebind` for it"],
            [
                "set one with `ReplayArgs::set`",
                "pass an `ms_rescalar` for it",
            ],
        ],
        _ => &[],
    };
    let mut text = error.to_string();
    for [rust, c] in advice {
        // The last place: before it come the caller's names, which may have any text.
        if let Some(start) = text.rfind(rust) {
            text.replace_range(start..start + rust.len(), c);
        }
    }
    text
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
