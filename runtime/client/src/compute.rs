//! A client of a device, and its builder.

use std::sync::Arc;

use millstream_ir::{Blocking, Program};
use millstream_protocol::{
    AtLimit, ClientId, DeviceProperties, Error, Kernel, MemoryReport, Priority, Scope, Stats,
    Stored, metrics::Metrics,
};

use crate::epochs::EpochCell;
use crate::handle::Handle;
use crate::{ClientEpoch, ClientLimits, DeviceEpochs, DeviceShared, KernelHandle, Pending};

/// State shared by the clones of a client.
pub(crate) struct ClientShared {
    epochs: Arc<DeviceEpochs>,
    /// The client's state in the epoch in which it last made an object.
    epoch: EpochCell<ClientEpoch>,
    pub(crate) id: ClientId,
    pub(crate) name: Arc<str>,
    limits: ClientLimits,
    pub(crate) priority: Priority,
    pub(crate) weight: u32,
    /// Bytes that the client's slices may use before other clients take precedence.
    pub(crate) soft_limit: Option<u64>,
}

/// A client of a device. Cheap to clone, `Send + Sync`, and the same type for every backend.
///
/// A client makes streams and kernels, and owns limits. Dropping it never blocks; its streams and
/// handles stay valid as long as the device is open.
///
/// A client outlives the loss of its device: after the device is reopened, the client makes objects in the new
/// epoch. Objects of the lost epoch return [`Error::DeviceLost`] and no longer count towards the client's limits.
#[derive(Clone)]
pub struct ComputeClient {
    pub(crate) shared: Arc<ClientShared>,
}

/// The greatest weight of a client. It bounds the length of a turn, and so the time that other clients wait for theirs.
pub const WEIGHT_MAX: u32 = 1_024;

/// Builds a [`ComputeClient`].
pub struct ClientBuilder {
    epochs: Arc<DeviceEpochs>,
    name: Option<Arc<str>>,
    soft_limit: Option<u64>,
    priority: Priority,
    weight: u32,
    limits: ClientLimits,
}

impl ClientBuilder {
    /// Creates a builder with the defaults: no limit.
    pub(crate) fn new(epochs: Arc<DeviceEpochs>) -> Self {
        Self {
            epochs,
            name: None,
            soft_limit: None,
            priority: Priority::default(),
            weight: 1,
            limits: ClientLimits::default(),
        }
    }

    /// Sets the client's name, which errors and reports use. The default is `client N`.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the hard limit: the most bytes that the client's slices may use. Slices with handles count, and dropped
    /// slices whose tasks have not completed. Default: no limit.
    ///
    /// A request of more than the whole limit fails with
    /// [`MemoryError::AboveLimit`](millstream_protocol::MemoryError::AboveLimit). If live handles alone leave no
    /// room now, the request fails with [`MemoryError::Limit`](millstream_protocol::MemoryError::Limit) or
    /// waits: see [`ClientBuilder::at_limit`]. Otherwise the request blocks until enough tasks have completed, or
    /// returns [`Error::Busy`] if the call may not block. A thread that holds those tasks back with a guard must not
    /// wait for them.
    pub fn hard_limit(mut self, bytes: u64) -> Self {
        self.limits.memory_bytes = Some(bytes);
        self
    }

