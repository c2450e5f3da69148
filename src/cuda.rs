//! The CUDA backend, and copies between GPUs.

use std::sync::{Arc, OnceLock};

pub use millstream_cuda::*;

use crate::{
    Element, Error, Handle, Pending, ResourceGuard, Stream, error::ArgumentError, read, update,
    write,
};

/// Copies `from` on one GPU to `to` on another: directly if the GPUs have peer access, otherwise through the
/// host. The copy is a task of both streams: it runs after their earlier tasks, and before their later ones.
/// The bytes pass through fresh memory of the target GPU, so that neither stream delays the other.
///
/// Blocks until the bytes have arrived at the target, since the queues of two GPUs have no common order.
/// [`copy_across_async`] does the same without blocking. If both handles are of one device, this is [`Stream::copy`] on
/// the target's stream, which does not wait for the copy.
///
/// # Errors
/// [`Error::Argument`] if the lengths differ; [`Error::WrongBackend`]; the failure of the source's data; the failure of
/// the target if the driver refuses the copy.
pub fn copy_across<T: Element>(
    (source, from): (&Stream, &Handle<T>),
    (target, to): (&Stream, &Handle<T>),
) -> Result<(), Error> {
    if copy_within_device(target, from, to)? {
        return Ok(());
    }
    let side_stream = target.client().new_stream();
    let staging = side_stream.empty::<T>(to.len())?;
    let place = side_stream
        .get_resource::<Cuda>((write(&staging),))
        .wait()?;
    let mut transfer = Transfer::begin(source, from, place, staging)?;
    let passed = transfer
        .take_arrival()
        .map_or(Ok(()), |arrived| arrived.wait().map(drop));
    match transfer.finish(passed, target, to)? {
        Some(refused) => refused.wait().map(drop),
        None => Ok(()),
    }
}

/// As [`copy_across`], awaited on any executor. Dropped before it completes, the future copies nothing to the target.
///
/// # Errors
/// Same as [`copy_across`].
pub async fn copy_across_async<T: Element>(
    (source, from): (&Stream, &Handle<T>),
    (target, to): (&Stream, &Handle<T>),
) -> Result<(), Error> {
    if copy_within_device(target, from, to)? {
        return Ok(());
    }
    let side_stream = target.client().new_stream();
    let staging = side_stream.empty::<T>(to.len())?;
    let place = side_stream.get_resource::<Cuda>((write(&staging),)).await?;
    let mut transfer = Transfer::begin(source, from, place, staging)?;
    let passed = transfer.wait_for_arrival().await;
    match transfer.finish(passed, target, to)? {
        Some(refused) => refused.await.map(drop),
        None => Ok(()),
    }
}

/// Copies within one device and returns `true`; returns `false` if the handles are of two devices.
fn copy_within_device<T: Element>(
    target: &Stream,
    from: &Handle<T>,
    to: &Handle<T>,
) -> Result<bool, Error> {
    match target.copy(from, to) {
        Err(Error::Foreign { .. }) if from.size() == to.size() => Ok(false),
        Err(Error::Foreign { .. }) => {
            let why = ArgumentError::lengths(from.size(), to.size());
            Err(why.of(NAME).into())
        }
        copied => copied.map(|()| true),
    }
}

/// The task's name in failures and timelines.
const NAME: &str = "copy across";

/// A copy to fresh memory of the target GPU, which this keeps until the bytes have arrived, even if no caller waits any
/// more. The memory belongs to a stream of its own, since a guard holds back later tasks of its stream.
struct Transfer<T: Element> {
    place: Option<(ResourceGuard<Cuda>, Handle<T>)>,
    /// Answered with a guard of the source once the bytes have arrived. `None` once it was taken.
    arrived: Option<Pending<ResourceGuard<Cuda>>>,
    /// The driver's error.
    refused: Arc<OnceLock<String>>,
}

impl<T: Element> Transfer<T> {
    fn begin(
        source: &Stream,
        from: &Handle<T>,
        guard: ResourceGuard<Cuda>,
        staging: Handle<T>,
    ) -> Result<Self, Error> {
        let place = guard.peer_place();
        let refused = Arc::new(OnceLock::new());
        let error = refused.clone();
        source.with_resource::<Cuda>(NAME, (read(from),), move |resources| {
            // SAFETY: the place has the same length, and `Transfer` keeps its guard until a guard of the source has
            // arrived.
            if let Err(why) = unsafe { resources.copy_to_peer(&place) } {
                // Set once: this task runs once.
                let _ = error.set(why.to_string());
            }
        })?;
        Ok(Self {
            place: Some((guard, staging)),
            arrived: Some(source.get_resource::<Cuda>((update(from),))),
            refused,
        })
    }

    /// Takes the answer to wait for. The caller must keep `self` until it has waited.
    fn take_arrival(&mut self) -> Option<Pending<ResourceGuard<Cuda>>> {
        self.arrived.take()
    }

    /// Waits until the bytes have arrived, or the source has failed.
    async fn wait_for_arrival(&mut self) -> Result<(), Error> {
        let passed = match &mut self.arrived {
            Some(arrived) => arrived.await.map(drop),
            None => Ok(()),
        };
        self.arrived = None;
        passed
    }

    /// Copies the bytes from the fresh memory to the target. If the driver refused the copy, poisons the target with
    /// its error instead, and returns the answer that reports it.
    fn finish(
        mut self,
        passed: Result<(), Error>,
        target: &Stream,
        to: &Handle<T>,
    ) -> Result<Option<Pending<ResourceGuard<Cuda>>>, Error> {
        let Some((guard, staging)) = self.place.take() else {
            return Ok(None);
        };
        drop(guard);
        passed?;
        let Some(why) = self.refused.get().cloned() else {
            return target.copy(&staging, to).map(|()| None);
        };
        target.with_resource::<Cuda>(NAME, (write(to),), move |_| {
            // A panic is how a custom task fails; `resume_unwind` does not call the panic hook.
            std::panic::resume_unwind(Box::new(why));
        })?;
        Ok(Some(target.get_resource::<Cuda>((read(to),))))
    }
}

impl<T: Element> Drop for Transfer<T> {
    /// Keeps the memory until the GPU has written it, although no caller waits any more.
    fn drop(&mut self) {
        if let (Some(place), Some(arrived)) = (self.place.take(), self.arrived.take()) {
            // Only a closed device returns an error, and its tasks have ended.
            let _ = arrived.on_ready(move |_| drop(place));
        }
    }
}
