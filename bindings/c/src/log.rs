//! The log callback: what the runtime reports by `tracing`, for a function in C.

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::sized::User;
use crate::status::{Answer, Fault, c_text, ensure, exports, ms_status};

/// How much a message matters.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ms_log_level {
    /// Something failed.
    Error = 1,
    /// Something is probably wrong.
    Warn = 2,
    /// Rare events.
    Info = 3,
    /// Each event.
    Debug = 4,
    /// Each step.
    Trace = 5,
}

/// Receives a message of the log: its subject, such as `millstream::memory`, and its text, in UTF-8. Both are valid until
/// it returns. It is called on any thread, also on several at once and on the device's own, so it must be quick and must
/// not call this library, nor throw.
pub type ms_log_fn = Option<
    unsafe extern "C" fn(
        level: ms_log_level,
        subject: *const c_char,
        text: *const c_char,
        user: *mut c_void,
    ),
>;

type LogFn = unsafe extern "C" fn(ms_log_level, *const c_char, *const c_char, *mut c_void);

static TARGET: RwLock<Option<(LogFn, User)>> = RwLock::new(None);
/// The most verbose level that is reported: an `ms_log_level`, or 0.
static LEVEL: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Whether this thread runs the log function.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

exports! {
    /// Sets the function that receives the log of all devices of this process, up to `level`, an `ms_log_level`. NULL
    /// ends the log. When this returns, no thread runs the previous function any more, and its `user` may be freed.
    ///
    /// Errors: `WOULD_DEADLOCK` inside the function; `UNSUPPORTED` if the process has a subscriber of Rust's `tracing`.
    fn ms_set_log(function: ms_log_fn, level: u32, user: *mut c_void) {
        if INSIDE.get() {
            let text = "the log function cannot be replaced while this thread runs it";
            return Err(Fault::new(ms_status::WouldDeadlock, text));
        }
        let is_known = function.is_none() || (1..=5).contains(&level);
        ensure!(is_known, "`level` must be an `ms_log_level`, got {level}");
        install()?;
        let level = if function.is_some() { level } else { 0 };
        let mut target = TARGET.write().unwrap_or_else(PoisonError::into_inner);
        *target = function.map(|function| (function, User(user)));
        LEVEL.store(level, Ordering::Relaxed);
        drop(target);
        tracing::callsite::rebuild_interest_cache();
        Ok(())
    }
}

fn install() -> Answer<()> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    let install = || tracing::subscriber::set_global_default(ToFunction).is_ok();
    match INSTALLED.get_or_init(install) {
        true => Ok(()),
        false => {
            let text = "this process has another `tracing` subscriber, which receives the log";
            Err(Fault::new(ms_status::Unsupported, text))
        }
    }
}

/// Passes events to the function. Spans are not reported.
struct ToFunction;

impl Subscriber for ToFunction {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && level_of(metadata) as u32 <= LEVEL.load(Ordering::Relaxed)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match LEVEL.load(Ordering::Relaxed) {
            0 => LevelFilter::OFF,
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        // A message from inside the function would need the lock that it holds.
        if INSIDE.get() {
            return;
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        let subject = c_text(event.metadata().target().to_owned());
        let (text, level) = (c_text(text.0), level_of(event.metadata()));
        let target = TARGET.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((function, user)) = *target {
            INSIDE.set(true);
            // SAFETY: the caller's function, which `ms_set_log` does not replace before the lock is free.
            unsafe { function(level, subject.as_ptr(), text.as_ptr(), user.0) };
            INSIDE.set(false);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn level_of(metadata: &Metadata<'_>) -> ms_log_level {
    match *metadata.level() {
        Level::ERROR => ms_log_level::Error,
        Level::WARN => ms_log_level::Warn,
        Level::INFO => ms_log_level::Info,
        Level::DEBUG => ms_log_level::Debug,
        Level::TRACE => ms_log_level::Trace,
    }
}

/// The message, and then the fields as `name=value`.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => {
                let rest = std::mem::take(&mut self.0);
                write!(self.0, "{value:?}{rest}")
            }
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
