//! The writer of the submission log: messages become entries, in the order in which they are admitted.

use std::borrow::Cow;
use std::collections::HashMap;

use millstream_protocol::binding::Binding;
use millstream_protocol::failure::Reason;
use millstream_protocol::id::KernelId;
use millstream_protocol::journal::{Entry, Part, Step, SubmissionLog, Work, encode};
use millstream_protocol::launch::{LaunchCount, TensorMap};
use millstream_protocol::message::{Extra, HostSource, Op, Registration, Task};
use millstream_protocol::recording::{RecordedOp, RecordedTask};

/// The number of an object that the log has not seen. No log has that many objects.
const UNKNOWN: u32 = u32::MAX;

/// The submission log of a device, since it was opened or since the log was last taken.
pub(crate) struct LogWriter {
    backend: &'static str,
    /// The encoded entries.
    bytes: Vec<u8>,
    bytes_max: u64,
    /// The number of entries so far, and of those in earlier parts.
    entries: u64,
    entries_before: u64,
    /// The number of times that it was taken.
    part: u32,
    /// Whether an entry had no room. The log contains nothing after that.
    cut: bool,
    /// The numbers of live objects, by slot of the table.
    numbers: HashMap<u32, u32>,
    next: u32,
    /// The lists of the last entry of a task, whose memory the next one uses.
    parts: Vec<Part>,
    words: Vec<u64>,
}

impl LogWriter {
    /// Creates a log of at most `bytes_max` bytes between two takes.
    pub(crate) fn new(backend: &'static str, bytes_max: u64) -> Self {
        Self {
            backend,
            bytes: Vec::new(),
            bytes_max,
            entries: 0,
            entries_before: 0,
            part: 0,
            cut: false,
            numbers: HashMap::new(),
            next: 0,
            parts: Vec::new(),
            words: Vec::new(),
        }
    }

    /// Takes the entries since the last call.
    pub(crate) fn take(&mut self) -> SubmissionLog {
        let body = std::mem::take(&mut self.bytes);
        let entries = self.entries - self.entries_before;
        let log = SubmissionLog::new(
            self.backend,
            (self.part, self.part),
            entries,
            !self.cut,
            body,
        );
        self.entries_before = self.entries;
        self.part += 1;
        log
    }

    /// Writes the entry of a message that is about to be admitted.
    pub(crate) fn note(&mut self, message: &mut Task) {
        match &message.op {
            Op::Taken
            | Op::Answer(_)
            | Op::SyncPart(_)
            | Op::DropAfter(_)
            | Op::Device(_)
            | Op::Flush => return,
            Op::Register(registration) => return self.note_registration(registration),
            _ => {}
        }
        let stream = message.stream.map_or(UNKNOWN, |id| self.number(id.index()));
        let entry = self.entries;
        if let Op::Reserve { mode, .. } = message.op {
            let Some(slice) = message.bindings.first().copied() else {
                return;
            };
            let bytes = slice.len;
            self.add(&Entry::Slice {
                stream,
                bytes,
                mode,
            });
            self.give_number(slice.slice.index());
        } else {
            self.note_task(stream, message);
        }
        if message.terms().is_some() {
            message.extra.get_or_insert().entry = Some(entry);
        }
    }

    /// Allocates nothing for a launch without metadata or a replay, once the lists have grown, but when the log grows.
    fn note_task(&mut self, stream: u32, message: &Task) {
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        parts.extend(message.all_bindings().map(|binding| self.part(binding)));
        let words = match message.op {
            Op::Launch { .. } | Op::Replay { .. } => std::mem::take(&mut self.words),
            _ => Vec::new(),
        };
        let entry = Entry::Task {
            stream,
            work: self.work(message, words),
            parts,
        };
        self.add(&entry);
        let Entry::Task { work, parts, .. } = entry else {
            return;
        };
        self.parts = parts;
        if let Work::Launch { scalars: words, .. } | Work::Replay { words, .. } = work {
            self.words = words;
        }
    }

    /// Writes that a task was withdrawn.
    #[cold]
    pub(crate) fn note_withdrawn(&mut self, task: &Task, reason: &Reason) {
        if let Some(entry) = task.extra.more().and_then(|more| more.entry) {
            self.add(&Entry::withdrawal(entry, reason));
        }
    }

    /// Writes that an object was dropped: its last handle is gone, and the mailbox has passed every message that names
    /// it.
    pub(crate) fn note_dropped(&mut self, slot: u32) {
        if let Some(object) = self.numbers.remove(&slot) {
            self.add(&Entry::Dropped { object });
        }
    }

    fn note_registration(&mut self, registration: &Registration) {
        let (slot, entry) = match registration {
            Registration::Kernel { id, kernel, .. } => {
                let (name, signature) = (kernel.name().clone(), kernel.signature().clone());
                (id.index(), Entry::Kernel { name, signature })
            }
            Registration::Parameter { id, bytes, .. } => {
                (id.index(), Entry::Parameter { bytes: *bytes })
            }
            Registration::Recording { id, tasks, .. } => {
                let steps = tasks.iter().map(|task| self.step(task)).collect();
                (id.index(), Entry::Recording { steps })
            }
            Registration::Stream(stream) => {
                let entry = Entry::Stream {
                    client: stream.client.0,
                    priority: stream.priority,
                    weight: stream.weight,
                };
                (stream.id.index(), entry)
            }
        };
        self.add(&entry);
        self.give_number(slot);
    }

