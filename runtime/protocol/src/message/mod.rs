//! The messages in a device's mailbox: tasks of streams, and requests to the device itself.
//!
//! A [`Task`] is built in its mailbox slot by the thread that submits it, and read there by the device thread, so its
//! layout matters: the fields that every task uses fill the first cache line. Bindings and scalars follow, filled
//! from the front. Rare or large parts are boxed.
//!
//! One core writes a task and another one reads it, so its cost is that of the cache lines that move between them.
//! With the turn of the slot behind the message and the counts behind the bindings, a launch without arguments touches
//! three lines and takes its caller 50 ns instead of 35 (two cores, `millstream-peers sample ours launch-bare`).

use std::any::Any;
use std::mem::MaybeUninit;
use std::sync::Arc;

use millstream_sync::reply::ReplySender;
use smallvec::SmallVec;

use crate::binding::Binding;
use crate::cancel::Terms;
use crate::error::Error;
use crate::hazard::order::Order;
use crate::id::{ClientId, ClientSlotId, KernelId, Point, RecordingId, SliceId, StreamId};
use crate::kernel::BackendKernel;
use crate::kernel::Kernel;
use crate::landing::Landing;
use crate::launch::{INLINE_BINDINGS, INLINE_WORDS, Inline, LaunchCount, Pattern};
use crate::memory::AllocationMode;
use crate::priority::Priority;
use crate::recording::RecordedTask;
use crate::report::TraceSpan;

mod device_request;
mod extras;
mod host;
pub(crate) mod owned_bytes;

pub use device_request::{DeviceRequest, Scope, SyncParts};
pub use extras::{Extra, TaskExtras};
pub use host::{
    CustomWork, FailFn, HostDone, HostFn, HostNeeds, HostOutcome, HostPlace, HostSource, HostWork,
    RestFn,
};
pub use owned_bytes::{HostBytes, HostUpload, OwnedBytes, ReleaseToken};

/// One entry of a stream.
#[repr(C)]
pub struct Task {
    /// The stream that orders the task; `None` for requests to the device itself.
    pub stream: Option<StreamId>,
    /// The number of initialized words. It lies here so that a task without words touches one cache line less.
    word_count: u8,
    /// The operation.
    pub op: Op,
    /// The rare parts.
    pub extra: TaskExtras,
    /// The ranges that the task accesses.
    pub bindings: Inline<Binding, INLINE_BINDINGS>,
    /// The packed scalars of a launch, or the bytes of a small copy in. The first `word_count` are initialized.
    words: [MaybeUninit<u64>; INLINE_WORDS],
}

// The fields that every task uses lie before the bindings. Together with the count of bindings and the sequence
// number of the mailbox slot they fit in one cache line, which is all that moves between cores for a launch without
// arguments.
#[cfg(all(target_pointer_width = "64", not(any(loom, shuttle))))]
const _: () = assert!(std::mem::offset_of!(Task, bindings) <= 48);

/// The operation of a task.
pub enum Op {
    /// None: the task was moved out of its slot, or the slot was committed without a task.
    Taken,
    /// Runs a kernel.
    Launch {
        /// The kernel.
        kernel: KernelId,
        /// The cube count.
        count: LaunchCount,
    },
    /// Reserves the memory of the slice in the first binding.
    Reserve {
        /// The client that is charged.
        client: ClientId,
        /// How the memory is reserved; `None` for a point, which is a slice without memory.
        mode: Option<AllocationMode>,
        /// Its position in the mailbox, once the device has admitted it.
        position: u64,
    },
    /// Copies from the host into the bindings.
    CopyIn(HostSource),
    /// Copies the bindings to the host, and answers.
    CopyOut(Box<CopyOut>),
    /// Copies the first binding to the second.
    Copy,
    /// Fills the binding with a repeated pattern.
    Fill(Pattern),
    /// Does nothing, in order: a point to wait for, or an explicit dependency.
    Mark,
    /// Answers once everything before it in the stream has been issued.
    Answer(Reply),
    /// One stream's part of a sync over several streams: counted once everything before it in the stream has been issued.
    SyncPart(Arc<SyncParts>),
    /// Runs user code on a host thread, after everything that it depends on has completed.
    Host(Box<HostWork>),
    /// Runs user code on the queue, with the backend's resources.
    Custom(Box<Custom>),
    /// Drops a value once everything before it in the stream has completed.
    DropAfter(Box<dyn Any + Send>),
    /// Replays a recording with the bindings as its parameters, and the scalars in its slots.
    Replay {
        /// The recording.
        recording: RecordingId,
        /// Whether parameters overlap and one of them is written. If so, the recorded order lacks conflicts.
        overlap: bool,
    },
    /// A request to the device itself.
    Device(Box<DeviceRequest>),
    /// Registers a kernel, recording, parameter or stream under its slot.
    Register(Box<Registration>),
    /// Submits the held tasks of the stream.
    Flush,
}

