//! The CPU as a backend with one change: a planted mistake, other properties, its own language of kernels, or a switch that
//! loses it.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use millstream::backend::{
    Backend, BackendKernel, BoundSlice, Compiler, Cursor, CustomWork, Held, HostContext, HostData,
    Landing, Large, Launch, Open, PageId, Pattern, Point, Refused, Span, StartOutcome, Strided,
    TaskPoint, Timeline,
};
use millstream::{
    Cpu, DeviceProperties, Kernel, OpenError,
    device::{Feature, QueueId, Recovery},
    error::{KernelError, PageError},
};

use crate::switch::Switch;

type CpuDevice = <Cpu as Open>::Backend;

/// The change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// None but the switch.
    None,
    /// Drops a wait on a point if the call before it was the flush of that point's batch.
    DropWaitsOnNewBatches,
    /// Rounds the length of a fill down to eight bytes.
    FillWholeWords,
    /// Reports other properties.
    Properties(fn(&mut DeviceProperties)),
    /// Takes kernels in a language whose text is the number that the kernel writes to every element.
    TakeNumbers,
    /// Takes kernels in a language whose text is the name of a kernel of the suite, and no kernels in Rust.
    TakeNames,
}

/// The kind of text of [`Change::TakeNames`].
pub(crate) const NAME: &str = "a name";

/// The kind of text of [`Change::TakeNumbers`].
pub(crate) const NUMBER: &str = "a number";

/// The CPU with this change, and with a switch that loses it.
#[derive(Clone)]
pub(crate) struct Altered {
    cpu: Cpu,
    change: Change,
    switch: Arc<Switch>,
    recovery: Recovery,
}

impl Altered {
    /// Creates a CPU that is never lost.
    pub(crate) fn new(cpu: Cpu, change: Change) -> Self {
        Self {
            cpu,
            change,
            switch: Arc::default(),
            recovery: Recovery::NewProcess,
        }
    }

    /// Creates a CPU that the switch loses.
    pub(crate) fn that_is_lost(cpu: Cpu, switch: &Arc<Switch>, recovery: Recovery) -> Self {
        Self {
            switch: switch.clone(),
            recovery,
            ..Self::new(cpu, Change::None)
        }
    }
}

impl Open for Altered {
    type Backend = AlteredDevice;

    const NAME: &'static str = "altered";

    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn open(self, context: HostContext) -> Result<AlteredDevice, OpenError> {
        let inner = self.cpu.open(context)?;
        let mut properties = inner.properties().clone();
        properties.backend = Self::NAME;
        match self.change {
            Change::Properties(change) => change(&mut properties),
            Change::TakeNames => {
                properties.features.remove(&Feature::NativeKernels);
            }
            _ => {}
        }
        let queues = 0..inner.properties().queues;
        let timelines = queues.map(|queue| inner.timeline(QueueId(queue as u8)).clone());
        self.switch.opened_with(timelines.collect());
        Ok(AlteredDevice {
            inner,
            properties,
            change: self.change,
            flushed_last: None,
            switch: self.switch,
            recovery: self.recovery,
        })
    }
}

pub(crate) struct AlteredDevice {
    inner: CpuDevice,
    properties: DeviceProperties,
    change: Change,
    /// The point of the last call, if that was a flush.
    flushed_last: Option<Point>,
    switch: Arc<Switch>,
    recovery: Recovery,
}

impl AlteredDevice {
    /// Returns the inner device, for a call of the backend, or the loss.
    fn call(&mut self) -> Result<&mut CpuDevice, Refused> {
        self.flushed_last = None;
        self.switch.check()?;
        Ok(&mut self.inner)
    }
}

impl Drop for AlteredDevice {
    fn drop(&mut self) {
        self.switch.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Backend for AlteredDevice {
    type Resources = <CpuDevice as Backend>::Resources;

    const CALLS_RUN_CODE: bool = CpuDevice::CALLS_RUN_CODE;

    fn defer_start(&mut self) {
        self.inner.defer_start();
    }

    fn start_deferred(&mut self, large: Large) -> StartOutcome {
        self.inner.start_deferred(large)
    }

    fn held(&self) -> Option<Arc<dyn Held>> {
        self.inner.held()
    }

    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn timeline(&self, queue: QueueId) -> &Arc<Timeline> {
        self.inner.timeline(queue)
    }

    /// What the clients of an epoch keep alive.
    fn raw(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self.switch.clone())
    }

    fn compiler(&self) -> Arc<dyn Compiler> {
        let inner = self.inner.compiler();
        let properties = self.properties.clone();
        match self.change {
            Change::TakeNumbers => Arc::new(Numbers { inner }),
            Change::TakeNames => Arc::new(Names { properties, inner }),
            _ => inner,
        }
    }

    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        self.switch.count_page();
        let inner = self.call().map_err(|_| PageError::Lost)?;
        inner.allocate(bytes)
    }

