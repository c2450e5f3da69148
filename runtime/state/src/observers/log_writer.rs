//! The writer of the submission log: messages become entries, in the order in which they are admitted.

use std::borrow::Cow;

use millstream_protocol::{
    Binding, HostSource, Op, Reason, Registration, Settings, StreamId, Task,
    journal::{Entry, SubmissionLog, Work, encode},
    recording::RecordedBinding,
};

/// In place of the stream of a task without one.
const NO_STREAM: u32 = u32::MAX;

/// The submission log of a device, since it was opened or since the log was last taken.
pub struct LogWriter {
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
    /// The bindings of the last entry of a task, whose memory the next one uses.
    bindings: Vec<RecordedBinding>,
}

impl LogWriter {
    /// Creates the log of a device, if the option is set.
    pub fn open(backend: &'static str, settings: &Settings) -> Option<Box<Self>> {
        let bytes_max = settings.log_submissions;
        (bytes_max > 0).then(|| Box::new(Self::new(backend, bytes_max)))
    }

    /// Creates a log of at most `bytes_max` bytes between two takes.
    pub fn new(backend: &'static str, bytes_max: u64) -> Self {
        Self {
            backend,
            bytes: Vec::new(),
            bytes_max,
            entries: 0,
            entries_before: 0,
            part: 0,
            cut: false,
            bindings: Vec::new(),
        }
    }

    /// Takes the entries since the last call.
    pub fn take(&mut self) -> SubmissionLog {
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
    pub fn note(&mut self, message: &mut Task) {
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
        let stream = message.stream.map_or(NO_STREAM, StreamId::index);
        let entry = self.entries;
        if let Op::Reserve { mode, .. } = message.op {
            let Some(slice) = message.bindings.first() else {
                return;
            };
            self.add(&Entry::Slice {
                id: slice.slice.index(),
                stream,
                bytes: slice.len,
                mode,
            });
        } else {
            self.note_task(stream, message);
        }
        if message.terms().is_some() {
            message.extra.get_or_insert().entry = Some(entry);
        }
    }

    /// Allocates nothing for a launch or a replay, once the list has grown, but when the log grows.
    fn note_task(&mut self, stream: u32, message: &Task) {
        let mut bindings = std::mem::take(&mut self.bindings);
        bindings.clear();
        bindings.extend(message.all_bindings().map(logged));
        self.add(&Entry::Task {
            stream,
            work: work(message),
            bindings: Cow::Borrowed(&bindings),
        });
        self.bindings = bindings;
    }

    /// Writes that a task was withdrawn.
    #[cold]
    pub fn note_withdrawn(&mut self, task: &Task, reason: &Reason) {
        if let Some(entry) = task.extra.more().and_then(|more| more.entry) {
            self.add(&Entry::withdrawal(entry, reason));
        }
    }

    /// Writes that an object was dropped: its last handle is gone, and the mailbox has passed every message that names
    /// it.
    pub fn note_dropped(&mut self, id: u32) {
        self.add(&Entry::Dropped { id });
    }

    fn note_registration(&mut self, registration: &Registration) {
        match registration {
            Registration::Kernel { id, kernel, .. } => self.add(&Entry::Kernel {
                id: id.index(),
                name: kernel.name().clone(),
                signature: kernel.signature().clone(),
            }),
            Registration::Parameter { id, bytes, .. } => self.add(&Entry::Parameter {
                id: id.index(),
                bytes: *bytes,
            }),
            Registration::Recording { id, tasks, .. } => {
                self.add(&Entry::Recording { id: id.index() });
                for task in &**tasks {
                    self.add(&Entry::Recorded(Cow::Borrowed(task)));
                }
            }
            Registration::Stream(stream) => self.add(&Entry::Stream {
                id: stream.id.index(),
                client: stream.client.0,
                priority: stream.priority,
                weight: stream.weight,
            }),
        }
    }

    fn add(&mut self, entry: &Entry<'_>) {
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

fn logged(binding: &Binding) -> RecordedBinding {
    RecordedBinding {
        parameter: binding.slice.index(),
        offset: binding.offset,
        len: binding.len,
        access: binding.access,
        aliases: false,
    }
}

/// Returns the work of a task.
fn work(task: &Task) -> Work<'_> {
    let extra = task.extra.more();
    let layouts = extra.map_or(&[][..], |extra| &extra.layouts);
    let mut layouts = layouts.iter().map(|layout| layout.clone().map(Box::new));
    match &task.op {
        Op::Launch { kernel, count } => Work::Launch {
            kernel: kernel.index(),
            count: *count,
            scalars: Cow::Borrowed(task.scalars()),
            metadata: Cow::Borrowed(extra.map_or(&[], |extra| &extra.metadata)),
            tensor_maps: Cow::Borrowed(extra.map_or(&[], |extra| &extra.tensor_maps)),
        },
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
                layout: layouts.next().flatten(),
            }
        }
        Op::CopyOut(copy) => Work::Readback {
            tag: copy.tag,
            layouts: layouts.collect(),
        },
        Op::Copy => Work::Copy,
        Op::Fill(pattern) => Work::Fill(*pattern),
        Op::Mark => Work::Mark,
        Op::Replay { recording, .. } => Work::Replay {
            recording: recording.index(),
            words: Cow::Borrowed(task.scalars()),
        },
        Op::Host(host) => Work::Gap(host.name.clone()),
        Op::Custom(custom) => Work::Gap(custom.name.clone()),
        other => Work::Gap(other.name().into()),
    }
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
    use millstream_protocol::OwnedBytes;

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
}
