//! What a capture remembers, and what a stream that is captured does. The rules of captures are methods of the state.

/// What is forbidden meanwhile, to whom: `CUstreamCaptureMode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Calls that are not safe, to all threads.
    Global,
    /// Those, to the thread that captures.
    ThreadLocal,
    /// Nothing but what conflicts with the capture itself.
    Relaxed,
}

impl Mode {
    pub(crate) fn of(number: u32) -> Option<Self> {
        [Self::Global, Self::ThreadLocal, Self::Relaxed]
            .get(number as usize)
            .copied()
    }
}

/// A capture.
pub(crate) struct Capture {
    pub(crate) graph: u64,
    /// The stream in which it began.
    pub(crate) origin: u64,
    pub(crate) mode: Mode,
    /// The thread on which it began.
    pub(crate) thread: u64,
    /// A rule was broken.
    pub(crate) broken: bool,
}

/// That a stream is captured.
#[derive(Clone)]
pub(crate) struct Captured {
    /// The capture.
    pub(crate) by: u64,
    /// What the next node comes after.
    pub(crate) tail: Vec<u64>,
    /// As many empty edges, for callers that ask: each is eight bytes of zeros.
    pub(crate) edges: Vec<u64>,
}

impl Captured {
    pub(crate) fn new(by: u64, tail: Vec<u64>) -> Self {
        let edges = vec![0; tail.len()];
        Self { by, tail, edges }
    }
}