    fn free(&mut self, page: PageId) {
        if self.call().is_err() {
            self.switch.freed_lost.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.free(page);
    }

    fn launch(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        launch: &Launch<'_>,
    ) -> Result<(), Refused> {
        self.switch.count_launch();
        self.call()?.launch(queue, cursor, launch)
    }

    fn copy_in(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        self.call()?.copy_in(place, target, layout, source)
    }

    fn copy_out(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        self.call()?.copy_out(place, source, layout, landing)
    }

    fn copy(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        self.call()?.copy(place, source, target)
    }

    fn fill(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        pattern: Pattern,
    ) -> Result<(), Refused> {
        let mut target = *target;
        if matches!(self.change, Change::FillWholeWords) {
            target.len -= target.len % 8;
        }
        self.call()?.fill(place, &target, pattern)
    }

    fn custom(
        &mut self,
        place: TaskPoint<'_>,
        bindings: &[BoundSlice],
        work: CustomWork,
    ) -> Result<(), Refused> {
        self.switch.count_custom();
        self.call()?.custom(place, bindings, work)
    }

    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<Self::Resources>, Refused> {
        self.call()?.resources(bindings)
    }

    fn mark(&mut self, queue: QueueId, cursor: Cursor) {
        // A lost device publishes no cursor.
        if let Ok(inner) = self.call() {
            inner.mark(queue, cursor);
        }
    }

    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        let is_new = (self.flushed_last)
            .is_some_and(|last| last.queue == point.queue && last.cursor >= point.cursor);
        if is_new && matches!(self.change, Change::DropWaitsOnNewBatches) {
            return Ok(());
        }
        self.call()?.queue_wait(queue, point)
    }

    fn flush(&mut self, queue: QueueId, cursor: Cursor) {
        self.inner.flush(queue, cursor);
        self.flushed_last = Some(Point::new(queue, cursor));
    }

    fn recovery(&mut self) -> Recovery {
        self.recovery
    }

    fn pump(&mut self, budget: Duration) -> bool {
        self.inner.pump(budget)
    }

    fn take_spans(&mut self) -> Vec<Span> {
        self.inner.take_spans()
    }

    fn record_spans(&mut self, room: usize) -> usize {
        self.inner.record_spans(room)
    }
}

/// Compiles texts of the kind [`NUMBER`].
struct Numbers {
    inner: Arc<dyn Compiler>,
}

impl Compiler for Numbers {
    fn compile(&self, kernel: &Arc<Kernel>) -> Result<BackendKernel, KernelError> {
        let mut sources = kernel.sources().iter();
        let Some(text) = sources.find_map(|source| source.text_of(NUMBER)) else {
            return Err(kernel.no_source(Altered::NAME, &[NUMBER]));
        };
        let number: u32 = text.parse().map_err(|error| KernelError::Compile {
            kernel: kernel.name().clone(),
            log: format!("`{text}`: {error}"),
        })?;
        let writes = Kernel::new(kernel.name().clone())
            .writes::<u32>("values")
            .native(move |_, args| args.chunk::<u32>(0).fill(number));
        self.inner.compile(&Arc::new(writes))
    }
}

/// Compiles texts of the kind [`NAME`].
struct Names {
    properties: DeviceProperties,
    inner: Arc<dyn Compiler>,
}

impl Compiler for Names {
    fn compile(&self, kernel: &Arc<Kernel>) -> Result<BackendKernel, KernelError> {
        kernel.check_needs(&self.properties)?;
        let mut names = kernel
            .sources()
            .iter()
            .filter_map(|source| source.text_of(NAME));
        // The name stands for the closure beside it.
        match names.any(|name| name == kernel.name()) {
            true => self.inner.compile(kernel),
            false => Err(kernel.no_source(Altered::NAME, &[NAME])),
        }
    }
}
