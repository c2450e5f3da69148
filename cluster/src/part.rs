//! The part of one device in a call: a task that has begun, and its memory.

use std::{fmt, ptr};

use millstream::cuda::{Cuda, CudaResources};
use millstream::sim::Sim;
use millstream::{
    Access, Cpu, CpuResources, Element, Error, ExternalTask, FailureRef, Handle, Returned,
    StagedTask, Stream, stream::HostBuffer,
};
use smallvec::SmallVec;

use crate::announcement::Announcement;
use crate::movement::NetworkMemory;

/// The buffers of one member.
#[derive(Clone, Copy)]
pub(crate) struct Buffers<'a> {
    /// What the call reads of it.
    pub(crate) input: Option<&'a Handle<u8>>,
    /// What the call writes to it. It may be the input.
    pub(crate) output: Option<&'a Handle<u8>>,
}

impl<'a> Buffers<'a> {
    pub(crate) fn input<T: Element>(input: &'a Handle<T>) -> Self {
        Self {
            input: Some(input.as_bytes()),
            output: None,
        }
    }

    pub(crate) fn output<T: Element>(output: &'a Handle<T>) -> Self {
        Self {
            input: None,
            output: Some(output.as_bytes()),
        }
    }

    pub(crate) fn both<T: Element>(input: &'a Handle<T>, output: &'a Handle<T>) -> Self {
        Self {
            output: Some(output.as_bytes()),
            ..Self::input(input)
        }
    }

    /// Returns the bindings of the member's task.
    fn bindings(&self) -> SmallVec<[(&'a Handle<u8>, Access); 2]> {
        if self.is_in_place() {
            return self
                .output
                .map(|handle| (handle, Access::ReadWrite))
                .into_iter()
                .collect();
        }
        let input = self.input.map(|handle| (handle, Access::Read));
        let output = self.output.map(|handle| (handle, Access::Write));
        input.into_iter().chain(output).collect()
    }

    /// Returns the number of bytes that a call reads and writes.
    pub(crate) fn bytes(&self) -> u64 {
        let handles = self.input.into_iter().chain(self.output);
        handles.map(Handle::size).sum()
    }

    /// Whether the input and the output overlap without being the same view.
    pub(crate) fn overlap(&self) -> bool {
        let overlap = |(input, output): (&Handle<u8>, &Handle<u8>)| input.overlaps(output);
        self.input.zip(self.output).is_some_and(overlap) && !self.is_in_place()
    }

    /// Whether the call replaces its input.
    pub(crate) fn is_in_place(&self) -> bool {
        match (self.input, self.output) {
            (Some(input), Some(output)) => {
                input.id() == output.id()
                    && input.start() == output.start()
                    && input.size() == output.size()
            }
            _ => false,
        }
    }
}

/// What is left of an arrival for a thread for user code.
pub(crate) type Rest = Option<Box<dyn FnOnce() + Send>>;

/// The part of one member, whose data is ready.
pub(crate) enum Part {
    /// The bytes move from or to the memory of the device.
    Direct {
        task: ExternalTask,
        places: Places,
        /// Of a driven device.
        is_driven: bool,
    },
    /// The data passes through memory of the host.
    Staged {
        task: StagedTask,
        output: HostBuffer,
    },
}

/// The memory of a part on a CUDA device.
pub(crate) struct DeviceMemory<'a> {
    pub(crate) resources: &'a CudaResources,
    places: Places,
}

impl DeviceMemory<'_> {
    /// Returns the binding that the call reads.
    pub(crate) fn source(&self) -> usize {
        self.places.input.or(self.places.output).unwrap_or_default()
    }

    /// Returns the binding that the call writes.
    pub(crate) fn target(&self) -> usize {
        self.places.output.unwrap_or_default()
    }
}

/// The places of a task's bindings. A task that replaces its input has an output only.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    input: Option<usize>,
    output: Option<usize>,
}

/// Where the memory of a part is: of the host or, of a call [`on a device`](crate::Announcement::on_device), of that device. Which
/// of the two there are is as in [`NetworkMemory`](crate::NetworkMemory).
#[derive(Clone, Copy, Debug)]
pub struct NetworkAddresses {
    /// The start of the bytes to read.
    pub input: Option<*const u8>,
    /// The start of the bytes to write.
    pub output: Option<*mut u8>,
}

