//! Calls the driver's functions by name with plain numbers, so that tests can make any mistake.

use cuda::Session;

/// The event flags blocking and untimed.
const EVENT_FLAGS: u64 = 3;

/// A GPU with a context that is current on this thread.
pub(crate) struct Gpu {
    pub(crate) session: Session,
}

impl Gpu {
    pub(crate) fn new(seed: u64) -> Self {
        Self::of(Session::begin(seed).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Begins a session that executes only in calls that wait or query.
    pub(crate) fn stepped(seed: u64) -> Self {
        Self::of(Session::begin_stepped(seed).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Begins a session with two GPUs and returns their contexts. The first one is current.
    pub(crate) fn two(seed: u64) -> (Self, [u64; 2]) {
        let session = Session::begin(seed).unwrap_or_else(|error| panic!("{error}"));
        session.set_gpu_count(2);
        let gpu = Self::of(session);
        let first = gpu.session.current_context();
        let second = gpu.make("cuDevicePrimaryCtxRetain", &[1]);
        (gpu, [first, second])
    }

    fn of(session: Session) -> Self {
        let gpu = Self { session };
        assert_eq!(
            gpu.session.calls_total(),
            0,
            "calls are counted per session"
        );
        gpu.must("cuInit", &[0]);
        let context = gpu.make("cuDevicePrimaryCtxRetain", &[0]);
        gpu.must("cuCtxSetCurrent", &[context]);
        gpu
    }

    /// Calls a function of up to sixteen numbers or pointers.
    pub(crate) fn call(&self, name: &str, arguments: &[u64]) -> u32 {
        self.session.call(name, arguments)
    }

    pub(crate) fn must(&self, name: &str, arguments: &[u64]) {
        assert_eq!(self.call(name, arguments), 0, "{name}");
    }

    /// Makes a call that waits for all work of the context, and lets the held stream go on once the call has begun.
    pub(crate) fn must_wait_for(&self, stream: u64, name: &str, arguments: &[u64]) {
        let calls = self.session.calls(name);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while self.session.calls(name) == calls {
                    std::thread::yield_now();
                }
                self.session.hold(stream, false);
            });
            self.must(name, arguments);
        });
    }

    /// Calls a function whose first argument is an out pointer, and returns the value.
    pub(crate) fn make(&self, name: &str, arguments: &[u64]) -> u64 {
        let mut made = 0_u64;
        let mut all = vec![&raw mut made as u64];
        all.extend(arguments);
        self.must(name, &all);
        made
    }

    pub(crate) fn stream(&self) -> u64 {
        self.make("cuStreamCreateWithPriority", &[1, 0])
    }

    pub(crate) fn event(&self) -> u64 {
        self.make("cuEventCreate", &[EVENT_FLAGS])
    }

    /// Creates a timed event.
    pub(crate) fn timed_event(&self) -> u64 {
        self.make("cuEventCreate", &[0])
    }

    /// Creates a pool on a GPU.
    pub(crate) fn pool(&self, gpu: u32) -> u64 {
        // `CUmemPoolProps`: allocation type pinned, not shared, on this GPU.
        let mut properties = [0_u32; 22];
        properties[..4].copy_from_slice(&[1, 0, 1, gpu]);
        self.make("cuMemPoolCreate", &[properties.as_ptr() as u64])
    }

    /// Allocates memory and fills it with a value. The host knows that the fill is complete.
    pub(crate) fn memory(&self, bytes: u64, value: u8) -> u64 {
        let address = self.make("cuMemAlloc_v2", &[bytes]);
        let stream = self.stream();
        self.must("cuMemsetD8Async", &[address, value.into(), bytes, stream]);
        self.must("cuStreamSynchronize", &[stream]);
        self.must("cuStreamDestroy_v2", &[stream]);
        address
    }

    /// Reads a byte, in the order of a stream.
    pub(crate) fn byte(&self, address: u64, stream: u64) -> u8 {
        let mut byte = [0_u8];
        self.must(
            "cuMemcpyDtoHAsync_v2",
            &[byte.as_mut_ptr() as u64, address, 1, stream],
        );
        byte[0]
    }

    /// Ends the session and returns its reports except leaks, because these tests release nothing.
    pub(crate) fn violations(self) -> Vec<String> {
        let mut reports = self.session.end();
        reports.retain(|report| !report.starts_with("leak: "));
        reports
    }

    /// Asserts that there is exactly one report, which contains these words.
    pub(crate) fn assert_violation(self, words: &[&str]) {
        let reports = self.violations();
        let found = matches!(&reports[..], [one] if words.iter().all(|word| one.contains(word)));
        assert!(
            found,
            "expected one report with {words:?}, got {reports:#?}"
        );
    }

    /// Asserts that each report contains its words, in order.
    pub(crate) fn assert_violations(self, words: &[&str]) {
        let reports = self.violations();
        let mut pairs = reports.iter().zip(words);
        assert!(
            reports.len() == words.len() && pairs.all(|(report, word)| report.contains(word)),
            "expected {words:?}, got {reports:#?}"
        );
    }
}
