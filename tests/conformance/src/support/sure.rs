//! Calls that must succeed, and the parts of errors that tests compare.

use std::fmt::Debug;

use millstream::error::{ArgumentErrorKind, Full, MemoryError};
use millstream::{ComputeClient, Device, Element, Error, Handle, Reason, Stream};

/// Calls of a stream whose error fails the test.
pub trait Sure {
    /// Makes a slice with these elements.
    fn put<T: Element>(&self, elements: &[T]) -> Handle<T>;

    /// Waits for the elements of a handle.
    fn get<T: Element>(&self, handle: &Handle<T>) -> Vec<T>;

    /// Waits for a read, which must fail, and returns its message.
    fn failure<T: Element + Debug>(&self, handle: &Handle<T>) -> String;
}

impl Sure for Stream {
    #[track_caller]
    fn put<T: Element>(&self, elements: &[T]) -> Handle<T> {
        self.create(elements).unwrap()
    }

    #[track_caller]
    fn get<T: Element>(&self, handle: &Handle<T>) -> Vec<T> {
        self.read(handle).wait().unwrap()
    }

    #[track_caller]
    fn failure<T: Element + Debug>(&self, handle: &Handle<T>) -> String {
        error_text(self.read(handle).wait())
    }
}

/// Waits for all tasks.
pub trait Drain {
    /// Waits for the tasks so far.
    fn drain(&self);
}

impl Drain for Stream {
    #[track_caller]
    fn drain(&self) {
        self.sync().wait().unwrap();
    }
}

impl Drain for ComputeClient {
    #[track_caller]
    fn drain(&self) {
        self.sync().wait().unwrap();
    }
}

impl Drain for Device {
    #[track_caller]
    fn drain(&self) {
        self.sync().wait().unwrap();
    }
}

/// Returns the message of an error.
#[track_caller]
pub fn error_text<T: Debug>(answer: Result<T, Error>) -> String {
    answer.unwrap_err().to_string()
}

/// Returns the limit in a `Busy` error.
#[track_caller]
pub fn full<T: Debug>(answer: Result<T, impl Into<Error>>) -> Full {
    match answer.map_err(Into::into).unwrap_err() {
        Error::Busy { what } => what,
        error => panic!("{error}"),
    }
}

/// Returns the limit in a `NoRoomHere` error.
pub fn no_room(error: &Error) -> Option<Full> {
    match error {
        Error::NoRoomHere { what } => Some(*what),
        _ => None,
    }
}

/// Returns what is wrong with the arguments of a call.
#[track_caller]
pub fn misfit<T: Debug>(answer: Result<T, impl Into<Error>>) -> ArgumentErrorKind {
    match answer.map_err(Into::into).unwrap_err() {
        Error::Argument(why) => why.kind,
        error => panic!("{error}"),
    }
}

/// Returns the root reason of a failure of data.
#[track_caller]
pub fn reason(error: &Error) -> &Reason {
    let failure = error.failure();
    &failure
        .expect("the error is a failure of data")
        .root()
        .reason
}

/// Asserts that a call of a closed device has returned that.
#[track_caller]
pub fn assert_closed<T>(answer: Result<T, impl Into<Error>>) {
    let error = answer.map_err(Into::into).err();
    assert!(matches!(error, Some(Error::Closed)), "{error:?}");
}

/// Makes empty slices until live handles fill the slot table of the device.
pub fn fill_table(stream: &Stream) -> Vec<Handle<u8>> {
    let mut kept = Vec::new();
    loop {
        match stream.empty(0) {
            Ok(handle) => kept.push(handle),
            Err(Error::Memory(MemoryError::TooManyHandles { .. })) => return kept,
            Err(error) => panic!("{error}"),
        }
    }
}
