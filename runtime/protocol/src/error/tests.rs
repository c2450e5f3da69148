//! The `Display` texts of errors, and their `source()` chains.

use std::error::Error as _;

use super::*;
use crate::failure::{Failure, Reason};
use crate::health::Recovery;

fn every_argument_error() -> [ArgumentError; 7] {
    [
        ArgumentError::new(ArgumentErrorKind::Access, "why"),
        ArgumentError::count("binding", 2, 1),
        ArgumentError::overlap("x", "y", 4),
        ArgumentError::out_of_bounds(0, 9, 8),
        ArgumentError::lengths(1, 2),
        ArgumentError::ranks(2, 1),
        ArgumentError::size_overflow(9, 8),
    ]
}

fn every_memory_error() -> [MemoryError; 5] {
    [
        MemoryError::Limit {
            client: "c".into(),
            requested: 3,
            in_use: 2,
            limit: 4,
        },
        MemoryError::AboveLimit {
            client: "c".into(),
            requested: 5,
            limit: 4,
        },
        MemoryError::TooLarge {
            client: "c".into(),
            requested: 9,
            limit: 8,
        },
        MemoryError::Host { requested: 9 },
        MemoryError::TooManyHandles { limit: 8 },
    ]
}

fn every_kernel_error() -> [KernelError; 4] {
    let kernel = || -> Arc<str> { "k".into() };
    [
        KernelError::NoSource {
            kernel: kernel(),
            backend: "cpu",
            available: "PTX".into(),
            taken: "native".into(),
        },
        KernelError::Feature {
            kernel: kernel(),
            feature: Feature::TensorMaps,
        },
        KernelError::Compile {
            kernel: kernel(),
            log: "line 3".into(),
        },
        KernelError::TooManyBindings {
            kernel: kernel(),
            declared: 9,
            limit: 8,
        },
    ]
}

fn every_full() -> [Full; 6] {
    [
        Full::Mailbox { messages: 16 },
        Full::Stream { held: 8, limit: 8 },
        Full::Uploads {
            requested: 2,
            in_use: 7,
            limit: 8,
        },
        Full::Jobs {
            in_use: 4,
            limit: 4,
        },
        Full::Handles { held: 3, limit: 4 },
        Full::Readbacks { requested: 3 },
    ]
}

fn every_open_error() -> [OpenError; 3] {
    [
        OpenError::Option {
            option: "queues",
            given: "0".into(),
            must: "1 or more",
        },
        OpenError::Thread("none left".into()),
        OpenError::Unavailable {
            backend: "cuda",
            why: "there is no driver; install one".into(),
        },
    ]
}

fn every_error() -> Vec<Error> {
    let root = Failure::not_run(&"blur".into(), Reason::Refused("why".into()));
    let mut all = vec![
        Error::Failed(root.clone()),
        Error::Failed(Failure::input(&"sobel".into(), root)),
        Error::Foreign {
            what: "handle",
            which: "of slice 3".into(),
        },
        Error::Closed,
        Error::DeviceLost {
            epoch: 0,
            recovery: Recovery::SameProcess,
        },
        Error::Forked,
        Error::WouldDeadlock,
        Error::WrongBackend {
            requested: "cuda",
            actual: "cpu",
        },
        Error::NoLog,
        Error::NoProfile { number: 1 },
        Error::Taken,
        Error::NoConsumer,
        Error::TimedOut {
            waited: Duration::from_secs(1),
        },
    ];
    let refused = |why: ArgumentError| Error::Argument(why.of("blur"));
    all.extend(every_argument_error().map(refused));
    all.extend(every_argument_error().map(Error::from));
    all.extend(every_open_error().map(Error::from));
    all.extend(every_memory_error().map(Error::Memory));
    all.extend(every_kernel_error().map(Error::Kernel));
    all.extend(every_full().map(|what| Error::Busy { what }));
    all.extend(every_full().map(|what| Error::NoRoomHere { what }));
    all
}

/// Fails to compile for a new variant until the lists above contain it.
fn is_listed(error: &Error) -> bool {
    match error {
        Error::Failed(_)
        | Error::Argument(_)
        | Error::Open(_)
        | Error::Memory(_)
        | Error::Kernel(_)
        | Error::Busy { .. }
        | Error::NoRoomHere { .. }
        | Error::Foreign { .. }
        | Error::Closed
        | Error::DeviceLost { .. }
        | Error::Forked
        | Error::WouldDeadlock
        | Error::WrongBackend { .. }
        | Error::NoLog
        | Error::NoProfile { .. }
        | Error::Taken
        | Error::NoConsumer
        | Error::TimedOut { .. } => true,
    }
}

#[test]
fn error_chain_repeats_no_message() {
    for error in every_error() {
        assert!(is_listed(&error));
        let mut message = error.to_string();
        assert!(!message.is_empty() && !message.ends_with('.'), "{message}");
        let mut next = error.source();
        while let Some(cause) = next {
            let cause_message = cause.to_string();
            assert!(
                !message.contains(&cause_message),
                "`{message}` already contains `{cause_message}`"
            );
            message = cause_message;
            next = cause.source();
        }
    }
}

/// Arguments have one message, alone and as an `Error`; that of a task begins with its name.
#[test]
fn argument_error_displays_the_same_as_an_error() {
    for why in every_argument_error() {
        let message = why.to_string();
        let error = Error::from(why.clone());
        assert_eq!(error.to_string(), message);
        assert!(error.failure().is_none() && error.retry_after().is_none());
        let task = why.of("blur").to_string();
        assert_eq!(task, format!("`blur` was not accepted: {message}"));
    }
}

#[test]
fn full_displays_its_figures() {
    let messages = every_full().map(|what| Error::Busy { what }.to_string());
    assert_eq!(
        messages,
        [
            "the mailbox is full with 16 messages (`mailbox_capacity`), try again later",
            "the stream, or its client, holds 8 of at most 8 tasks (`max_held`, `max_tasks`), try again later",
            "no room for an upload of 2 B: 7 B of at most 8 B are in flight (`max_upload_bytes`), try again later",
            "the client has 4 of at most 4 pending host functions, callbacks and values to drop (`max_jobs`), try again later",
            "all 4 slots for slices, kernels and streams are in use, 3 by live ones, the others by dropped ones whose tasks have not completed (`max_handles`), try again later",
            "the sequence is full with 3 readbacks that were not taken, try again later",
        ]
    );
}

/// Singular and plural agree with the count, and an error that no retry resolves says what to change.
#[test]
fn counts_are_displayed_in_singular_and_plural() {
    let of = |expected, given| ArgumentError::count("binding", expected, given).to_string();
    assert_eq!(of(2, 1), "expected 2 bindings, got 1");
    assert_eq!(of(1, 0), "expected 1 binding, got 0");
    let message = |limit| Full::Stream { held: limit, limit }.to_string();
    assert!(message(1).ends_with("raise the limit to 2 for calls that do not wait"));
    assert!(message(2).ends_with("(`max_held`, `max_tasks`)"));
}

#[test]
fn sizes_that_round_alike_are_displayed_exactly() {
    let error = MemoryError::TooLarge {
        client: "c".into(),
        requested: (256 << 20) + 1,
        limit: 256 << 20,
    };
    assert_eq!(
        error.to_string(),
        "client `c` requested 268435457 B, the device allocates at most 268435456 B at once; use several handles"
    );
}