impl Op {
    /// Returns the name of the operation, for tasks without a kernel's name.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Taken => "nothing",
            Op::Launch { .. } => "launch",
            Op::Reserve { .. } => "reserve",
            Op::CopyIn(_) => "copy in",
            Op::CopyOut(_) => "copy out",
            Op::Copy => "copy",
            Op::Fill(_) => "fill",
            Op::Mark => "point",
            Op::Answer(_) | Op::SyncPart(_) => "sync",
            Op::Host(_) => "host function",
            Op::Custom(_) => "custom",
            Op::DropAfter(_) => "drop after",
            Op::Replay { .. } => "replay",
            Op::Device(_) => "device request",
            Op::Register(_) => "register",
            Op::Flush => "flush",
        }
    }
}

/// The state of a request whose tasks are all issued: it completes when these points have passed.
#[derive(Clone, Default, Debug)]
pub struct Ticket {
    /// The points, at most one per queue.
    pub points: SmallVec<[Point; 2]>,
}

/// The sender of a ticket.
pub type Reply = ReplySender<Result<Ticket, Error>>;

/// A copy to the host.
pub struct CopyOut {
    /// The landings of the bytes, one per binding.
    pub landings: SmallVec<[Arc<dyn Landing>; 1]>,
    /// The receiver of the ticket.
    pub reply: Reply,
    /// The caller's tag of the readback, if it is a number. For the submission log.
    pub tag: Option<u64>,
}

/// User code that runs on a queue, with the backend's resources.
pub struct Custom {
    /// Its name, for failures and traces.
    pub name: Arc<str>,
    /// The code.
    pub work: CustomWork,
}

/// An object that becomes known under a slot of the table.
pub enum Registration {
    /// A prepared kernel.
    Kernel {
        /// Its slot.
        id: KernelId,
        /// The kernel as its author declared it.
        kernel: Arc<Kernel>,
        /// The compiled kernel.
        code: BackendKernel,
    },
    /// A parameter of recordings: a slice that never has memory.
    Parameter {
        /// Its slot.
        id: SliceId,
        /// Its length.
        bytes: u64,
        /// The client that made it.
        client: ClientId,
    },
    /// A recording.
    Recording {
        /// Its slot.
        id: RecordingId,
        /// Its tasks.
        tasks: Arc<[RecordedTask]>,
        /// The order of its tasks.
        order: Order,
        /// Parameters of which a task may read bytes that no task of the replay has defined before: those of an earlier
        /// replay.
        stale: Box<[u32]>,
    },
    /// A stream.
    Stream(NewStream),
}

/// A stream that is added.
pub struct NewStream {
    /// Its slot.
    pub id: StreamId,
    /// Its client.
    pub client: ClientId,
    /// The client's name.
    pub client_name: Arc<str>,
    /// The client's own slot. The device keeps the client's accounts until it is dropped.
    pub client_slot: Option<ClientSlotId>,
    /// The priority of the client.
    pub priority: Priority,
    /// Its share of the turns among streams of its priority.
    pub weight: u32,
    /// Bytes that the client may use before other clients are served first.
    pub soft_limit: Option<u64>,
    /// Credit for tasks that have not been issued.
    pub credit: Arc<millstream_sync::credit::Credit>,
    /// Whether other streams share the credit.
    pub credit_is_shared: bool,
}

impl Task {
    /// A task without bindings.
    #[inline]
    pub fn new(stream: Option<StreamId>, op: Op) -> Self {
        Self {
            stream,
            op,
            extra: TaskExtras::default(),
            bindings: Inline::new(),
            word_count: 0,
            words: [const { MaybeUninit::uninit() }; INLINE_WORDS],
        }
    }

    /// Returns the terms that may withdraw the task.
    #[inline]
    pub fn terms(&self) -> Option<&Terms> {
        self.extra.terms()
    }

