//! The state of captures and captured streams. The rules of captures are methods of `State`.

/// The calls that are forbidden during a capture: `CUstreamCaptureMode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Unsafe calls of all threads.
    Global,
    /// Unsafe calls of the capturing thread.
    ThreadLocal,
    /// Only calls that conflict with the capture itself.
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
    /// The stream in which the capture began.
    pub(crate) origin: u64,
    pub(crate) mode: Mode,
    /// The thread on which the capture began.
    pub(crate) thread: u64,
    /// Whether the capture is invalidated.
    pub(crate) broken: bool,
}

/// The capture of a stream.
#[derive(Clone)]
pub(crate) struct StreamCapture {
    /// The handle of the capture.
    pub(crate) capture: u64,
    /// The nodes that the next node depends on.
    pub(crate) tail: Vec<u64>,
    /// As many empty edges, for callers that query them: each is eight zero bytes.
    pub(crate) edges: Vec<u64>,
}

impl StreamCapture {
    pub(crate) fn new(capture: u64, tail: Vec<u64>) -> Self {
        let edges = vec![0; tail.len()];
        Self {
            capture,
            tail,
            edges,
        }
    }
}
