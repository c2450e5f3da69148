//! The measured operations, over kernels that do nothing. `millstream bench` and `cargo bench --bench paths`
//! share this file.

use millstream::{
    ComputeClient, CubeCount, Device, Error, Handle, Kernel, KernelHandle, Recorder, Recording,
    Source, Stream, update,
};

/// Launches of one recording.
pub(crate) const RECORDED: usize = 32;

/// A device with the kernels and the buffer that the measurements use.
pub(crate) struct Rig {
    pub(crate) client: ComputeClient,
    pub(crate) stream: Stream,
    /// A kernel without parameters.
    pub(crate) empty: KernelHandle,
    /// A kernel that declares one read-write buffer.
    pub(crate) touch: KernelHandle,
    pub(crate) buffer: Handle<u32>,
    /// The device, which closes when the rig is dropped.
    pub(crate) device: Device,
}

impl Rig {
    /// Creates the kernels and the buffer on `device`.
    pub(crate) fn new(device: Device) -> Result<Self, Error> {
        let client = device.new_client();
        let empty = Kernel::new("empty")
            .source(empty_ptx("empty", 0))
            .spirv(empty_spirv());
        let touch = Kernel::new("touch")
            .updates::<u32>("values")
            .source(empty_ptx("touch", 1))
            .spirv(empty_spirv());
        let stream = client.new_stream();
        Ok(Self {
            empty: client.kernel(empty.native(|_, _| {}))?,
            touch: client.kernel(touch.native(|_, _| {}))?,
            buffer: stream.create(&[0; 256])?,
            stream,
            client,
            device,
        })
    }

    /// Launches empty kernels from one thread per stream, and waits until the device has run them all.
    pub(crate) fn launch_from_threads(
        &self,
        streams: &[Stream],
        launches: usize,
    ) -> Result<(), Error> {
        let each = launches / streams.len().max(1);
        let work = |stream: &Stream| {
            self.launch_on(stream, each)?;
            stream.sync().wait()
        };
        if let [stream] = streams {
            // A single stream needs no further thread.
            return work(stream);
        }
        std::thread::scope(|scope| {
            let threads = streams.iter().map(|stream| scope.spawn(|| work(stream)));
            let threads: Vec<_> = threads.collect();
            // The panic hook has reported a thread that panicked.
            let mut threads = threads.into_iter();
            threads.try_for_each(|thread| thread.join().unwrap_or(Err(Error::Closed)))
        })
    }

    fn launch_on(&self, stream: &Stream, launches: usize) -> Result<(), Error> {
        (0..launches).try_for_each(|_| stream.launch(&self.empty, CubeCount::single(), ()))
    }

    /// Launches empty kernels.
    pub(crate) fn launch(&self, launches: usize) -> Result<(), Error> {
        self.launch_on(&self.stream, launches)
    }

    /// Launches an empty kernel and waits for it.
    pub(crate) fn launch_and_wait(&self) -> Result<(), Error> {
        self.launch(1)?;
        self.stream.sync().wait()
    }

    /// Uploads bytes to the device and reads them back.
    pub(crate) fn create_and_read(&self, values: &[u8]) -> Result<Vec<u8>, Error> {
        let handle = self.stream.create(values)?;
        self.stream.read(&handle).wait()
    }

    /// Allocates a buffer and drops it unused.
    pub(crate) fn empty_and_drop(&self) -> Result<(), Error> {
        self.stream.empty::<u32>(256).map(drop)
    }

    /// Launches `times` tasks on one buffer from two streams in turn, so that each depends on the one before.
    pub(crate) fn hand_over(&self, streams: &[Stream; 2], times: usize) -> Result<(), Error> {
        for time in 0..times {
            let arguments = (update(&self.buffer),);
            streams[time % 2].launch(&self.touch, CubeCount::single(), arguments)?;
        }
        streams[0].sync().wait()?;
        streams[1].sync().wait()
    }

    /// Records [`RECORDED`] launches.
    pub(crate) fn recording(&self) -> Result<Recording, Error> {
        self.stream.record(|recorder: &mut Recorder<'_>| {
            (0..RECORDED).try_for_each(|_| {
                recorder.launch(&self.touch, CubeCount::single(), (update(&self.buffer),))
            })
        })
    }

    /// Replays a recording `times` times, and waits until the device has run all replays.
    pub(crate) fn replay(&self, recording: &Recording, times: usize) -> Result<(), Error> {
        (0..times).try_for_each(|_| recording.replay(&self.stream))?;
        self.stream.sync().wait()
    }
}

/// Returns the PTX of a kernel that takes `pointers` pointers and does nothing.
fn empty_ptx(name: &str, pointers: usize) -> Source {
    let parameters: Vec<_> = (0..pointers)
        .map(|index| format!(".param .u64 {name}_{index}"))
        .collect();
    let parameters = parameters.join(", ");
    let entry = format!(".visible .entry {name}({parameters})\n{{\n    ret;\n}}\n");
    Source::Ptx(format!(".version 8.0\n.target sm_80\n.address_size 64\n\n{entry}").into())
}

/// Returns the SPIR-V of a kernel that does nothing, with any parameters.
fn empty_spirv() -> Vec<u32> {
    let (words, _) = include_bytes!("kernels/empty.spv").as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}
