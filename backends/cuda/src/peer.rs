//! Copies from one GPU to another.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemLocation,
    CUmemLocationType, CUmemoryPool,
};
use millstream_core::client::{Pending, ResourceGuard, Stream};
use millstream_core::element::Element;
use millstream_core::error::{Error, LaunchError};
use millstream_core::handle::Handle;
use millstream_core::launch::{read, write};

use crate::device::CudaResources;
use crate::driver::{Api, Code};
use crate::options::Cuda;

/// Where the memory of a device is, as another GPU must know it.
#[derive(Clone, Copy)]
pub(crate) struct Home {
    pub(crate) device: CUdevice,
    pub(crate) pool: Option<CUmemoryPool>,
}

/// Copies `from`, of one GPU, to `to`, of another: from GPU to GPU where the two reach each other, through the
/// host where they do not. It is a task of both streams: it comes after what each was given before, and what follows in either
/// comes after it.
///
/// Blocks until the copy is over: an event of one GPU's queue is in no order of the other's. [`copy_across_async`] is
/// the same without blocking. Where both are of one device it is [`Stream::copy`] of the target's stream.
///
/// # Errors
/// [`Error::Launch`] when the lengths differ; [`Error::WrongBackend`]; what reading the source answers, or the target after
/// the driver refused the copy.
pub fn copy_across<T: Element>(
    (source, from): (&Stream, &Handle<T>),
    (target, to): (&Stream, &Handle<T>),
) -> Result<(), Error> {
    if is_within(target, from, to)? {
        return Ok(());
    }
    let guard = source.get_resource::<Cuda>((read(from),)).wait()?;
    Copying::begin(guard, target, to)?.wait()
}

/// As [`copy_across`], on whatever executor. Dropped before its end it copies nothing, or all.
///
/// # Errors
/// As [`copy_across`].
pub async fn copy_across_async<T: Element>(
    (source, from): (&Stream, &Handle<T>),
    (target, to): (&Stream, &Handle<T>),
) -> Result<(), Error> {
    if is_within(target, from, to)? {
        return Ok(());
    }
    let guard = source.get_resource::<Cuda>((read(from),)).await?;
    Copying::begin(guard, target, to)?.await
}

/// Copies within one device, where it is one; says no where there are two.
fn is_within<T: Element>(target: &Stream, from: &Handle<T>, to: &Handle<T>) -> Result<bool, Error> {
    match target.copy(from, to) {
        Err(Error::Foreign { .. }) if from.size() == to.size() => Ok(false),
        Err(Error::Foreign { .. }) => Err(Error::Launch {
            task: "copy across".into(),
            why: LaunchError::Length {
                source_bytes: from.size(),
                destination_bytes: to.size(),
            },
        }),
        copied => copied.map(|()| true),
    }
}

/// The source of a copy, as the other device's thread needs it. The guard keeps it as it is.
struct Source {
    address: CUdeviceptr,
    context: CUcontext,
    home: Home,
}

// SAFETY: an address and handles, which the driver takes on any thread.
unsafe impl Send for Source {}

/// A copy on its way. Its source is held back until it is over, whoever still waits for that.
struct Copying(Option<(ResourceGuard<Cuda>, Pending<ResourceGuard<Cuda>>)>);

impl Copying {
    /// Gives the copy to the target's stream.
    fn begin<T: Element>(
        guard: ResourceGuard<Cuda>,
        target: &Stream,
        to: &Handle<T>,
    ) -> Result<Self, Error> {
        let from = guard.binding(0).map_or(0, |(address, ..)| address);
        let source = Source {
            address: from,
            context: guard.context(),
            home: guard.home(),
        };
        target.with_resource::<Cuda>("copy across", (write(to),), move |resources| {
            let source = source;
            if let Err((call, code)) = copy_here(resources, &source) {
                // A custom task tells of its failure so; the hook for panics is not called.
                let why = format!("the driver answered {code} to {call}");
                std::panic::resume_unwind(Box::new(why));
            }
        })?;
        // A guard of the target is there once the copy is over.
        let over = target.get_resource::<Cuda>((read(to),));
        Ok(Self(Some((guard, over))))
    }

    fn wait(mut self) -> Result<(), Error> {
        match self.0.take() {
            Some((_source, over)) => over.wait().map(drop),
            None => Ok(()),
        }
    }
}

impl Future for Copying {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((_, over)) = &mut self.0 else {
            return Poll::Ready(Ok(()));
        };
        let over = ready!(Pin::new(over).poll(context));
        self.0 = None;
        Poll::Ready(over.map(drop))
    }
}

impl Drop for Copying {
    /// Nobody waits any more, but the GPU still reads the source.
    fn drop(&mut self) {
        if let Some((source, over)) = self.0.take() {
            // Only a closed device refuses, which has ended what it was given.
            let _ = over.on_ready(move |_| drop(source));
        }
    }
}

fn copy_here(target: &CudaResources, source: &Source) -> Result<(), (&'static str, Code)> {
    let (Some((to, bytes, _)), Some(stream)) = (target.binding(0), target.stream()) else {
        return Ok(());
    };
    if bytes == 0 {
        return Ok(());
    }
    let api = target.api();
    allow(api, source.home, target.home().device);
    // SAFETY: both ranges are within pages of these contexts; the guard keeps the source's until the copy is over.
    let answer = unsafe {
        (api.copy_peer)(
            to,
            target.context(),
            source.address,
            source.context,
            bytes as usize,
            stream,
        )
    };
    Code::check(answer).map_err(|code| ("cuMemcpyPeerAsync", code))
}

/// Allows a GPU to use the memory of another's pool by itself. Where it cannot, copies go through the host.
fn allow(api: &Api, home: Home, by: CUdevice) {
    let Some(pool) = home.pool.filter(|_| home.device != by) else {
        return;
    };
    let mut reaches = 0;
    let access = CUmemAccessDesc {
        location: CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: by,
        },
        flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    // SAFETY: the place for the answer is ours; the pool lives while the guard does, and allowing it again is nothing.
    unsafe {
        let asked = (api.reaches_peer)(&raw mut reaches, by, home.device);
        if asked == Code::SUCCESS && reaches != 0 {
            let allowed = Code::check((api.set_pool_access)(pool, &raw const access, 1));
            if let Err(code) = allowed {
                tracing::debug!(target: "millstream::cuda", %code, "a GPU is not allowed to use another's memory");
            }
        }
    }
}
