//! Copies between host and device, and on the device.

use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::binding::Binding;
use millstream_protocol::element::Element;
use millstream_protocol::error::{Error, Full, LaunchError, MemoryError};
use millstream_protocol::launch::INLINE_WORDS;
use millstream_protocol::launch::Pattern;
use millstream_protocol::layout::Strided;
use millstream_protocol::marks::is_runtime_thread;
use millstream_protocol::memory::AllocationMode;
use millstream_protocol::message::{CopyOut, HostBytes, HostSource, Op, Task};
use millstream_protocol::staging::{Staged, Staging};
use millstream_sync::reply::reply;
use smallvec::SmallVec;

use crate::handle::Handle;
use crate::{Finish, Pending, Returned, Room, Stream};
use millstream_protocol::landing::{Landed, Landing, VecLanding};

/// Bytes that travel inside a message.
const INLINE_BYTES: usize = INLINE_WORDS * 8;

/// Bytes on their way to the device, with the room that they take.
struct Upload<H: HostBytes> {
    data: H,
    _room: Room,
}

impl<H: HostBytes> HostBytes for Upload<H> {
    fn bytes(&self) -> &[u8] {
        self.data.bytes()
    }

    fn let_go(&mut self) {
        self.data.let_go();
    }

    fn is_of_host_memory(&self) -> bool {
        self.data.is_of_host_memory()
    }
}

impl Stream {
    /// A slice with a copy of `data`. The copy is made before this returns, so `data` is free again.
    ///
    /// May wait for room in the mailbox, or for earlier uploads of this client beyond
    /// [`max_upload_bytes`](millstream_protocol::options::DeviceOptions::max_upload_bytes).
    ///
    /// # Errors
    /// As [`Stream::empty`].
    pub fn create<T: Element>(&self, data: &[T]) -> Result<Handle<T>, Error> {
        self.room_for_both()?;
        let (wait, bytes) = (self.waits(), size_of_val(data));
        // Before anything is sent: a reservation whose data finds no room would be for nothing.
        let room = match bytes > INLINE_BYTES {
            true => Some(self.upload_room(wait, bytes)?),
            false => None,
        };
        let handle = self.reserve(wait, data.len(), AllocationMode::Automatic)?;
        let target = handle.binding(Access::Write);
        match room {
            Some(room) => self.upload_in(room, wait, target, None, || self.staged(data))?,
            None => self.write_words(wait, target, bytemuck::cast_slice(data))?,
        }
        Ok(handle)
    }

