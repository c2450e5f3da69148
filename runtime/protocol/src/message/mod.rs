//! What travels through a device's mailbox: tasks of streams, and asks of the device.
//!
//! A [`Task`] is built in its mailbox slot by the thread that submits it and read there by the
//! device thread, so its layout matters: what every task needs fills the first cache line, bindings
//! and scalars follow in the order in which they are used up. What is rare or large is boxed.

use std::any::Any;
use std::mem::MaybeUninit;
use std::sync::Arc;

use millstream_sync::reply::ReplySender;
use smallvec::SmallVec;

use crate::binding::Binding;
use crate::cancel::Terms;
use crate::error::Error;
use crate::hazard::order::Order;
use crate::id::{ClientId, KernelId, Point, RecordingId, SeatId, SliceId, StreamId};
use crate::kernel::BackendKernel;
use crate::kernel::{ExecutionMode, Kernel};
use crate::landing::Landing;
use crate::launch::{INLINE_BINDINGS, INLINE_WORDS, Inline, LaunchCount, Pattern};
use crate::memory::AllocationMode;
use crate::priority::Priority;
use crate::recording::RecordedTask;
use crate::report::TraceSpan;

mod ask;
mod host;
mod extras;

pub use ask::{Ask, Scope};
pub use host::{CustomWork, FailFn, HostBytes, HostDone, HostFn, HostSource, HostWork};
pub use extras::{Extra, Rare};

/// One entry of a stream.
#[repr(C)]
pub struct Task {
    /// The stream whose order it is in; `None` for asks of the device itself.
    pub stream: Option<StreamId>,
    /// Is it guarded, if it is a launch? Here it fills a gap: within `Op` it would cost eight bytes.
    pub mode: ExecutionMode,
    /// Words in use: here, so that a task without any touches one cache line less.
    word_count: u8,
    /// What it does.
    pub op: Op,
    /// What is rare.
    pub extra: Rare,
    /// What it touches.
    pub bindings: Inline<Binding, INLINE_BINDINGS>,
    /// Packed scalars of a launch, or the bytes of a small copy in. The first `word_count` are
    /// initialized.
    words: [MaybeUninit<u64>; INLINE_WORDS],
}

// What every task needs lies before its bindings: with their count and the turn of its slot within one cache
// line, which is all that travels between the cores for a launch without arguments.
#[cfg(all(target_pointer_width = "64", not(any(loom, shuttle))))]
const _: () = assert!(std::mem::offset_of!(Task, bindings) <= 48);

/// What a task does.
pub enum Op {
    /// Nothing: a task that was taken out of its slot.
    Taken,
    /// Runs a kernel.
    Launch {
        /// The kernel.
        kernel: KernelId,
        /// Its cubes.
        count: LaunchCount,
    },
    /// Reserves the memory of the slice in the first binding.
    Reserve {
        /// Who pays.
        client: ClientId,
        /// How it is to be reserved; not at all for a point, which is a slice without memory.
        mode: Option<AllocationMode>,
        /// Its place in the mailbox, once the device has met it.
        position: u64,
    },
    /// Copies from the host into the bindings.
    CopyIn(HostSource),
    /// Copies the bindings to the host and answers.
    CopyOut(Box<CopyOut>),
    /// Copies the first binding to the second.
    Copy,
    /// Fills the binding with a repeated pattern.
    Fill(Pattern),
    /// Does nothing, in order: a point to wait for, or an explicit edge.
    Mark,
    /// Answers once everything before it in the stream has been issued.
    Answer(Reply),
    /// Runs user code on a thread for such, after everything that it depends on has completed.
    Host(Box<HostWork>),
    /// Runs user code on the queue, with the backend's own resources.
    Custom(Box<Custom>),
    /// Drops a value once everything before it in the stream has completed.
    DropAfter(Box<dyn Any + Send>),
    /// Replays a recording with the bindings as its parameters, and the scalars in its slots.
    Replay {
        /// The recording.
        recording: RecordingId,
        /// Parameters overlap of which one is written: the recorded order does not tell all that conflicts.
        overlap: bool,
    },
    /// An ask of the device itself.
    Ask(Box<Ask>),
    /// Makes a kernel, recording or stream known under its slot.
    Register(Box<Registration>),
    /// Submits what the stream holds.
    Flush,
}

