//! The driver's functions as a program calls them that does everything wrong: by name, with numbers.

use cuda::Session;
use libloading::Library;

/// Blocking, untimed.
const EVENT_FLAGS: u64 = 3;

/// Sixteen of what fits into a register or a place of the stack.
#[rustfmt::skip]
type Function = unsafe extern "C" fn(
    u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64,
) -> u32;

/// A GPU with a context that is current on this thread.
pub(crate) struct Gpu {
    pub(crate) session: Session,
    library: Library,
}

impl Gpu {
    pub(crate) fn new(seed: u64) -> Self {
        Self::of(Session::begin(seed).unwrap_or_else(|error| panic!("{error}")))
    }

    /// One that works in calls that wait or ask, alone.
    pub(crate) fn stepped(seed: u64) -> Self {
        Self::of(Session::begin_stepped(seed).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Two of them: the first one's context is current. Answers the contexts.
    pub(crate) fn two(seed: u64) -> (Self, [u64; 2]) {
        let session = Session::begin(seed).unwrap_or_else(|error| panic!("{error}"));
        session.gpus(2);
        let gpu = Self::of(session);
        let first = gpu.make("cuCtxGetCurrent", &[]);
        let second = gpu.make("cuDevicePrimaryCtxRetain", &[1]);
        (gpu, [first, second])
    }

    fn of(session: Session) -> Self {
        // SAFETY: its initializers do nothing.
        let library = unsafe { Library::new(libloading::library_filename("cuda")) }.unwrap();
        let gpu = Self { session, library };
        assert_eq!(gpu.session.calls_total(), 0, "of this session");
        gpu.must("cuInit", &[0]);
        let context = gpu.make("cuDevicePrimaryCtxRetain", &[0]);
        gpu.must("cuCtxSetCurrent", &[context]);
        gpu
    }

    /// Calls a function of up to sixteen numbers or pointers.
    pub(crate) fn call(&self, name: &str, arguments: &[u64]) -> u32 {
        let mut all = [0; 16];
        all[..arguments.len()].copy_from_slice(arguments);
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = all;
        // SAFETY: each argument is passed in a place of its own, of which a function of fewer or narrower ones reads its
        // part; pointers are those that the test gives.
        unsafe {
            let function = self.library.get::<Function>(name).unwrap();
            function(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
        }
    }

    pub(crate) fn must(&self, name: &str, arguments: &[u64]) {
        assert_eq!(self.call(name, arguments), 0, "{name}");
    }

    /// Calls a function whose first argument is where it puts what it makes.
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

    /// An event that tells times.
    pub(crate) fn timed_event(&self) -> u64 {
        self.make("cuEventCreate", &[0])
    }

    /// A pool of memory of a GPU.
    pub(crate) fn pool(&self, gpu: u32) -> u64 {
        // `CUmemPoolProps`: pinned, not shared, on this GPU.
        let mut properties = [0_u32; 22];
        properties[..4].copy_from_slice(&[1, 0, 1, gpu]);
        self.make("cuMemPoolCreate", &[properties.as_ptr() as u64])
    }

    /// Pinned memory of the host.
    pub(crate) fn pinned(&self, bytes: u64) -> u64 {
        self.make("cuMemHostAlloc", &[bytes, 1])
    }

    /// Captures what is given to a stream, in the mode of relaxed people, and makes it executable.
    pub(crate) fn captured(&self, stream: u64, gives: impl FnOnce()) -> (u64, u64) {
        self.must("cuStreamBeginCapture_v2", &[stream, 2]);
        gives();
        let mut graph = 0_u64;
        self.must("cuStreamEndCapture", &[stream, &raw mut graph as u64]);
        (graph, self.make("cuGraphInstantiateWithFlags", &[graph, 0]))
    }

    /// One stream waits for what another was given so far.
    pub(crate) fn order(&self, before: u64, after: u64) {
        let event = self.event();
        self.must("cuEventRecord", &[event, before]);
        self.must("cuStreamWaitEvent", &[after, event, 0]);
        self.must("cuEventDestroy_v2", &[event]);
    }

    /// What an attribute of the first GPU is.
    pub(crate) fn attribute(&self, number: u64) -> u64 {
        self.make("cuDeviceGetAttribute", &[number, 0])
    }

    /// Memory, all of it set to one value, which everybody knows.
    pub(crate) fn memory(&self, bytes: u64, value: u8) -> u64 {
        let address = self.make("cuMemAlloc_v2", &[bytes]);
        let stream = self.stream();
        self.must("cuMemsetD8Async", &[address, value.into(), bytes, stream]);
        self.must("cuStreamSynchronize", &[stream]);
        self.must("cuStreamDestroy_v2", &[stream]);
        address
    }

    /// The first byte there, in the order of a stream.
    pub(crate) fn byte(&self, address: u64, stream: u64) -> u8 {
        let mut byte = [0_u8];
        self.must(
            "cuMemcpyDtoHAsync_v2",
            &[byte.as_mut_ptr() as u64, address, 1, stream],
        );
        byte[0]
    }

    /// What is wrong, and is no leak: these tests clean nothing up.
    pub(crate) fn wrong(self) -> Vec<String> {
        let mut reports = self.session.end();
        reports.retain(|report| !report.starts_with("leak: "));
        reports
    }

    /// Exactly one thing is wrong, and it is said with these words.
    pub(crate) fn assert_wrong(self, words: &[&str]) {
        let reports = self.wrong();
        let said = matches!(&reports[..], [one] if words.iter().all(|word| one.contains(word)));
        assert!(said, "{words:?} is not what is said: {reports:#?}");
    }
}
