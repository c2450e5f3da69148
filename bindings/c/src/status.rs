//! Status codes, the text of the last error, and the entry that every function passes.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use millstream::backend::panic_message;
use millstream::{
    Error, Failure, OpenError, Reason,
    error::{ArgumentError, KernelError, MemoryError, ReopenError},
};

use crate::wording::{text_of, text_of_argument, text_of_reopen};

/// What a call answers. The codes tell apart what a caller handles differently; `ms_last_error` has the details.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ms_status {
    /// The call succeeded.
    Ok = 0,
    /// The answer has not arrived yet. Only `ms_pending_poll` returns this. It is not an error and sets no text.
    Pending = 1,
    /// There is no room now, or another thread is inside the object. Nothing was submitted: try again later.
    Busy = 2,
    /// The timeout elapsed. The request continues, so wait for it again.
    TimedOut = 3,
    /// An argument is wrong: a null pointer, an unknown value, a size, arguments that do not fit the kernel.
    InvalidArgument = 4,
    /// A handle is null, was destroyed, or is of another kind.
    InvalidHandle = 5,
    /// The host or the device has no memory, or the client's buffers leave no room for the call within its hard limit.
    OutOfMemory = 6,
    /// The device was closed.
    Closed = 7,
    /// The device was lost with its memory and all tasks in flight. `ms_device_reopen` may open it again.
    Lost = 8,
    /// A task failed, or a task that it depends on. The data that it would have written stays poisoned until it is
    /// overwritten.
    Failed = 9,
    /// A token withdrew the task, or one that it depends on, before it began.
    Cancelled = 10,
    /// The compiler rejected the kernel's source; the text has its messages.
    Compile = 11,
    /// The device or this build lacks something: a feature, a source that it understands, a compiler.
    Unsupported = 12,
    /// The backend cannot be opened on this machine; the text says what is missing.
    Unavailable = 13,
    /// The call would wait on a thread that the device needs: in a callback or a kernel.
    WouldDeadlock = 14,
    /// The answer was taken before, or was given to a callback.
    Taken = 15,
    /// The caller's memory is too small; the call reports the size that it needs.
    TooSmall = 16,
    /// The library panicked: a bug. The text has the message.
    Internal = 17,
    /// The deadline of the task, or of one that it depends on, passed before it began.
    DeadlinePassed = 18,
    /// The device was opened before this process was forked, and devices do not survive `fork`. Open it in the child.
    Forked = 19,
    /// The buffer is larger than the client's hard limit, or than the largest that the device allocates: no later call
    /// succeeds either.
    TooLarge = 20,
}

/// A failed call: its status and its text.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) status: ms_status,
    pub(crate) text: String,
}

pub(crate) type Answer<T> = Result<T, Fault>;

impl Fault {
    pub(crate) fn new(status: ms_status, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { status, text }
    }

    #[cold]
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(ms_status::InvalidArgument, text)
    }

    /// Keeps the text as the last error of this thread, and returns the status.
    #[cold]
    pub(crate) fn keep(self) -> ms_status {
        if self.status != ms_status::Pending {
            keep_text(self.text);
        }
        self.status
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

fn keep_text(text: String) {
    let text = c_text(text);
    // A thread that is ending has no last error any more.
    let _ = LAST_ERROR.try_with(|last| last.replace(text));
}

/// Returns a text for C, without the NULs that it may have.
pub(crate) fn c_text(mut text: String) -> CString {
    text.retain(|character| character != '\0');
    CString::new(text).unwrap_or_default()
}

/// Returns the text of the last error of a call on this thread, in UTF-8; empty if there was none. The next call that
/// fails on this thread ends its lifetime. Successful calls leave it as it is.
#[unsafe(no_mangle)]
pub extern "C" fn ms_last_error() -> *const c_char {
    LAST_ERROR
        .try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

/// Returns the version of the library, such as `0.1.0`. The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn ms_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Returns the name of a status, such as `MS_STATUS_BUSY`. The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn ms_status_name(status: i32) -> *const c_char {
    let names = [
        c"MS_STATUS_OK",
        c"MS_STATUS_PENDING",
        c"MS_STATUS_BUSY",
        c"MS_STATUS_TIMED_OUT",
        c"MS_STATUS_INVALID_ARGUMENT",
        c"MS_STATUS_INVALID_HANDLE",
        c"MS_STATUS_OUT_OF_MEMORY",
        c"MS_STATUS_CLOSED",
        c"MS_STATUS_LOST",
        c"MS_STATUS_FAILED",
        c"MS_STATUS_CANCELLED",
        c"MS_STATUS_COMPILE",
        c"MS_STATUS_UNSUPPORTED",
        c"MS_STATUS_UNAVAILABLE",
        c"MS_STATUS_WOULD_DEADLOCK",
        c"MS_STATUS_TAKEN",
        c"MS_STATUS_TOO_SMALL",
        c"MS_STATUS_INTERNAL",
        c"MS_STATUS_DEADLINE_PASSED",
        c"MS_STATUS_FORKED",
        c"MS_STATUS_TOO_LARGE",
    ];
    let name = usize::try_from(status)
        .ok()
        .and_then(|index| names.get(index));
    name.map_or(c"an unknown status".as_ptr(), |name| name.as_ptr())
}

/// Returns with `INVALID_ARGUMENT` and a text unless a condition holds.
macro_rules! ensure {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(crate::status::Fault::argument(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;

/// Defines functions of C that answer a status. The body returns an [`Answer`] and runs inside [`entry`].
///
/// `bindings/c/header` writes the same functions for cbindgen, which expands no macro.
macro_rules! exports {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, reason = "some bodies need none")]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> crate::status::ms_status {
            // SAFETY: the caller keeps the rules of the header.
            crate::status::entry(|| unsafe { $body })
        }
    )*};
}
pub(crate) use exports;

