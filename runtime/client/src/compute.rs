//! A client of a device.

use std::sync::Arc;

use millstream_ir::{Blocking, Program};
use millstream_protocol::element::Element;
use millstream_protocol::error::{Error, KernelError};
use millstream_protocol::id::{ClientId, KernelId};
use millstream_protocol::kernel::Kernel;
use millstream_protocol::message::Registration;
use millstream_protocol::message::Scope;
use millstream_protocol::metrics::Metrics;
use millstream_protocol::options::LogLevel;
use millstream_protocol::priority::Priority;
use millstream_protocol::properties::DeviceProperties;
use millstream_protocol::report::{MemoryReport, Stats};
use millstream_sync::facade::{Mutex, lock};

use crate::handle::Handle;
use crate::{Bounds, DeviceShared, KernelHandle, Openings, Pending, Seat};

/// What clones of a client share.
pub(crate) struct ClientShared {
    openings: Arc<Openings>,
    /// Its place in the epoch in which it made something last.
    seat: Mutex<Arc<Seat>>,
    pub(crate) id: ClientId,
    pub(crate) name: Arc<str>,
    bounds: Bounds,
    pub(crate) priority: Priority,
    pub(crate) weight: u32,
    /// Bytes that it may have before others go first.
    pub(crate) soft_limit: Option<u64>,
}

/// A user of a device: cheap to clone, `Send + Sync`, the same type for every backend.
///
/// A client makes streams and kernels and owns limits. Dropping it never waits; its streams and
/// handles stay good as long as the device is open.
///
/// A client outlives the loss of its device: once the device is reopened, what the client makes is of the new
/// epoch. What it had made before answers [`Error::DeviceLost`], and is not charged to its limits any more.
#[derive(Clone)]
pub struct ComputeClient {
    pub(crate) shared: Arc<ClientShared>,
}

/// The greatest weight: so that a turn, and with it the wait for everybody else's, stays bounded.
pub const WEIGHT_MAX: u32 = 1_024;

/// What a client is to be.
pub struct ClientBuilder {
    openings: Arc<Openings>,
    name: Option<Arc<str>>,
    soft_limit: Option<u64>,
    priority: Priority,
    weight: u32,
    bounds: Bounds,
}

impl ClientBuilder {
    /// A client of a device with the defaults: no limit.
    pub(crate) fn new(openings: Arc<Openings>) -> Self {
        Self {
            openings,
            name: None,
            soft_limit: None,
            priority: Priority::default(),
            weight: 1,
            bounds: Bounds::default(),
        }
    }

    /// Its name, for errors and reports.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The most bytes that its slices may have in use: those with handles, and dropped ones whose tasks have not completed.
    ///
    /// A request beyond it fails at once with [`MemoryError::Limit`](millstream_protocol::error::MemoryError::Limit) if live handles alone leave no
    /// room, since only their owners can make some. Else it waits until enough tasks have completed, or answers [`Error::Busy`]
    /// where calls may not wait. A thread that holds back those tasks itself, by a guard, must not wait for them.
    pub fn hard_limit(mut self, bytes: u64) -> Self {
        self.bounds.memory_bytes = Some(bytes);
        self
    }

    /// Bytes that its live slices may have before others go first. Above it the client still gets memory, as long
    /// as the device has some. When it is short, asks that would take a client above its soft limit wait behind
    /// those that would not, and are given up before them; and pages that such a client has left free are the
    /// first to go back to the device.
    ///
    /// Counted as in [`ComputeClient::memory_usage`], padding included. A soft limit above the hard limit is the
    /// hard limit. Going above it is told by a warning of `tracing`, and counted in
    /// [`Stats::soft_limit_crossings`].
    pub fn soft_limit(mut self, bytes: u64) -> Self {
        self.soft_limit = Some(bytes);
        self
    }

    /// How urgent its work is. Default: [`Priority::Normal`]. A task that a more urgent one waits for is as
    /// urgent.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Its share among clients of its priority: each of its streams may issue so many times as much in a turn as
    /// one of weight 1, the default and the least; the most is [`WEIGHT_MAX`]. Acts where streams share a queue
    /// that is behind.
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight.clamp(1, WEIGHT_MAX);
        self
    }

    /// The most tasks that all its streams together may have accepted and not yet issued; beyond it calls wait,
    /// or answer [`Error::Busy`] where they may not. At least 1; where calls may not wait give it 2, for
    /// [`Stream::create`](crate::Stream::create) is two tasks. Default: each stream has
    /// [`max_held`](millstream_protocol::options::DeviceOptions::max_held) to itself.
    pub fn max_tasks(mut self, tasks: u64) -> Self {
        self.bounds.tasks = Some(tasks.max(1));
        self
    }

    /// The most bytes of its uploads that may be on their way; beyond it calls wait, or answer
    /// [`Error::Busy`] where they may not. At least 1; a larger upload takes all of it, and what travels inside a
    /// message counts nothing. Default: [`max_upload_bytes`](millstream_protocol::options::DeviceOptions::max_upload_bytes).
    pub fn max_upload_bytes(mut self, bytes: u64) -> Self {
        self.bounds.upload_bytes = Some(bytes.max(1));
        self
    }

    /// The client.
    pub fn build(self) -> ComputeClient {
        let id = self.openings.next_client();
        let shared = ClientShared {
            id,
            name: self
                .name
                .unwrap_or_else(|| format!("client {}", id.0).into()),
            priority: self.priority,
            weight: self.weight,
            soft_limit: self
                .soft_limit
                .map(|bytes| bytes.min(self.bounds.memory_bytes.unwrap_or(u64::MAX))),
            seat: Mutex::new(Seat::new(self.openings.current(), &self.bounds)),
            bounds: self.bounds,
            openings: self.openings,
        };
        ComputeClient {
            shared: Arc::new(shared),
        }
    }
}