    /// Sets what a request for memory does if live handles leave no room for it within the hard limit. Default:
    /// [`AtLimit::Fail`].
    ///
    /// With [`AtLimit::Wait`] blocking calls and [`Stream::when_ready`](crate::Stream::when_ready) wait in the order of
    /// their requests; calls that may not block return [`Error::Busy`]. A blocking call under a deadline
    /// ([`Stream::with_deadline`](crate::Stream::with_deadline)) returns [`Error::Busy`] once the deadline has passed.
    /// A caller that holds handles and waits for more may wait for itself, or for another caller that does the same. So
    /// take the memory of one piece of work in one request, for example as one buffer and slices of it, or by
    /// [`Stream::empty_tensors`](crate::Stream::empty_tensors), or set a deadline.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # use millstream_client::DeviceEpochs;
    /// # use millstream_protocol::Error;
    /// # use millstream_protocol::AtLimit;
    /// # fn f(device: &std::sync::Arc<DeviceEpochs>) -> Result<(), Error> {
    /// let tenant = device.client_builder().hard_limit(64 << 20).at_limit(AtLimit::Wait).build();
    /// let stream = tenant.new_stream().with_deadline(Instant::now() + Duration::from_secs(5));
    /// let room = stream.empty::<f32>(8 << 20)?; // waits while other requests of the tenant use more than half
    /// # drop(room);
    /// # Ok(()) }
    /// ```
    pub fn at_limit(mut self, at_limit: AtLimit) -> Self {
        self.limits.at_limit = at_limit;
        self
    }

    /// Sets the soft limit: the bytes that the client's live slices may use before other clients take precedence. Above
    /// it the client still gets memory as long as the device has some. If memory is short, reservations that would take
    /// a client above its soft limit wait behind all others and are failed before them, and the pages that such a
    /// client has left free are the first to go back to the device.
    ///
    /// Bytes are counted as in [`ComputeClient::memory_usage`], padding included. A soft limit above the hard limit has
    /// the value of the hard limit. Crossing the soft limit logs a `tracing` warning and counts in
    /// [`Stats::soft_limit_crossings`].
    pub fn soft_limit(mut self, bytes: u64) -> Self {
        self.soft_limit = Some(bytes);
        self
    }

    /// Sets the priority of the client's tasks. Default: [`Priority::Normal`]. A task that a task of higher priority
    /// depends on runs at that priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the client's share among clients of the same priority: in one turn each of its streams may issue `weight`
    /// times as much as a stream of a client of weight 1. Clamped to 1 (the default) to [`WEIGHT_MAX`]. Takes effect if
    /// streams share a queue with a backlog.
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight.clamp(1, WEIGHT_MAX);
        self
    }

    /// Sets the most tasks that all streams of the client together may have accepted and not yet issued. Beyond it
    /// calls block, or return [`Error::Busy`] if they may not. At least 1; use at least 2 if calls may not block, since
    /// [`Stream::create`](crate::Stream::create) submits two tasks. Default: each stream has its own limit,
    /// [`max_held`](millstream_protocol::DeviceOptions::max_held).
    pub fn max_tasks(mut self, tasks: u64) -> Self {
        self.limits.tasks = Some(tasks.max(1));
        self
    }

    /// Sets the most bytes of the client's uploads that may be in flight. Beyond it calls block, or return
    /// [`Error::Busy`] if they may not. At least 1; a larger upload takes the whole limit, and data that travels inside
    /// a message does not count. Default:
    /// [`max_upload_bytes`](millstream_protocol::DeviceOptions::max_upload_bytes).
    pub fn max_upload_bytes(mut self, bytes: u64) -> Self {
        self.limits.upload_bytes = Some(bytes.max(1));
        self
    }

    /// Builds the client.
    pub fn build(self) -> ComputeClient {
        let id = self.epochs.next_client();
        let shared = ClientShared {
            id,
            name: self
                .name
                .unwrap_or_else(|| format!("client {}", id.0).into()),
            priority: self.priority,
            weight: self.weight,
            soft_limit: self
                .soft_limit
                .map(|bytes| bytes.min(self.limits.memory_bytes.unwrap_or(u64::MAX))),
            epoch: EpochCell::new(ClientEpoch::new(self.epochs.current(), &self.limits)),
            limits: self.limits,
            epochs: self.epochs,
        };
        ComputeClient {
            shared: Arc::new(shared),
        }
    }
}

impl DeviceEpochs {
    /// Returns a builder of a client of this device.
    pub fn client_builder(self: &Arc<Self>) -> ClientBuilder {
        ClientBuilder::new(self.clone())
    }
}