    /// A slice with `data`, which is copied straight to the device and dropped there. May wait as
    /// [`Stream::create`].
    ///
    /// # Errors
    /// As [`Stream::create`], with `data`, which was not taken: [`Returned`].
    pub fn create_owned<T: Element>(&self, data: Vec<T>) -> Result<Handle<T>, Returned<Vec<T>>> {
        let bytes = size_of_val(data.as_slice());
        let prepared = self.room_for_both().and_then(|()| {
            let room = self.upload_room(self.waits(), bytes)?;
            let handle = self.reserve(self.waits(), data.len(), AllocationMode::Automatic)?;
            Ok((room, handle))
        });
        let (room, handle) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Err(Returned { value: data, error }),
        };
        let target = handle.binding(Access::Write);
        let upload = Upload { data, _room: room };
        let sent = self.submit_value(
            self.waits(),
            upload,
            |upload| Op::CopyIn(HostSource::Owned(Box::new(upload))),
            |task| task.push_binding(target),
        );
        match sent {
            Ok(()) => Ok(handle),
            Err(returned) => Err(returned.map(|upload| upload.data)),
        }
    }

    /// A slice with its data is two tasks. Where calls do not wait, none is sent that the other could not follow: it
    /// would stand in the way of the next try. Whoever takes the room between is another thread.
    fn room_for_both(&self) -> Result<(), Error> {
        let credit = self.credit();
        if let Some(purse) = self.purse() {
            // Both are taken now, so that no other caller gets one of them between.
            if purse.reserve(credit, 2) || credit.has_ended() {
                return Ok(());
            }
        }
        let (held, limit) = (credit.in_use(), credit.limit());
        let cannot_wait = is_runtime_thread();
        let headroom = match cannot_wait {
            true => self.callback_headroom(),
            false => 0,
        };
        let fits = self.purse().is_none() && held + 2 <= limit.saturating_add(headroom);
        if fits || credit.has_ended() || (self.waits() && !cannot_wait) {
            return Ok(());
        }
        let what = Full::Stream { held, limit };
        Err(match self.waits() || headroom > 0 {
            true => Error::NoRoomHere { what },
            false => Error::Busy { what },
        })
    }

    /// Overwrites `target` with a copy of `data`, which must be as long. May wait as
    /// [`Stream::create`]; [`Stream::try_write`] does not.
    ///
    /// # Errors
    /// [`Error::Launch`] when the lengths differ, [`Error::Foreign`], [`Error::Closed`].
    pub fn write<T: Element>(&self, target: &Handle<T>, data: &[T]) -> Result<(), Error> {
        self.write_with(self.waits(), target, data)
    }

    /// As [`Stream::write`], but never waits.
    ///
    /// # Errors
    /// Also [`Error::Busy`].
    pub fn try_write<T: Element>(&self, target: &Handle<T>, data: &[T]) -> Result<(), Error> {
        self.write_with(false, target, data)
    }

    fn write_with<T: Element>(
        &self,
        wait: bool,
        target: &Handle<T>,
        data: &[T],
    ) -> Result<(), Error> {
        self.own(target)?;
        same_length("write", size_of_val(data) as u64, target.size())?;
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let binding = target.binding(Access::Write);
        if bytes.len() > INLINE_BYTES {
            return self.upload(wait, binding, None, bytes.len(), || self.staged(data));
        }
        self.write_words(wait, binding, bytes)
    }

    /// Sends a few bytes inside the message.
    fn write_words(&self, wait: bool, target: Binding, bytes: &[u8]) -> Result<(), Error> {
        self.submit(
            wait,
            Op::CopyIn(HostSource::Words(bytes.len() as u32)),
            |task: &mut Task| {
                task.push_binding(target);
                let mut words = [0_u64; INLINE_WORDS];
                bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
                task.set_words(&words[..bytes.len().div_ceil(8)]);
            },
        )
    }

    /// Sends so many owned bytes, within the client's room for uploads. They are made when there is room:
    /// who is told to try again has copied nothing.
    pub(crate) fn upload<H: HostBytes>(
        &self,
        wait: bool,
        target: Binding,
        layout: Option<Strided>,
        bytes: usize,
        data: impl FnOnce() -> H,
    ) -> Result<(), Error> {
        let room = self.upload_room(wait, bytes)?;
        self.upload_in(room, wait, target, layout, data)
    }

    /// Sends owned bytes that have room among the client's uploads.
    fn upload_in<H: HostBytes>(
        &self,
        room: Room,
        wait: bool,
        target: Binding,
        layout: Option<Strided>,
        data: impl FnOnce() -> H,
    ) -> Result<(), Error> {
        self.submit_with(wait, |task| {
            let upload = Upload {
                data: data(),
                _room: room,
            };
            task.op = Op::CopyIn(HostSource::Owned(Box::new(upload)));
            task.push_binding(target);
            if layout.is_some() {
                task.extra.get_or_insert().layouts.push(layout);
            }
        })
    }

    /// The memory that uploads go through.
    pub(crate) fn staging(&self) -> &Arc<Staging> {
        &self.device().table().sink().staging
    }

    /// A copy of `data`, on its way to the device.
    pub(crate) fn staged<T: Element>(&self, data: &[T]) -> Staged {
        self.staging().copy(bytemuck::cast_slice(data))
    }

    /// Room among the client's uploads for so many bytes.
    fn upload_room(&self, wait: bool, bytes: usize) -> Result<Room, Error> {
        let credit = self.uploads();
        let asked = bytes as u64;
        // What is larger than the whole credit goes alone.
        let amount = asked.min(credit.limit());
        let headroom = match self.purse() {
            Some(_) => 0,
            None => self.device().settings().callback_upload_headroom,
        };
        self.take_room(wait, credit, (amount, headroom), || Full::Uploads {
            asked,
            in_use: credit.in_use(),
            limit: credit.limit(),
        })
    }

    /// Copies `source` to `target`, which must have as many bytes. May wait for room in the mailbox.
    ///
    /// # Errors
    /// [`Error::Launch`] when the lengths differ or the two overlap, [`Error::Foreign`], [`Error::Closed`].
    pub fn copy<T: Element>(&self, source: &Handle<T>, target: &Handle<T>) -> Result<(), Error> {
        let (from, to) = self.check_copy(source, target)?;
        self.submit(self.waits(), Op::Copy, |task| {
            task.push_binding(from);
            task.push_binding(to);
        })
    }

    /// The bindings of a copy, if it can be made.
    pub(crate) fn check_copy<T: Element>(
        &self,
        source: &Handle<T>,
        target: &Handle<T>,
    ) -> Result<(Binding, Binding), Error> {
        self.own(source)?;
        self.own(target)?;
        same_length("copy", source.size(), target.size())?;
        let (from, to) = (source.binding(Access::Read), target.binding(Access::Write));
        if from.overlaps(&to) {
            let (first, second) = ("source".into(), "target".into());
            return Err(Error::Launch {
                task: "copy".into(),
                why: LaunchError::Overlap { first, second },
            });
        }
        Ok((from, to))
    }

    /// Sets every element of `target` to `value`. May wait for room in the mailbox.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Closed`].
    pub fn fill<T: Element>(&self, target: &Handle<T>, value: T) -> Result<(), Error> {
        self.own(target)?;
        let binding = target.binding(Access::Write);
        self.submit(self.waits(), Op::Fill(Pattern::of(value)), |task| {
            task.push_binding(binding);
        })
    }

    /// The elements of `source`, once everything before has run. Asking may wait for room in the mailbox,
    /// never for the device's work.
    pub fn read<T: Element>(&self, source: &Handle<T>) -> Pending<Vec<T>> {
        self.read_to(source, VecLanding::new(source.len()))
    }

    /// As [`Stream::read`], into memory that is in use already: the system gives fresh memory page by page, and that takes several
    /// times as long as the copy from 1 MiB on. The answer is `memory`, with the elements of `source` and nothing else.
    ///
    /// Memory that has not enough capacity is dropped, and the answer is a new vector; after an error it is dropped as well.
    ///
    /// ```
    /// # use millstream_client::Stream;
    /// # use millstream_protocol::error::Error;
    /// # use millstream_client::handle::Handle;
    /// # fn f(stream: &Stream, image: &Handle<u8>) -> Result<(), Error> {
    /// let mut pixels = Vec::new();
    /// for _frame in 0..3 {
    ///     pixels = stream.read_into(image, pixels).wait()?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn read_into<T: Element>(&self, source: &Handle<T>, memory: Vec<T>) -> Pending<Vec<T>> {
        self.read_to(source, VecLanding::within(memory, source.len()))
    }

    fn read_to<T: Element>(
        &self,
        source: &Handle<T>,
        landing: Result<Arc<VecLanding<T>>, MemoryError>,
    ) -> Pending<Vec<T>> {
        self.read_in_turn(source, landing, None, || ())
            .unwrap_or_else(|error| Pending::failed(self.home(), error))
    }

    /// Reads to a landing, with a number that the submission log keeps, in the turn that `turn` takes: see [`Stream::submit_in_turn`].
    pub(super) fn read_in_turn<T: Element>(
        &self,
        source: &Handle<T>,
        landing: Result<Arc<VecLanding<T>>, MemoryError>,
        tag: Option<u64>,
        turn: impl FnOnce(),
    ) -> Result<Pending<Vec<T>>, Error> {
        let landing = landing?;
        let finish = Finish::Landed(landing.clone());
        let mut landings: SmallVec<[Arc<dyn Landing>; 1]> = SmallVec::new();
        landings.push(landing);
        self.copy_out(&[(source, None)], landings, (tag, turn), finish)
    }

    /// The elements of several handles, in one answer. Asking may wait for room in the mailbox.
    pub fn read_many<'a, T: Element>(
        &self,
        sources: impl IntoIterator<Item = &'a Handle<T>>,
    ) -> Pending<Vec<Vec<T>>> {
        let wanted: Vec<(&Handle<T>, Option<Strided>)> =
            sources.into_iter().map(|source| (source, None)).collect();
        self.read_each(&wanted)
    }

    pub(crate) fn read_each<T: Element>(
        &self,
        wanted: &[(&Handle<T>, Option<Strided>)],
    ) -> Pending<Vec<Vec<T>>> {
        let elements = |source: &Handle<T>, layout: &Option<Strided>| match layout {
            Some(layout) => layout.elements() as usize,
            None => source.len(),
        };
        let typed = wanted
            .iter()
            .map(|(source, layout)| VecLanding::new(elements(source, layout)));
        let typed: Vec<Arc<VecLanding<T>>> = match typed.collect() {
            Ok(typed) => typed,
            Err(error) => return Pending::failed(self.home(), Error::Memory(error)),
        };
        let landings = typed
            .iter()
            .map(|landing| landing.clone() as Arc<dyn Landing>)
            .collect();
        let take = |landing: &Arc<VecLanding<T>>| {
            // SAFETY: the answer calls this once, after the copies' point has passed.
            unsafe { landing.take() }
        };
        let finish = Finish::Made(Box::new(move || typed.iter().map(take).collect()));
        match self.copy_out(wanted, landings, (None, || ()), finish) {
            Ok(pending) => pending,
            Err(error) => Pending::failed(self.home(), error),
        }
    }

    fn copy_out<T: Element, V: Send + 'static>(
        &self,
        wanted: &[(&Handle<T>, Option<Strided>)],
        landings: SmallVec<[Arc<dyn Landing>; 1]>,
        (tag, turn): (Option<u64>, impl FnOnce()),
        finish: Finish<V>,
    ) -> Result<Pending<V>, Error> {
        for (source, _) in wanted {
            self.own(source)?;
        }
        let (sender, receiver) = reply();
        self.submit_in_turn(
            self.waits(),
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
            turn,
        )?;
        Ok(Pending::ticket(self.home(), receiver, finish))
    }
}

fn same_length(task: &str, source_bytes: u64, destination_bytes: u64) -> Result<(), Error> {
    if source_bytes == destination_bytes {
        return Ok(());
    }
    Err(Error::Launch {
        task: task.into(),
        why: LaunchError::Length {
            source_bytes,
            destination_bytes,
        },
    })
}
