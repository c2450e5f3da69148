//! Copies between host and device, and within the device.

use std::sync::Arc;

use millstream_protocol::{
    Access, ArgumentError, Binding, CopyOut, Element, Error, Full, HostBytes, HostSource,
    HostUpload, INLINE_WORDS, Landed, Landing, MemoryError, Op, Pattern, Stored, Strided, Task,
    VecLanding,
    staging::{Staged, Staging},
};
use millstream_sync::reply::reply;
use smallvec::SmallVec;

use crate::handle::Handle;
use crate::{Finish, Pending, Permit, Returned, Stream};

/// Data up to this size travels inside a message.
const INLINE_BYTES: usize = INLINE_WORDS * 8;

/// Bytes in flight to the device, with the permit that they hold.
pub(crate) type Upload<H> = HostUpload<H, Permit>;

/// Returns the copy in of the bytes.
pub(crate) fn copy_in<H: HostBytes>(upload: Upload<H>) -> Op {
    Op::CopyIn(HostSource::Owned(upload.erase()))
}

/// Returns an upload that holds a permit.
fn permitted<H: HostBytes>(data: H, permit: Permit) -> Upload<H> {
    let mut upload = Upload::new(data);
    upload.keep(permit);
    upload
}

impl Stream {
    /// Allocates a slice and uploads `data` to it. `data` is copied before this returns.
    ///
    /// May block while there is no room for the tasks, or while this client's uploads in flight exceed
    /// [`max_upload_bytes`](millstream_protocol::DeviceOptions::max_upload_bytes).
    ///
    /// # Errors
    /// Same as [`Stream::empty`].
    pub fn create<T: Stored>(&self, data: &[T]) -> Result<Handle<T>, Error> {
        let room = self.room_for(2)?;
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let upload = (bytes.len() > INLINE_BYTES).then_some(bytes.len());
        let permit = || upload.map(|bytes| self.upload_permit(bytes)).transpose();
        let (slice, permit) = self.slice_for_upload::<T, _>(data.len(), permit)?;
        let target = slice.binding();
        let hold = match permit {
            Some(permit) => {
                let upload = permitted(self.staged(data), permit);
                let fill = |task: &mut Task| task.push_binding(target);
                self.submit_two(room, slice, upload, copy_in, fill)?
            }
            None => {
                let op = |()| Op::CopyIn(HostSource::Words(bytes.len() as u32));
                let fill = |task: &mut Task| fill_words(task, target, bytes);
                self.submit_two(room, slice, (), op, fill)?
            }
        };
        Ok(Handle::new(hold, target.len))
    }

    /// Allocates a slice and uploads `data` to it without a copy on the host. `data` is dropped after the upload. May
    /// block as [`Stream::create`].
    ///
    /// # Errors
    /// Same as [`Stream::create`]. The error carries `data`, which was not taken: [`Returned`].
    pub fn create_owned<T: Stored>(&self, data: Vec<T>) -> Result<Handle<T>, Returned<Vec<T>>> {
        self.create_with(data)
    }

    /// Overwrites `target` with a copy of `data`, which must have the same length. May block as
    /// [`Stream::create`].
    ///
    /// # Errors
    /// [`Error::Argument`] if the lengths differ, [`Error::Foreign`], [`Error::Closed`].
    pub fn write<T: Stored>(&self, target: &Handle<T>, data: &[T]) -> Result<(), Error> {
        self.check_handle(target)?;
        same_length("write", size_of_val(data) as u64, target.size())?;
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let binding = target.binding(Access::Write);
        if bytes.len() > INLINE_BYTES {
            return self.upload(binding, None, bytes.len(), || self.staged(data));
        }
        self.write_words(binding, bytes)
    }

    /// Sends up to [`INLINE_BYTES`] inside the message.
    fn write_words(&self, target: Binding, bytes: &[u8]) -> Result<(), Error> {
        let op = Op::CopyIn(HostSource::Words(bytes.len() as u32));
        self.submit(op, |task: &mut Task| fill_words(task, target, bytes))
    }