impl Op {
    /// What the operation is called where it has no kernel's name.
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
            Op::Answer(_) => "sync",
            Op::Host(_) => "host function",
            Op::Custom(_) => "custom",
            Op::DropAfter(_) => "drop after",
            Op::Replay { .. } => "replay",
            Op::Ask(_) => "ask",
            Op::Register(_) => "register",
            Op::Flush => "flush",
        }
    }
}

/// Where a request stands: all of it has been issued, and completes with these points.
#[derive(Clone, Default, Debug)]
pub struct Ticket {
    /// What must pass, at most one point a queue.
    pub points: SmallVec<[Point; 2]>,
}

/// The sender of a ticket.
pub type Reply = ReplySender<Result<Ticket, Error>>;

/// A copy to the host.
pub struct CopyOut {
    /// Where the bytes land, one per binding.
    pub landings: SmallVec<[Arc<dyn Landing>; 1]>,
    /// Who is told.
    pub reply: Reply,
    /// What the asker calls it, where that is a number. For the submission log.
    pub tag: Option<u64>,
}

/// User code that runs on a queue, with a backend's own resources.
pub struct Custom {
    /// Its name, for failures and timelines.
    pub name: Arc<str>,
    /// The code.
    pub work: CustomWork,
}

/// A thing that becomes known under a slot of the table.
pub enum Registration {
    /// A prepared kernel.
    Kernel {
        /// Its slot.
        id: KernelId,
        /// What the author wrote.
        kernel: Arc<Kernel>,
        /// What the backend made of it.
        code: BackendKernel,
    },
    /// A parameter of recordings: a slice that never has memory.
    Parameter {
        /// Its slot.
        id: SliceId,
        /// Its length.
        bytes: u64,
        /// Who made it.
        client: ClientId,
    },
    /// A recording.
    Recording {
        /// Its slot.
        id: RecordingId,
        /// Its tasks.
        tasks: Arc<[RecordedTask]>,
        /// Which of them come before which.
        order: Order,
        /// Parameters of which a task may read bytes that no replay needs from before.
        stale: Box<[u32]>,
    },
    /// A stream.
    Stream {
        /// Its slot.
        id: StreamId,
        /// Its client.
        client: ClientId,
        /// What the client is called.
        client_name: Arc<str>,
        /// The client's own slot: what is kept of the client goes when that is dropped.
        seat: Option<SeatId>,
        /// How urgent its client's work is.
        priority: Priority,
        /// Its share of the turns among streams of its priority.
        weight: u32,
        /// Bytes that its client may have before others go first.
        soft_limit: Option<u64>,
        /// Credit for tasks that have not been issued.
        credit: Arc<millstream_sync::credit::Credit>,
        /// Do other streams take of it, too?
        credit_is_shared: bool,
    },
}

impl Task {
    /// A task without bindings.
    #[inline]
    pub fn new(stream: Option<StreamId>, op: Op) -> Self {
        Self {
            stream,
            mode: ExecutionMode::Checked,
            op,
            extra: Rare::default(),
            bindings: Inline::new(),
            word_count: 0,
            words: [const { MaybeUninit::uninit() }; INLINE_WORDS],
        }
    }

    /// What may withdraw the task.
    #[inline]
    pub fn terms(&self) -> Option<&Terms> {
        self.extra.terms()
    }

    /// Puts the task under terms, if it does work: a mark or an answer only tells where the others are.
    #[cold]
    pub fn put_under(&mut self, terms: &Arc<Terms>) {
        if !matches!(self.op, Op::Answer(_) | Op::Mark | Op::DropAfter(_)) {
            self.extra.put_under(terms.clone());
            terms.accepted();
        }
    }

