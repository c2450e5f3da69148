//! The steps of a random program: each sends the messages of a client, and records them for the oracle.

use millstream_protocol::{
    Access, AllocationMode, Binding, DeviceRequest, LaunchCount, Op, Pattern, Scope, Task,
    recording::{RecordedOp, overlapping_task},
};

use super::build::{CLIENT, Stream};
use super::oracle::Sent;
use super::program::{RECORDED, Run, SIZES};

impl Run {
    /// Records a task for the oracle that computes its number over these bindings.
    fn sent_run(&mut self, number: u64, bindings: Vec<Binding>, fails: bool, heals: bool) {
        self.sent.push(Sent::Run {
            number,
            bindings,
            fails,
            heals,
        });
    }

    /// Returns the number, the bindings and the outcome of user code on the host.
    fn user_code(
        &mut self,
        choice: u32,
        accesses: u32,
    ) -> (u64, Vec<Binding>, Result<(), &'static str>) {
        self.number += 1;
        let outcome = match accesses.is_multiple_of(11) {
            true => Err("scripted"),
            false => Ok(()),
        };
        (self.number, self.bindings(choice, accesses), outcome)
    }

    pub(super) fn launch(&mut self, stream: usize, choice: u32, accesses: u32) {
        let mut bindings = self.bindings(choice, accesses);
        let number = self.number(stream);
        let fails = self.refuse(number);
        let count = self.count(accesses, &mut bindings);
        self.rig
            .launch_counted(&self.streams[stream], number, &bindings, count);
        self.sent_run(number, bindings, fails, count != LaunchCount::Dynamic);
    }

    /// Returns the count of a launch: sometimes dynamic, if a slice is free for the count.
    fn count(&self, choice: u32, bindings: &mut Vec<Binding>) -> LaunchCount {
        let fits = self
            .slices
            .get(choice as usize / 16 % self.slices.len().max(1))
            .filter(|slice| choice.is_multiple_of(4) && slice.bytes >= 12);
        let count = fits.map(|slice| slice.part(0..12, Access::Read));
        match count.filter(|count| !bindings.iter().any(|other| other.conflicts(count))) {
            Some(count) => {
                bindings.push(count);
                LaunchCount::Dynamic
            }
            None => LaunchCount::Static([1; 3]),
        }
    }

    pub(super) fn fill(&mut self, stream: usize, choice: u32) {
        let Some(target) = self.part(choice, Access::Write) else {
            return;
        };
        let number = self.number(stream);
        let fails = self.refuse(number);
        self.rig.fill(&self.streams[stream], number, target);
        self.sent_run(number, vec![target], fails, true);
    }

    /// Returns two parts of equal length, to copy.
    fn pair(&self, from: u32, to: u32) -> Option<(Binding, Binding)> {
        let (mut source, mut target) = (
            self.part(from, Access::Read)?,
            self.part(to, Access::Write)?,
        );
        let len = source.len.min(target.len);
        (source.len, target.len) = (len, len);
        Some((source, target))
    }

    pub(super) fn copy(&mut self, stream: usize, from: u32, to: u32) {
        let Some((source, target)) = self.pair(from, to) else {
            return;
        };
        self.rig
            .submit(&self.streams[stream], Op::Copy, &[source, target]);
        self.sent.push(Sent::Copy { source, target });
    }

    pub(super) fn copy_in(&mut self, stream: usize, choice: u32) {
        let Some(target) = self.part(choice, Access::Write) else {
            return;
        };
        let bytes = vec![choice as u8; target.len as usize];
        self.rig
            .copy_in(&self.streams[stream], bytes.clone(), target);
        self.sent.push(Sent::CopyIn { bytes, target });
    }

    pub(super) fn copy_out(&mut self, stream: usize, choice: u32, more: u32) {
        let mut sources: Vec<_> = self.part(choice, Access::Read).into_iter().collect();
        if more.is_multiple_of(3) {
            sources.extend(self.part(more, Access::Read));
        }
        if sources.is_empty() {
            return;
        }
        let answer = self.rig.copy_out(&self.streams[stream], &sources);
        self.sent.push(Sent::CopyOut {
            answer: self.answers.len(),
            sources,
        });
        self.answers.push(answer);
    }

    pub(super) fn reserve(&mut self, stream: usize, size: u32, mode: u32) {
        if self.slices.len() >= 12 {
            return;
        }
        let mode = match mode % 8 {
            0 => AllocationMode::Persistent,
            1 => AllocationMode::Dedicated,
            _ => AllocationMode::Automatic,
        };
        let bytes = SIZES[size as usize % SIZES.len()];
        let slice = self
            .rig
            .slice_with(&self.streams[stream], bytes, Some(mode));
        self.sent.push(Sent::Reserve {
            slice: slice.id(),
            bytes,
            point: false,
        });
        self.slices.push(slice);
    }

    pub(super) fn host(&mut self, stream: usize, choice: u32, accesses: u32) {
        let (number, bindings, outcome) = self.user_code(choice, accesses);
        self.rig
            .host(&self.streams[stream], number, &bindings, outcome);
        self.sent_run(number, bindings, outcome.is_err(), true);
    }

    pub(super) fn guard(&mut self, stream: usize, choice: u32, accesses: u32) {
        let (number, bindings, outcome) = self.user_code(choice, accesses);
        let answer = self
            .rig
            .guard(&self.streams[stream], number, &bindings, outcome);
        self.sent.push(Sent::Begins {
            answer: self.answers.len(),
            bindings: bindings.clone(),
        });
        self.answers.push(answer);
        self.sent_run(number, bindings, outcome.is_err(), true);
    }