    /// Uploads `bytes` owned bytes, within the client's limit for uploads. `data` runs once there is room, so
    /// a call that returns [`Error::Busy`] has copied nothing.
    pub(crate) fn upload<H: HostBytes>(
        &self,
        target: Binding,
        layout: Option<Strided>,
        bytes: usize,
        data: impl FnOnce() -> H,
    ) -> Result<(), Error> {
        let permit = self.upload_permit(bytes)?;
        let stream = self.registered_id()?;
        let credit = self.task_credit(1)?;
        // Before the slot is reserved, since the device takes no message behind it while the bytes are copied.
        let mut task = Task::new(Some(stream), Op::Taken);
        fill_upload(&mut task, (target, layout), data(), permit);
        let slot = self.device().reserve(self.waits())?;
        credit.sent();
        self.bind_terms(&mut task);
        slot.send(task);
        Ok(())
    }

    /// Returns the staging memory that uploads use.
    pub(crate) fn staging(&self) -> &Arc<Staging> {
        &self.device().table().sink().staging
    }

    /// Copies `data` to staging memory.
    pub(crate) fn staged<T: Stored>(&self, data: &[T]) -> Staged {
        self.staging().copy(bytemuck::cast_slice(data))
    }

    /// Acquires a permit for an upload of `bytes`.
    pub(crate) fn upload_permit(&self, bytes: usize) -> Result<Permit, Error> {
        let credit = self.uploads();
        let requested = bytes as u64;
        // An upload above the whole limit takes all of it, and so goes alone.
        let amount = requested.min(credit.limit());
        let headroom = match self.grants() {
            Some(_) => 0,
            None => self.device().settings().callback_upload_headroom,
        };
        self.permit(None, credit, (amount, headroom), |seen| Full::Uploads {
            requested,
            in_use: seen.in_use,
            limit: seen.limit,
        })
    }

    /// Copies `source` to `target`, which must have the same length. May block while there is no room for the task.
    ///
    /// # Errors
    /// [`Error::Argument`] if the lengths differ or the two overlap, [`Error::Foreign`], [`Error::Closed`].
    pub fn copy<T: Stored>(&self, source: &Handle<T>, target: &Handle<T>) -> Result<(), Error> {
        let (from, to) = self.check_copy(source, target)?;
        self.submit(Op::Copy, |task| {
            task.push_binding(from);
            task.push_binding(to);
        })
    }

    /// Checks a copy and returns its bindings.
    pub(crate) fn check_copy<T: Stored>(
        &self,
        source: &Handle<T>,
        target: &Handle<T>,
    ) -> Result<(Binding, Binding), Error> {
        self.check_handle(source)?;
        self.check_handle(target)?;
        same_length("copy", source.size(), target.size())?;
        let (from, to) = (source.binding(Access::Read), target.binding(Access::Write));
        if from.overlaps(&to) {
            let why = ArgumentError::overlap("source", "target", from.shared_bytes(&to));
            return Err(why.of("copy").into());
        }
        Ok((from, to))
    }

    /// Sets every element of `target` to `value`. May block while there is no room for the task.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Closed`].
    pub fn fill<T: Element>(&self, target: &Handle<T>, value: T) -> Result<(), Error> {
        self.check_handle(target)?;
        let binding = target.binding(Access::Write);
        self.submit(Op::Fill(Pattern::of(value)), |task| {
            task.push_binding(binding);
        })
    }

    /// Reads the elements of `source` after all tasks added to the stream so far. May block while there is no room for
    /// the task; never waits for the device's work.
    pub fn read<T: Stored>(&self, source: &Handle<T>) -> Pending<Vec<T>> {
        self.read_into(source, Vec::new())
    }