/// Runs the body of a function: turns an error and a panic into a status, and keeps the text.
#[inline(always)]
pub(crate) fn entry(body: impl FnOnce() -> Answer<()>) -> ms_status {
    // Unwind safety: a panic is a bug of this library. Locks that it poisoned are taken regardless, and the objects of
    // `millstream` stay usable after a panic in a call.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => ms_status::Ok,
        Ok(Err(fault)) => fault.keep(),
        Err(payload) => Fault::new(ms_status::Internal, panic_message(payload)).keep(),
    }
}

/// Writes a result to the caller's memory.
///
/// # Safety
/// `out` is NULL or may be written.
pub(crate) unsafe fn write<T>(out: *mut T, value: T) -> Answer<()> {
    ensure!(!out.is_null(), "the pointer for the result is NULL");
    // SAFETY: the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

impl From<Error> for Fault {
    #[cold]
    fn from(error: Error) -> Self {
        Self::new(status_of(&error), text_of(&error))
    }
}

impl From<ArgumentError> for Fault {
    #[cold]
    fn from(error: ArgumentError) -> Self {
        Self::argument(text_of_argument(&error))
    }
}

impl From<OpenError> for Fault {
    fn from(error: OpenError) -> Self {
        Self::from(Error::Open(error))
    }
}

impl From<ReopenError> for Fault {
    fn from(error: ReopenError) -> Self {
        let status = match &error {
            ReopenError::WouldDeadlock => ms_status::WouldDeadlock,
            ReopenError::Open(open) => status_of_open(open),
            ReopenError::NotLost { .. } => ms_status::InvalidArgument,
            _ => ms_status::Unavailable,
        };
        Self::new(status, text_of_reopen(&error))
    }
}

fn status_of(error: &Error) -> ms_status {
    match error {
        Error::Failed(failure) => status_of_failure(failure),
        Error::Open(error) => status_of_open(error),
        Error::Memory(MemoryError::AboveLimit { .. } | MemoryError::TooLarge { .. }) => {
            ms_status::TooLarge
        }
        Error::Memory(_) => ms_status::OutOfMemory,
        Error::Kernel(KernelError::Compile { .. }) => ms_status::Compile,
        Error::Kernel(KernelError::Lost { .. }) | Error::DeviceLost { .. } => ms_status::Lost,
        Error::Kernel(_) | Error::WrongBackend { .. } | Error::NoLog => ms_status::Unsupported,
        Error::Busy { .. } | Error::NoRoomHere { .. } => ms_status::Busy,
        Error::Closed => ms_status::Closed,
        Error::Forked => ms_status::Forked,
        Error::WouldDeadlock => ms_status::WouldDeadlock,
        Error::Taken => ms_status::Taken,
        Error::TimedOut { .. } => ms_status::TimedOut,
        _ => ms_status::InvalidArgument,
    }
}

fn status_of_open(error: &OpenError) -> ms_status {
    match error {
        OpenError::Option { .. } => ms_status::InvalidArgument,
        _ => ms_status::Unavailable,
    }
}

fn status_of_failure(failure: &Failure) -> ms_status {
    match failure.root().reason {
        Reason::OutOfMemory { .. } => ms_status::OutOfMemory,
        Reason::Cancelled => ms_status::Cancelled,
        Reason::DeadlinePassed => ms_status::DeadlinePassed,
        Reason::Lost => ms_status::Lost,
        Reason::Closed => ms_status::Closed,
        _ => ms_status::Failed,
    }
}