impl Part {
    /// Submits the task of a member in a call. `arrive` receives its part once its data is ready, or why it cannot begin.
    pub(crate) fn submit(
        call: &Announcement,
        stream: &Stream,
        buffers: &Buffers<'_>,
        arrive: impl FnOnce(Result<Self, Error>) -> Rest + Send + 'static,
    ) -> Result<(), Error> {
        let name = call.name;
        if call.on_device || host_can_access(stream) {
            let reads_only = buffers.input.is_some() && !buffers.is_in_place();
            let places = Places {
                input: reads_only.then_some(0),
                output: buffers.output.map(|_| usize::from(reads_only)),
            };
            let is_driven = stream.is_driven();
            let begin = move |begun: Result<ExternalTask, Error>| {
                arrive(begun.map(|task| Self::Direct {
                    task,
                    places,
                    is_driven,
                }))
            };
            return stream
                .external_at_once(name, &buffers.bindings()[..], begin)
                .map_err(refuse);
        }
        // Allocated here, where the caller can be told that there is no memory.
        let output = HostBuffer::zeroed(buffers.output.map_or(0, Handle::size) as usize);
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                let error = Error::Memory(error);
                arrive(Err(error.clone()));
                return Err(error);
            }
        };
        let begin = move |begun: Result<StagedTask, Error>| {
            // On a thread for user code.
            if let Some(rest) = arrive(begun.map(|task| Self::Staged { task, output })) {
                rest();
            }
        };
        stream
            .external_staged(name, buffers.input, buffers.output, begin)
            .map_err(refuse)
    }

    /// Whether its task may end on the thread that turns another device. That of a driven device may not: if the device was
    /// closed meanwhile, the end frees it, which runs destructors of users' values.
    pub(crate) fn ends_at_once(&self) -> bool {
        matches!(
            self,
            Self::Direct {
                is_driven: false,
                ..
            }
        )
    }

    /// Returns the memory of the part.
    ///
    /// # Errors
    /// Why the host cannot access it.
    pub(crate) fn memory(&mut self) -> Result<NetworkMemory<'_>, String> {
        match self {
            Self::Staged { task, output } => Ok(NetworkMemory {
                input: Some(task.input()),
                output: Some(output.as_mut_slice()),
            }),
            Self::Direct { task, places, .. } => direct(task, *places),
        }
    }

    /// Returns the memory of a part on a CUDA device.
    pub(crate) fn device_memory(&mut self) -> Option<DeviceMemory<'_>> {
        match self {
            Self::Direct { task, places, .. } => Some(DeviceMemory {
                resources: task.resources::<Cuda>()?,
                places: *places,
            }),
            Self::Staged { .. } => None,
        }
    }

    /// Returns where the memory of a part on a CUDA device is.
    pub(crate) fn device_addresses(&mut self) -> Option<NetworkAddresses> {
        let DeviceMemory { resources, places } = self.device_memory()?;
        let address = |place: Option<usize>| {
            let (address, ..) = resources.binding(place?)?;
            // An address of the GPU, for libraries that know how to access it.
            Some(std::ptr::with_exposed_provenance_mut::<u8>(
                address as usize,
            ))
        };
        Some(NetworkAddresses {
            input: address(places.input).map(<*mut u8>::cast_const),
            output: address(places.output),
        })
    }

    /// Ends the task: its output is defined.
    pub(crate) fn complete(self) {
        match self {
            Self::Direct { task, .. } => task.complete(),
            // The lengths are those of the task's own buffers. Otherwise the task fails by itself.
            Self::Staged { task, output } if output.as_slice().is_empty() => drop(task.complete()),
            Self::Staged { task, output } => drop(task.complete_with(output)),
        }
    }

    /// Fails the task because of another failure.
    pub(crate) fn fail_by(self, cause: FailureRef) {
        match self {
            Self::Direct { task, .. } => task.fail_by(cause),
            Self::Staged { task, .. } => task.fail_by(cause),
        }
    }
}

/// Returns the memory of all parts.
pub(crate) fn memory(parts: &mut [Part]) -> Result<Vec<NetworkMemory<'_>>, String> {
    parts.iter_mut().map(Part::memory).collect()
}

/// Fails all parts.
pub(crate) fn fail_all(parts: impl IntoIterator<Item = Part>, cause: &FailureRef) {
    for part in parts {
        part.fail_by(cause.clone());
    }
}

/// Passes the error of a call to the beginning that the call returns uncalled, and returns it.
fn refuse<T, R, F: FnOnce(Result<T, Error>) -> R>(returned: Returned<F>) -> Error {
    (returned.value)(Err(returned.error.clone()));
    returned.error
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct { task, .. } => task.fmt(f),
            Self::Staged { task, .. } => task.fmt(f),
        }
    }
}

/// Whether the memory of a stream's device is memory of the host.
fn host_can_access(stream: &Stream) -> bool {
    matches!(stream.client().properties().backend, "cpu" | "sim")
}

fn direct(task: &mut ExternalTask, places: Places) -> Result<NetworkMemory<'_>, String> {
    let resources = host_resources(task).ok_or("its backend did not provide memory of the host")?;
    let input = places.input.map(|place| resources.try_read::<u8>(place));
    let output = places.output.map(|place| resources.try_write::<u8>(place));
    let input = input.transpose().map_err(|error| error.to_string())?;
    let output = output.transpose().map_err(|error| error.to_string())?;
    // SAFETY: both bindings were just borrowed together, so they do not overlap. What is returned borrows the task
    // mutably: until it is dropped the task does not end, and no other code reaches its resources.
    let (input, output) = unsafe {
        let input = input.map(|bytes| &*ptr::from_ref(&*bytes));
        (
            input,
            output.map(|mut bytes| &mut *ptr::from_mut(&mut *bytes)),
        )
    };
    Ok(NetworkMemory { input, output })
}

fn host_resources(task: &ExternalTask) -> Option<&CpuResources> {
    let simulated = || task.resources::<Sim>().map(|resources| &**resources);
    task.resources::<Cpu>().or_else(simulated)
}
