//! The paths that a user pays for, over kernels that do nothing: what `millstream bench` measures, and
//! `cargo bench --bench paths`, said once.

use millstream::{
    ComputeClient, CubeCount, Device, Error, Handle, Kernel, KernelHandle, Recorder, Recording,
    Source, Stream, update,
};

/// Launches of one recording.
pub(crate) const RECORDED: usize = 32;

/// A device, and what is launched on it.
pub(crate) struct Rig {
    pub(crate) client: ComputeClient,
    pub(crate) stream: Stream,
    /// Takes nothing.
    pub(crate) empty: KernelHandle,
    /// Takes a buffer, which it could change.
    pub(crate) touch: KernelHandle,
    pub(crate) buffer: Handle<u32>,
    /// Closed when it is dropped.
    pub(crate) device: Device,
}

impl Rig {
    /// On this device.
    pub(crate) fn new(device: Device) -> Result<Self, Error> {
        let client = device.new_client();
        let empty = Kernel::new("empty").source(nothing("empty", 0));
        let touch = Kernel::new("touch")
            .updates::<u32>("values")
            .source(nothing("touch", 1));
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

    /// So many empty kernels, shared out to threads with a stream each, until the device has run them all.
    pub(crate) fn launch_from_threads(
        &self,
        streams: &[Stream],
        launches: usize,
    ) -> Result<(), Error> {
        let each = launches / streams.len().max(1);
        let work = |stream: &Stream| {
            (0..each).try_for_each(|_| stream.launch(&self.empty, CubeCount::single(), ()))?;
            stream.sync().wait()
        };
        if let [stream] = streams {
            // No thread to be started, and waited for.
            return work(stream);
        }
        std::thread::scope(|scope| {
            let threads = streams
                .iter()
                .map(|stream| scope.spawn(move || work(stream)));
            let threads: Vec<_> = threads.collect();
            let mut end = Ok(());
            for thread in threads {
                // A thread that panicked has said so itself.
                end = end.and(thread.join().unwrap_or(Err(Error::Closed)));
            }
            end
        })
    }

    /// An empty kernel, and the wait for it.
    pub(crate) fn launch_and_wait(&self) -> Result<(), Error> {
        self.stream.launch(&self.empty, CubeCount::single(), ())?;
        self.stream.sync().wait()
    }

    /// Bytes to the device, and back.
    pub(crate) fn create_and_read(&self, values: &[u8]) -> Result<Vec<u8>, Error> {
        let handle = self.stream.create(values)?;
        self.stream.read(&handle).wait()
    }

    /// A buffer that nobody uses: memory taken, and given back when the handle is dropped.
    pub(crate) fn empty_and_drop(&self) -> Result<(), Error> {
        self.stream.empty::<u32>(256).map(drop)
    }

    /// So many tasks on one buffer, from two streams in turn: each comes after the one before.
    pub(crate) fn hand_over(&self, streams: &[Stream; 2], times: usize) -> Result<(), Error> {
        for time in 0..times {
            let arguments = (update(&self.buffer),);
            streams[time % 2].launch(&self.touch, CubeCount::single(), arguments)?;
        }
        streams[0].sync().wait()?;
        streams[1].sync().wait()
    }

    /// Checks and resolves launches.
    pub(crate) fn recording(&self) -> Result<Recording, Error> {
        self.stream.record(|recorder: &mut Recorder<'_>| {
            (0..RECORDED).try_for_each(|_| {
                recorder.launch(&self.touch, CubeCount::single(), (update(&self.buffer),))
            })
        })
    }

    /// Replays them so often, until the device has run them all.
    pub(crate) fn replay(&self, recording: &Recording, times: usize) -> Result<(), Error> {
        (0..times).try_for_each(|_| recording.replay(&self.stream))?;
        self.stream.sync().wait()
    }
}

/// What a GPU runs of a kernel that takes so many pointers and does nothing.
fn nothing(name: &str, pointers: usize) -> Source {
    let parameters: Vec<_> = (0..pointers)
        .map(|index| format!(".param .u64 {name}_{index}"))
        .collect();
    let parameters = parameters.join(", ");
    let entry = format!(".visible .entry {name}({parameters})\n{{\n    ret;\n}}\n");
    Source::Ptx(format!(".version 8.0\n.target sm_80\n.address_size 64\n\n{entry}").into())
}
