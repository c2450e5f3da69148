//! GPUs by CUDA: the backend, and copies from one GPU to another.

use std::sync::{Arc, OnceLock};

pub use millstream_cuda::*;

use crate::{
    Element, Error, Handle, LaunchError, Pending, ResourceGuard, Stream, read, update, write,
};

/// Copies `from`, of one GPU, to `to`, of another: from GPU to GPU where the two reach each other, through the host where they
/// do not. It is a task of both streams: it comes after what each was given before, and what follows in either comes after it.
/// On the way the bytes lie in fresh memory of the target's, so that neither side holds the other up.
///
/// Blocks until the bytes are with the target: an event of one GPU's queue is in no order of the other's.
/// [`copy_across_async`] is the same without blocking. Where both are of one device it is [`Stream::copy`] of the target's
/// stream, which does not block.
///
/// # Errors
/// [`Error::Launch`] when the lengths differ; [`Error::WrongBackend`]; what reading the source answers; the failure of the target
/// where the driver refused the copy.
pub fn copy_across<T: Element>(
    (source, from): (&Stream, &Handle<T>),
    (target, to): (&Stream, &Handle<T>),
) -> Result<(), Error> {
    if is_within(target, from, to)? {
        return Ok(());
    }
    let aside = target.client().new_stream();
    let between = aside.empty::<T>(to.len())?;
    let place = aside.get_resource::<Cuda>((write(&between),)).wait()?;
    let mut sending = Sending::begin(source, from, place, between)?;
    let passed = sending.take().map_or(Ok(()), |over| over.wait().map(drop));
    match sending.arrive(passed, target, to)? {
        Some(refused) => refused.wait().map(drop),
        None => Ok(()),
    }
}

/// As [`copy_across`], on whatever executor. Dropped before its end it copies nothing.
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
    let aside = target.client().new_stream();
    let between = aside.empty::<T>(to.len())?;
    let place = aside.get_resource::<Cuda>((write(&between),)).await?;
    let mut sending = Sending::begin(source, from, place, between)?;
    let passed = sending.passed().await;
    match sending.arrive(passed, target, to)? {
        Some(refused) => refused.await.map(drop),
        None => Ok(()),
    }
}

/// Copies within one device, where it is one; says no where there are two.
fn is_within<T: Element>(target: &Stream, from: &Handle<T>, to: &Handle<T>) -> Result<bool, Error> {
    match target.copy(from, to) {
        Err(Error::Foreign { .. }) if from.size() == to.size() => Ok(false),
        Err(Error::Foreign { .. }) => Err(Error::Launch {
            task: NAME.into(),
            why: LaunchError::Length {
                source_bytes: from.size(),
                destination_bytes: to.size(),
            },
        }),
        copied => copied.map(|()| true),
    }
}

/// What failures and timelines call it.
const NAME: &str = "copy across";

/// Bytes on their way to fresh memory of the target's, which is kept until they are there, whoever still waits for that. It is
/// of a stream of its own: a guard holds back what follows it in its stream.
struct Sending<T: Element> {
    place: Option<(ResourceGuard<Cuda>, Handle<T>)>,
    /// A guard of the source is there once they are. None once it was taken.
    over: Option<Pending<ResourceGuard<Cuda>>>,
    /// What the driver said.
    refused: Arc<OnceLock<String>>,
}

impl<T: Element> Sending<T> {
    fn begin(
        source: &Stream,
        from: &Handle<T>,
        guard: ResourceGuard<Cuda>,
        between: Handle<T>,
    ) -> Result<Self, Error> {
        let place = guard.peer_place();
        let refused = Arc::new(OnceLock::new());
        let says = refused.clone();
        source.with_resource::<Cuda>(NAME, (read(from),), move |resources| {
            // SAFETY: the place has as many bytes; `Sending` keeps its guard until a guard of the source is there.
            if let Err(why) = unsafe { resources.copy_to_peer(&place) } {
                // Set once, by this task.
                let _ = says.set(why.to_string());
            }
        })?;
        Ok(Self {
            place: Some((guard, between)),
            over: Some(source.get_resource::<Cuda>((update(from),))),
            refused,
        })
    }

    /// What is to be waited for. Who waits for it must not let go before.
    fn take(&mut self) -> Option<Pending<ResourceGuard<Cuda>>> {
        self.over.take()
    }

    /// The bytes are there, or the source has failed.
    async fn passed(&mut self) -> Result<(), Error> {
        let passed = match &mut self.over {
            Some(over) => over.await.map(drop),
            None => Ok(()),
        };
        self.over = None;
        passed
    }

    /// Takes the bytes to where they are to be; where there are none, the target says why, and this answers what to wait
    /// for.
    fn arrive(
        mut self,
        passed: Result<(), Error>,
        target: &Stream,
        to: &Handle<T>,
    ) -> Result<Option<Pending<ResourceGuard<Cuda>>>, Error> {
        let Some((guard, between)) = self.place.take() else {
            return Ok(None);
        };
        drop(guard);
        passed?;
        let Some(why) = self.refused.get().cloned() else {
            return target.copy(&between, to).map(|()| None);
        };
        target.with_resource::<Cuda>(NAME, (write(to),), move |_| {
            // A custom task tells of its failure so; the hook for panics is not called.
            std::panic::resume_unwind(Box::new(why));
        })?;
        Ok(Some(target.get_resource::<Cuda>((read(to),))))
    }
}

impl<T: Element> Drop for Sending<T> {
    /// Nobody waits any more, but the GPU still writes.
    fn drop(&mut self) {
        if let (Some(place), Some(over)) = (self.place.take(), self.over.take()) {
            // Only a closed device refuses, which has ended what it was given.
            let _ = over.on_ready(move |_| drop(place));
        }
    }
}