impl ComputeClient {
    /// Returns the client's state in the current epoch of the device.
    pub(crate) fn client_epoch(&self) -> Arc<ClientEpoch> {
        let current = self.shared.epochs.current();
        self.shared.epoch.get_or_replace(|epoch| {
            let is_old = epoch.device.epoch() < current.epoch();
            is_old.then(|| ClientEpoch::new(current, &self.shared.limits))
        })
    }

    pub(crate) fn device(&self) -> Arc<DeviceShared> {
        self.shared.epochs.current()
    }

    /// Creates another client of the device, without limits.
    #[cfg(feature = "journal")]
    pub(crate) fn sibling(&self, priority: Priority, weight: u32) -> Self {
        let builder = self.shared.epochs.client_builder();
        builder.priority(priority).weight(weight).build()
    }

    /// Prepares a kernel: compiles it for this device and registers it. Launching a prepared kernel compiles nothing
    /// and allocates nothing.
    ///
    /// Blocks while the kernel compiles (native kernels do not compile); the device goes on meanwhile. May also block
    /// while the mailbox or the table of slots is full.
    ///
    /// # Errors
    /// [`Error::Kernel`] if the device lacks a feature or the compiler fails; [`Error::DeviceLost`], [`Error::Closed`].
    pub fn kernel(&self, kernel: Kernel) -> Result<KernelHandle, Error> {
        self.device().prepare(kernel)
    }

    /// Returns the blockings that this device supports for a program besides the default one. A kernel selects one with
    /// [`Kernel::with`], and a tuner chooses among them. Empty if the device has only the default. Never blocks.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use millstream_client::ComputeClient;
    /// # use millstream_protocol::Error;
    /// # use millstream_protocol::Kernel;
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
        self.device().compiler.blockings(program)
    }

    /// Returns `true` if the handle is of memory of this client's device, in its current epoch.
    pub fn owns<T: Stored>(&self, handle: &Handle<T>) -> bool {
        Arc::ptr_eq(handle.hold().table(), self.device().table())
    }

    /// Returns `true` if the kernel was prepared on this client's device, in its current epoch.
    pub fn knows(&self, kernel: &KernelHandle) -> bool {
        Arc::ptr_eq(kernel.hold.table(), self.device().table())
    }

    /// Returns an answer that is ready once all tasks submitted to this client's streams so far have completed. It
    /// waits for whole queues, so earlier tasks of other clients may delay it; [`Stream::sync`](crate::Stream::sync)
    /// waits for one stream. May block while the mailbox is full.
    pub fn sync(&self) -> Pending<()> {
        self.device().sync(Scope::Client(self.shared.id))
    }

    /// Returns the memory usage of the device and of each client. May block while the mailbox is full.
    pub fn memory_usage(&self) -> Pending<MemoryReport> {
        self.device().memory()
    }

    /// Returns unused pages to the device, and yields the number of bytes freed. Host memory that is kept for uploads
    /// goes back to the system as well. May block while the mailbox is full.
    pub fn memory_cleanup(&self) -> Pending<u64> {
        self.device().cleanup()
    }

    /// Returns the device's counters. May block while the mailbox is full.
    pub fn stats(&self) -> Pending<Stats> {
        self.device().stats()
    }

    /// Returns everything that the device counts and measures: [`ComputeClient::stats`], figures per client, batch
    /// sizes, faults, and latencies if they are sampled. May block while the mailbox is full.
    pub fn metrics(&self) -> Pending<Metrics> {
        self.device().metrics()
    }

    /// Returns the properties of the device.
    pub fn properties(&self) -> &DeviceProperties {
        self.shared.epochs.properties()
    }

    /// Returns the client's number, as reports print it.
    pub fn id(&self) -> ClientId {
        self.shared.id
    }

    /// Returns the client's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }
}

impl std::fmt::Debug for ComputeClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ComputeClient({:?})", self.shared.name)
    }
}