    /// Returns the work of a task. The memory of `words` is used for its words.
    fn work<'a>(&self, task: &'a Task, words: Vec<u64>) -> Work<'a> {
        let none = Extra::default();
        let extra = task.extra.more();
        let layouts = || {
            let layouts = extra.unwrap_or(&none).layouts.iter().cloned();
            layouts.map(|layout| layout.map(Box::new))
        };
        match &task.op {
            Op::Launch { kernel, count } => {
                let extra = extra.unwrap_or(&none);
                self.launch(
                    *kernel,
                    *count,
                    filled(words, task.scalars()),
                    &extra.metadata,
                    &extra.tensor_maps,
                )
            }
            Op::CopyIn(source) => {
                let bytes = match source {
                    HostSource::Words(len) => {
                        let bytes: &[u8] = bytemuck::cast_slice(task.words());
                        bytes.get(..*len as usize).unwrap_or(bytes)
                    }
                    HostSource::Owned(owned) => owned.bytes(),
                };
                Work::Upload {
                    bytes: Cow::Borrowed(bytes),
                    layout: layouts().next().flatten(),
                }
            }
            Op::CopyOut(copy) => Work::Readback {
                tag: copy.tag,
                layouts: layouts().collect(),
            },
            Op::Copy => Work::Copy,
            Op::Fill(pattern) => Work::Fill(*pattern),
            Op::Mark => Work::Mark,
            Op::Replay { recording, .. } => Work::Replay {
                recording: self.number(recording.index()),
                words: filled(words, task.scalars()),
            },
            Op::Host(host) => Work::Gap(host.name.clone()),
            Op::Custom(custom) => Work::Gap(custom.name.clone()),
            other => Work::Gap(other.name().into()),
        }
    }

    fn launch(
        &self,
        kernel: KernelId,
        count: LaunchCount,
        scalars: Vec<u64>,
        metadata: &[u32],
        tensor_maps: &[TensorMap],
    ) -> Work<'static> {
        if !tensor_maps.is_empty() {
            return Work::Gap("launch with tensor maps".into());
        }
        Work::Launch {
            kernel: self.number(kernel.index()),
            count,
            scalars,
            metadata: metadata.to_vec(),
        }
    }

    fn step(&self, task: &RecordedTask) -> Step {
        let parts = task.bindings.iter().map(|binding| Part {
            slice: binding.parameter,
            offset: binding.offset,
            len: binding.len,
            access: binding.access,
        });
        let work = match task.op {
            RecordedOp::Launch { kernel, count } => {
                let (scalars, metadata) = (task.scalars.to_vec(), &task.metadata);
                self.launch(kernel, count, scalars, metadata, &task.tensor_maps)
            }
            RecordedOp::Copy => Work::Copy,
            RecordedOp::Fill(pattern) => Work::Fill(pattern),
        };
        Step {
            work,
            slots: task.slots.to_vec(),
            parts: parts.collect(),
        }
    }

    fn part(&self, binding: &Binding) -> Part {
        Part {
            slice: self.number(binding.slice.index()),
            offset: binding.offset,
            len: binding.len,
            access: binding.access,
        }
    }

    fn number(&self, slot: u32) -> u32 {
        self.numbers.get(&slot).copied().unwrap_or(UNKNOWN)
    }

    fn give_number(&mut self, slot: u32) {
        if self.cut {
            return;
        }
        self.numbers.insert(slot, self.next);
        self.next += 1;
    }

    fn add(&mut self, entry: &Entry<'_>) {
        // Numbers are not reused: the log ends before there are none left.
        self.cut |= entry.is_numbered() && self.next == UNKNOWN;
        let before = self.bytes.len();
        // An upload that has no room is not copied first.
        self.cut |= bulk(entry) > self.bytes_max.saturating_sub(before as u64);
        if self.cut {
            return;
        }
        encode(entry, &mut self.bytes);
        if self.bytes.len() as u64 > self.bytes_max {
            self.bytes.truncate(before);
            self.cut = true;
            return;
        }
        self.entries += 1;
    }
}

/// Returns the words in the memory of `words`.
fn filled(mut words: Vec<u64>, with: &[u64]) -> Vec<u64> {
    words.clear();
    words.extend_from_slice(with);
    words
}

/// Returns the least number of bytes that an entry takes.
fn bulk(entry: &Entry<'_>) -> u64 {
    match entry {
        Entry::Task {
            work: Work::Upload { bytes, .. },
            ..
        } => bytes.len() as u64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use millstream_protocol::message::OwnedBytes;

    use super::*;

    /// I12: the bound holds for copies in progress, too, not only for stored bytes.
    #[test]
    fn upload_that_has_no_room_is_not_copied_i12() {
        let mut writer = LogWriter::new("cpu", 100);
        let data: Vec<u8> = vec![1; 1 << 20];
        let op = Op::CopyIn(HostSource::Owned(OwnedBytes::new(data)));
        writer.note(&mut Task::new(None, op));
        assert!(writer.bytes.capacity() < 1 << 10);
        assert!(!writer.take().is_complete());
    }

    #[test]
    fn log_ends_before_its_numbers_wrap() {
        let mut writer = LogWriter::new("cpu", 1 << 10);
        writer.next = UNKNOWN - 1;
        for slot in 0..3 {
            let steps = Vec::new();
            writer.add(&Entry::Recording { steps });
            writer.give_number(slot);
        }
        assert_eq!(writer.number(0), UNKNOWN - 1);
        let log = writer.take();
        assert!(!log.is_complete() && log.len() == 1);
    }
}