    /// Returns the terms that may withdraw the task, shared.
    pub fn shared_terms(&self) -> Option<Arc<Terms>> {
        self.extra.shared_terms()
    }

    /// Puts the task under terms, unless it is a mark, an answer or a deferred drop, which only observe the other
    /// tasks.
    #[cold]
    pub fn put_under(&mut self, terms: &Arc<Terms>) {
        if !matches!(
            self.op,
            Op::Answer(_) | Op::SyncPart(_) | Op::Mark | Op::DropAfter(_)
        ) {
            self.extra.put_under(terms.clone());
            terms.accepted();
        }
    }

    /// Returns the inline words.
    #[inline]
    pub fn words(&self) -> &[u64] {
        // SAFETY: the first `word_count` words are initialized.
        unsafe {
            std::slice::from_raw_parts(self.words.as_ptr().cast(), usize::from(self.word_count))
        }
    }

    /// Sets the inline words; words beyond [`INLINE_WORDS`] are ignored.
    #[inline]
    pub fn set_words(&mut self, words: &[u64]) {
        let count = words.len().min(INLINE_WORDS);
        for (place, word) in self.words.iter_mut().zip(words) {
            place.write(*word);
        }
        self.word_count = count as u8;
    }

    /// Sets the inline words to the first `count` of `words`. Copies one half or both halves, whatever the count: a
    /// variable copy of a few words costs more than the words.
    #[inline]
    pub fn set_first_words(&mut self, words: &[u64; INLINE_WORDS], count: usize) {
        const HALF: usize = INLINE_WORDS / 2;
        let place = self.words.as_mut_ptr().cast::<u64>();
        // SAFETY: both halves lie within `INLINE_WORDS` words of a plain type.
        unsafe {
            std::ptr::copy_nonoverlapping(words.as_ptr(), place, HALF);
            if count > HALF {
                std::ptr::copy_nonoverlapping(words[HALF..].as_ptr(), place.add(HALF), HALF);
            }
        }
        self.word_count = count.min(INLINE_WORDS) as u8;
    }

    /// Sets the packed scalars, on the heap if they exceed the inline room.
    #[inline]
    pub fn set_scalars(&mut self, words: &[u64]) {
        match words.len() {
            0..=INLINE_WORDS => self.set_words(words),
            _ => self.extra.get_or_insert().words = words.to_vec(),
        }
    }

    /// Sets the bindings of a task that has none; those beyond the inline room go to the heap.
    #[inline]
    pub fn set_bindings(&mut self, bindings: &[Binding]) {
        self.bindings.set(bindings);
        if bindings.len() > INLINE_BINDINGS {
            self.extra.get_or_insert().bindings = bindings[INLINE_BINDINGS..].to_vec();
        }
    }

    /// Adds a binding, on the heap if the inline room is full.
    #[inline]
    pub fn push_binding(&mut self, binding: Binding) {
        if let Err(binding) = self.bindings.push(binding) {
            self.extra.get_or_insert().bindings.push(binding);
        }
    }

    /// Returns the bindings, inline ones first.
    #[inline]
    pub fn all_bindings(&self) -> impl Iterator<Item = &Binding> + Clone {
        let more: &[Binding] = self.extra.more().map_or(&[], |more| &more.bindings);
        self.bindings.iter().chain(more)
    }

    /// Returns the bindings mutably, inline ones first.
    pub fn all_bindings_mut(&mut self) -> impl Iterator<Item = &mut Binding> {
        let more: &mut [Binding] = match self.extra.more_mut() {
            Some(more) => &mut more.bindings,
            None => &mut [],
        };
        self.bindings.iter_mut().chain(more)
    }

    /// Returns the packed scalars.
    #[inline]
    pub fn scalars(&self) -> &[u64] {
        match self.extra.more() {
            Some(extra) if !extra.words.is_empty() => &extra.words,
            _ => self.words(),
        }
    }

    /// Moves `other` into `self`, copying only the parts in use. Leaves [`Op::Taken`] in `other`.
    #[inline]
    pub fn take_from(&mut self, other: &mut Task) {
        self.stream = other.stream;
        self.op = std::mem::replace(&mut other.op, Op::Taken);
        self.extra = std::mem::take(&mut other.extra);
        self.bindings.copy_from(&other.bindings);
        self.set_words(other.words());
    }
}

/// The spans of a trace, as an answer.
pub type Spans = Vec<TraceSpan>;