    pub(super) fn custom(&mut self, stream: usize, choice: u32, accesses: u32) {
        let bindings = self.bindings(choice, accesses);
        let number = self.number(stream);
        let fails = self.refuse(number);
        self.rig
            .custom(&self.streams[stream], number, &bindings, fails);
        self.sent_run(number, bindings, fails, true);
    }

    pub(super) fn point(&mut self, stream: usize) {
        let point = self.rig.point(&self.streams[stream]);
        let before = self.last.get(&self.streams[stream].id().index()).copied();
        self.points.push((point, before));
    }

    pub(super) fn wait_for(&mut self, stream: usize, choice: u32) {
        if self.points.is_empty() {
            return;
        }
        let nth = choice as usize % self.points.len();
        self.rig
            .wait_for(&self.streams[stream], &self.points[nth].0);
        if let Some(first) = self.points[nth].1 {
            self.edges.push((self.streams[stream].id().index(), first));
        }
        if choice.is_multiple_of(3) {
            self.points.swap_remove(nth);
        }
    }

    pub(super) fn record(&mut self, choice: u32, accesses: u32) {
        if self.recordings.len() >= 3 {
            self.recordings.swap_remove(choice as usize % 3);
        }
        let mut tasks = Vec::new();
        for index in 0..1 + choice % 4 {
            self.number += 1;
            let number = RECORDED + self.number;
            self.refuse(number);
            let (choice, accesses) = (
                choice.rotate_left(5 * index),
                accesses.rotate_left(3 * index),
            );
            let (op, bindings) = self.recorded(number, choice, accesses);
            // The client does not record tasks with empty bindings.
            if bindings.iter().all(|binding| binding.len > 0) {
                tasks.push((op, number, bindings));
            }
        }
        let recording = self.rig.record_tasks(&tasks);
        // A client's recording keeps its slices; here a replay must rebind slices that were dropped.
        self.recordings.push(recording);
    }

    /// Returns a task to record: a launch more often than not.
    fn recorded(&self, number: u64, choice: u32, accesses: u32) -> (RecordedOp, Vec<Binding>) {
        let pattern = Pattern {
            value: number,
            width: 1,
        };
        let other = match accesses >> 12 & 7 {
            0 => self
                .part(choice, Access::Write)
                .map(|target| (RecordedOp::Fill(pattern), vec![target])),
            1 => self
                .pair(choice, accesses)
                .map(|(source, target)| (RecordedOp::Copy, vec![source, target])),
            _ => None,
        };
        if let Some(other) = other {
            return other;
        }
        let mut bindings = self.bindings(choice, accesses);
        bindings.retain(|binding| binding.len > 0);
        let launch = RecordedOp::Launch {
            kernel: self.rig.kernel_id(),
            count: self.count(accesses, &mut bindings),
        };
        (launch, bindings)
    }

    pub(super) fn replay(&mut self, stream: usize, choice: u32, rebound: u32) {
        let Some(nth) = (choice as usize).checked_rem(self.recordings.len()) else {
            return;
        };
        let mut parameters = self.recordings[nth].parameters.clone();
        for (index, parameter) in parameters.iter_mut().enumerate() {
            let known = self
                .slices
                .iter()
                .any(|slice| slice.id() == parameter.slice);
            let other = rebound.rotate_right(4 * index as u32) as usize;
            if known && !other.is_multiple_of(3) {
                continue;
            }
            let fits: Vec<_> = self
                .slices
                .iter()
                .filter(|slice| slice.bytes >= parameter.len)
                .collect();
            let Some(slice) = other.checked_rem(fits.len()).map(|index| fits[index]) else {
                return;
            };
            let range = 0..parameter.len;
            *parameter = slice.part(range, parameter.access);
        }
        let tasks = self.recordings[nth].tasks.clone();
        if overlapping_task(&tasks, &parameters).is_some() {
            return;
        }
        for task in tasks.iter() {
            let what = match task.op {
                RecordedOp::Launch {
                    count: LaunchCount::Dynamic,
                    ..
                } => "recorded dynamic launch",
                RecordedOp::Launch { .. } => continue,
                RecordedOp::Fill(_) => "recorded fill",
                RecordedOp::Copy => "recorded copy",
            };
            self.rig.ledger.get().coverage.note(what);
        }
        self.rig
            .replay(&self.streams[stream], &self.recordings[nth], &parameters);
        self.sent.push(Sent::Replay { tasks, parameters });
    }

    pub(super) fn query(&mut self, stream: usize, choice: u32) {
        let scope = match choice % 3 {
            0 => Scope::Device,
            1 => Scope::Client(CLIENT),
            _ => Scope::Streams(vec![self.streams[stream].id()]),
        };
        if choice % 5 < 2 {
            let query = match choice % 5 {
                0 => DeviceRequest::Flush { scope },
                _ => DeviceRequest::Cleanup(millstream_sync::reply::reply().0),
            };
            self.rig.send(Task::new(None, Op::Device(Box::new(query))));
        } else {
            let answer = self.rig.sync_all(scope);
            self.answers.push(answer);
        }
    }

    pub(super) fn streams_come_and_go(&mut self, stream: usize, choice: u32) {
        if choice.is_multiple_of(2) && self.streams.len() < 7 {
            let stream = self.rig.stream();
            self.forget(&stream);
            self.streams.push(stream);
        } else if self.streams.len() > 1 {
            self.streams.swap_remove(stream);
        }
    }

    /// Forgets the past of a slot that a new stream has.
    pub(super) fn forget(&mut self, stream: &Stream) {
        let slot = stream.id().index();
        self.last.remove(&slot);
        self.edges.retain(|(waiting, _)| *waiting != slot);
    }
}