impl Openings {
    /// A client, to be given a name or limits.
    pub fn client_builder(self: &Arc<Self>) -> ClientBuilder {
        ClientBuilder::new(self.clone())
    }
}

impl ComputeClient {
    /// Its place in the current epoch of the device.
    pub(crate) fn seat(&self) -> Arc<Seat> {
        let current = self.shared.openings.current();
        let mut seat = lock(&self.shared.seat);
        if seat.device.epoch() < current.epoch() {
            *seat = Seat::new(current, &self.shared.bounds);
        }
        seat.clone()
    }

    pub(crate) fn device(&self) -> Arc<DeviceShared> {
        self.shared.openings.current()
    }

    /// Another client of the device, without bounds.
    pub(crate) fn like(&self, priority: Priority, weight: u32) -> Self {
        let builder = self.shared.openings.client_builder();
        builder.priority(priority).weight(weight).build()
    }

    /// Prepares a kernel: compiles it for this device and makes it known. Launches of it resolve
    /// nothing and allocate nothing.
    ///
    /// Blocks the calling thread while the kernel compiles (nothing for native kernels); the device
    /// goes on meanwhile.
    ///
    /// # Errors
    /// [`Error::Kernel`] with what is missing or what the compiler said; [`Error::DeviceLost`], [`Error::Closed`].
    pub fn kernel(&self, kernel: Kernel) -> Result<KernelHandle, Error> {
        let device = self.device();
        let properties = device.properties();
        if let Some(feature) = kernel
            .required()
            .iter()
            .find(|feature| !properties.has(**feature))
        {
            return Err(KernelError::Feature {
                kernel: kernel.name().clone(),
                feature: *feature,
            }
            .into());
        }
        let declared = kernel.signature().bindings().len();
        if declared > properties.max_bindings {
            let limit = properties.max_bindings;
            return Err(KernelError::TooManyBindings {
                kernel: kernel.name().clone(),
                declared,
                limit,
            }
            .into());
        }
        let kernel = Arc::new(kernel);
        let span = tracing::debug_span!(target: "millstream", "prepare", kernel = %kernel.name());
        let _entered = span.enter();
        let code = match device.compiler().compile(&kernel) {
            Ok(code) => code,
            Err(KernelError::Lost { .. }) => {
                device.tell_lost().wait()?;
                return Err(device.gone());
            }
            Err(error) => return Err(error.into()),
        };
        if device.settings().logs.compilation >= LogLevel::Basic {
            tracing::debug!(target: "millstream::compilation", kernel = %kernel.name(), backend = properties.backend, "prepared");
        }
        let hold = device.slot(true)?;
        let id = KernelId(hold.id());
        device.register(Registration::Kernel {
            id,
            kernel: kernel.clone(),
            code,
        })?;
        Ok(KernelHandle { hold, kernel })
    }

    /// How this device can cut up a program beside the usual way: what a kernel of it may ask for by [`Kernel::with`], and a tuner
    /// chooses among. Nothing, where there is nothing to choose. Never waits.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use millstream_client::ComputeClient;
    /// # use millstream_protocol::error::Error;
    /// # use millstream_protocol::kernel::Kernel;
    /// # use millstream_ir::{DType, Matmul, Program};
    /// # fn f(client: &ComputeClient) -> Result<(), Box<dyn std::error::Error>> {
    /// let product = Arc::new(Program::Matmul(Matmul { dtype: DType::F32, partial: false, batch: 0, epilogue: None }));
    /// for blocking in client.blockings(&product) {
    ///     let kernel = Kernel::from_program(format!("product by {blocking}"), product.clone())?;
    ///     client.kernel(kernel.with(blocking))?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn blockings(&self, program: &Program) -> Vec<Blocking> {
        self.device().compiler().blockings(program)
    }

    /// Is the handle one of memory of this client's device, in the epoch that it is in?
    pub fn owns<T: Element>(&self, handle: &Handle<T>) -> bool {
        Arc::ptr_eq(handle.hold().table(), self.device().table())
    }

    /// Is the kernel one of this client's device, in the epoch that it is in?
    pub fn knows(&self, kernel: &KernelHandle) -> bool {
        Arc::ptr_eq(kernel.hold.table(), self.device().table())
    }

    /// When everything that this client's streams were given has completed. It waits for whole queues, so
    /// what other clients were given before may hold it up; a stream's own `sync` waits for less.
    pub fn sync(&self) -> Pending<()> {
        self.device().sync(Scope::Client(self.shared.id))
    }

    /// Memory of the device and of each of its clients.
    pub fn memory_usage(&self) -> Pending<MemoryReport> {
        self.device().memory()
    }

    /// Gives unused pages back to the device, and answers with their bytes. Memory of the host that is kept for uploads goes back to the
    /// system as well.
    pub fn memory_cleanup(&self) -> Pending<u64> {
        self.device().cleanup()
    }

    /// The device's counters.
    pub fn stats(&self) -> Pending<Stats> {
        self.device().stats()
    }

    /// Everything that the device counts and measures: [`ComputeClient::stats`], each client, sizes of batches, faults, and latencies where
    /// they are sampled. Asking may wait for room in the mailbox.
    pub fn metrics(&self) -> Pending<Metrics> {
        self.device().metrics()
    }

    /// What the device is.
    pub fn properties(&self) -> &DeviceProperties {
        self.shared.openings.properties()
    }

    /// The client's number, as reports name it.
    pub fn id(&self) -> ClientId {
        self.shared.id
    }

    /// The client's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }
}

impl std::fmt::Debug for ComputeClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ComputeClient({:?})", self.shared.name)
    }
}