    /// As [`Stream::read`], into existing memory. This avoids page faults: for 1 MiB and more, the first touch of fresh
    /// memory takes several times as long as the copy. The answer is `memory` with exactly the elements of `source`.
    ///
    /// If the capacity of `memory` is too small it is dropped, and the answer is a new vector. After an error it is
    /// dropped as well.
    ///
    /// ```
    /// # use millstream_client::Stream;
    /// # use millstream_protocol::Error;
    /// # use millstream_client::handle::Handle;
    /// # fn f(stream: &Stream, image: &Handle<u8>) -> Result<(), Error> {
    /// let mut pixels = Vec::new();
    /// for _frame in 0..3 {
    ///     pixels = stream.read_into(image, pixels).wait()?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn read_into<T: Stored>(&self, source: &Handle<T>, memory: Vec<T>) -> Pending<Vec<T>> {
        self.read_to(source, VecLanding::within(memory, source.len()), None)
            .unwrap_or_else(|error| Pending::failed(self.requester(), error))
    }

    /// Reads to a landing. The submission log stores `tag`.
    pub(super) fn read_to<T: Stored>(
        &self,
        source: &Handle<T>,
        landing: Result<Arc<VecLanding<T>>, MemoryError>,
        tag: Option<u64>,
    ) -> Result<Pending<Vec<T>>, Error> {
        let landing = landing?;
        let finish = Finish::Landed(landing.clone());
        let mut landings: SmallVec<[Arc<dyn Landing>; 1]> = SmallVec::new();
        landings.push(landing);
        self.copy_out(&[(source, None)], landings, tag, finish)
    }

    /// Reads the elements of several handles, in one answer. May block while there is no room for the task; never waits
    /// for the device's work.
    pub fn read_many<'a, T: Stored>(
        &self,
        sources: impl IntoIterator<Item = &'a Handle<T>>,
    ) -> Pending<Vec<Vec<T>>> {
        let wanted: Vec<(&Handle<T>, Option<Strided>)> =
            sources.into_iter().map(|source| (source, None)).collect();
        self.read_each(&wanted, None)
    }

    pub(crate) fn read_each<T: Stored>(
        &self,
        wanted: &[(&Handle<T>, Option<Strided>)],
        tag: Option<u64>,
    ) -> Pending<Vec<Vec<T>>> {
        let elements = |source: &Handle<T>, layout: &Option<Strided>| match layout {
            Some(layout) => layout.dense_bytes() as usize / size_of::<T>(),
            None => source.len(),
        };
        let typed = wanted
            .iter()
            .map(|(source, layout)| VecLanding::new(elements(source, layout)));
        let typed: Vec<Arc<VecLanding<T>>> = match typed.collect() {
            Ok(typed) => typed,
            Err(error) => return Pending::failed(self.requester(), Error::Memory(error)),
        };
        let landings = typed
            .iter()
            .map(|landing| landing.clone() as Arc<dyn Landing>)
            .collect();
        let take = |landing: &Arc<VecLanding<T>>| {
            // SAFETY: the answer calls this once, after the point of the copies has passed.
            unsafe { landing.take() }
        };
        let finish = Finish::Made(Box::new(move || typed.iter().map(take).collect()));
        match self.copy_out(wanted, landings, tag, finish) {
            Ok(pending) => pending,
            Err(error) => Pending::failed(self.requester(), error),
        }
    }

    pub(crate) fn copy_out<T: Stored, V: Send + 'static>(
        &self,
        wanted: &[(&Handle<T>, Option<Strided>)],
        landings: SmallVec<[Arc<dyn Landing>; 1]>,
        tag: Option<u64>,
        finish: Finish<V>,
    ) -> Result<Pending<V>, Error> {
        for (source, _) in wanted {
            self.check_handle(source)?;
        }
        let (sender, receiver) = reply();
        self.submit(
            Op::CopyOut(Box::new(CopyOut {
                landings,
                reply: sender,
                tag,
            })),
            |task| {
                for (source, _) in wanted {
                    task.push_binding(source.binding(Access::Read));
                }
                if wanted.iter().any(|(_, layout)| layout.is_some()) {
                    task.extra.get_or_insert().layouts =
                        wanted.iter().map(|(_, layout)| layout.clone()).collect();
                }
            },
        )?;
        Ok(Pending::ticket(self.requester(), receiver, finish))
    }
}

/// Completes a copy in of owned bytes.
pub(crate) fn fill_upload<H: HostBytes>(
    task: &mut Task,
    (target, layout): (Binding, Option<Strided>),
    data: H,
    permit: Permit,
) {
    task.op = copy_in(permitted(data, permit));
    task.push_binding(target);
    if layout.is_some() {
        task.extra.get_or_insert().layouts.push(layout);
    }
}

/// Completes a copy in of up to [`INLINE_BYTES`].
fn fill_words(task: &mut Task, target: Binding, bytes: &[u8]) {
    task.push_binding(target);
    let mut words = [0_u64; INLINE_WORDS];
    bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
    task.set_words(&words[..bytes.len().div_ceil(8)]);
}

pub(crate) fn same_length(task: &str, source: u64, target: u64) -> Result<(), Error> {
    match source == target {
        true => Ok(()),
        false => Err(ArgumentError::lengths(source, target).of(task).into()),
    }
}