    /// The inline words.
    #[inline]
    pub fn words(&self) -> &[u64] {
        // SAFETY: the first `word_count` are initialized.
        unsafe {
            std::slice::from_raw_parts(self.words.as_ptr().cast(), usize::from(self.word_count))
        }
    }

    /// Makes `words` the inline words; those beyond [`INLINE_WORDS`] are left out.
    #[inline]
    pub fn set_words(&mut self, words: &[u64]) {
        let count = words.len().min(INLINE_WORDS);
        for (place, word) in self.words.iter_mut().zip(words) {
            place.write(*word);
        }
        self.word_count = count as u8;
    }

    /// Makes the first `count` of `words` the inline words. Copied in one piece or two, whatever their number: a call for a few words costs
    /// more than the words.
    #[inline]
    pub fn set_first_words(&mut self, words: &[u64; INLINE_WORDS], count: usize) {
        const HALF: usize = INLINE_WORDS / 2;
        let place = self.words.as_mut_ptr().cast::<u64>();
        // SAFETY: both are within `INLINE_WORDS` words, of a plain type.
        unsafe {
            std::ptr::copy_nonoverlapping(words.as_ptr(), place, HALF);
            if count > HALF {
                std::ptr::copy_nonoverlapping(words[HALF..].as_ptr(), place.add(HALF), HALF);
            }
        }
        self.word_count = count.min(INLINE_WORDS) as u8;
    }

    /// Makes `words` the packed scalars, on the heap when the inline room is not enough.
    #[inline]
    pub fn set_scalars(&mut self, words: &[u64]) {
        match words.len() {
            0..=INLINE_WORDS => self.set_words(words),
            _ => self.extra.get_or_insert().words = words.to_vec(),
        }
    }

    /// Makes `bindings` its bindings, of which it has none; on the heap those that the inline room is not enough for.
    #[inline]
    pub fn set_bindings(&mut self, bindings: &[Binding]) {
        self.bindings.set(bindings);
        if bindings.len() > INLINE_BINDINGS {
            self.extra.get_or_insert().bindings = bindings[INLINE_BINDINGS..].to_vec();
        }
    }

    /// Adds a binding, on the heap when the inline room is full.
    #[inline]
    pub fn push_binding(&mut self, binding: Binding) {
        if let Err(binding) = self.bindings.push(binding) {
            self.extra.get_or_insert().bindings.push(binding);
        }
    }

    /// The bindings, inline ones first.
    #[inline]
    pub fn all_bindings(&self) -> impl Iterator<Item = &Binding> + Clone {
        let more: &[Binding] = self.extra.more().map_or(&[], |more| &more.bindings);
        self.bindings.iter().chain(more)
    }

    /// The same, to be changed.
    pub fn all_bindings_mut(&mut self) -> impl Iterator<Item = &mut Binding> {
        let more: &mut [Binding] = match self.extra.more_mut() {
            Some(more) => &mut more.bindings,
            None => &mut [],
        };
        self.bindings.iter_mut().chain(more)
    }

    /// The packed scalars.
    #[inline]
    pub fn scalars(&self) -> &[u64] {
        match self.extra.more() {
            Some(extra) if !extra.words.is_empty() => &extra.words,
            _ => self.words(),
        }
    }

    /// Moves `other` into `self`, touching only what is in use; `other` is left as [`Op::Taken`].
    #[inline]
    pub fn take_from(&mut self, other: &mut Task) {
        self.stream = other.stream;
        self.mode = other.mode;
        self.op = std::mem::replace(&mut other.op, Op::Taken);
        self.extra = std::mem::take(&mut other.extra);
        self.bindings.copy_from(&other.bindings);
        self.set_words(other.words());
    }
}

/// Spans of a timeline, as an answer.
pub type Spans = Vec<TraceSpan>;
