//! The CPU as a backend with one change: a planted mistake, other properties, or its own language of kernels.

use std::sync::Arc;
use std::time::Duration;

use millstream::backend::{
    Backend, BackendKernel, BoundSlice, Compiler, Cursor, CustomWork, HostContext, HostData,
    Landing, Launch, Open, PageId, Pattern, Point, Refused, Strided, TaskPoint, Timeline,
};
use millstream::{
    Cpu, DeviceProperties, Kernel, OpenError,
    device::{Feature, QueueId},
    error::{KernelError, PageError},
};

type CpuDevice = <Cpu as Open>::Backend;

/// The change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
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

/// The CPU with this change.
#[derive(Clone)]
pub(crate) struct Altered {
    pub(crate) cpu: Cpu,
    pub(crate) change: Change,
}

impl Open for Altered {
    type Backend = AlteredDevice;

    const NAME: &'static str = "altered";

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
        Ok(AlteredDevice {
            inner,
            properties,
            change: self.change,
            flushed_last: None,
        })
    }
}

pub(crate) struct AlteredDevice {
    inner: CpuDevice,
    properties: DeviceProperties,
    change: Change,
    /// The point of the last call, if that was a flush.
    flushed_last: Option<Point>,
}

impl AlteredDevice {
    /// Returns the inner device, for every call except a flush and a wait.
    fn inner(&mut self) -> &mut CpuDevice {
        self.flushed_last = None;
        &mut self.inner
    }
}

impl Backend for AlteredDevice {
    type Resources = <CpuDevice as Backend>::Resources;

    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    fn timeline(&self, queue: QueueId) -> &Arc<Timeline> {
        self.inner.timeline(queue)
    }

    fn compiler(&self) -> Arc<dyn Compiler> {
        match self.change {
            Change::TakeNumbers => Arc::new(Numbers {
                inner: self.inner.compiler(),
            }),
            Change::TakeNames => Arc::new(Names {
                properties: self.properties.clone(),
                inner: self.inner.compiler(),
            }),
            _ => self.inner.compiler(),
        }
    }

    fn allocate(&mut self, bytes: u64) -> Result<PageId, PageError> {
        self.inner().allocate(bytes)
    }

    fn free(&mut self, page: PageId) {
        self.inner().free(page);
    }

    fn launch(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        launch: &Launch<'_>,
    ) -> Result<(), Refused> {
        self.inner().launch(queue, cursor, launch)
    }

    fn copy_in(
        &mut self,
        place: TaskPoint<'_>,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        self.inner().copy_in(place, target, layout, source)
    }

    fn copy_out(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        self.inner().copy_out(place, source, layout, landing)
    }

    fn copy(
        &mut self,
        place: TaskPoint<'_>,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        self.inner().copy(place, source, target)
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
        self.inner().fill(place, &target, pattern)
    }

    fn custom(
        &mut self,
        place: TaskPoint<'_>,
        bindings: &[BoundSlice],
        work: CustomWork,
    ) -> Result<(), Refused> {
        self.inner().custom(place, bindings, work)
    }

    fn resources(&mut self, bindings: &[BoundSlice]) -> Result<Box<Self::Resources>, Refused> {
        self.inner().resources(bindings)
    }

    fn mark(&mut self, queue: QueueId, cursor: Cursor) {
        self.inner().mark(queue, cursor);
    }

    fn queue_wait(&mut self, queue: QueueId, point: Point) -> Result<(), Refused> {
        let is_new = (self.flushed_last)
            .is_some_and(|last| last.queue == point.queue && last.cursor >= point.cursor);
        if is_new && matches!(self.change, Change::DropWaitsOnNewBatches) {
            return Ok(());
        }
        self.inner().queue_wait(queue, point)
    }

    fn flush(&mut self, queue: QueueId, cursor: Cursor) {
        self.inner().flush(queue, cursor);
        self.flushed_last = Some(Point::new(queue, cursor));
    }

    fn pump(&mut self, budget: Duration) -> bool {
        self.inner().pump(budget)
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
