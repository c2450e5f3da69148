//! Steps that compute contents from other contents: kernels, copies, replays.

use std::ops::Range;

use millstream::{CubeCount, Error, Handle, Recorder, Stream, device::Feature};

use super::defining::COPY_IN;
use crate::contents::AllowedFailures;
use crate::dice::Dice;
use crate::end::End;
use crate::kernels::Kernels;
use crate::program::{Part, Program, Stepped};
use crate::recorded::Recorded;

/// The maximum number of recordings.
const RECORDED_MAX: usize = 2;
/// The number that a recording adds after its `mix`.
const ADDED: u32 = 7;

impl Program {
    pub(crate) fn add(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, part, by) = (self.stream(dice), self.part(dice)?, dice.number());
        let launched = crate::add(&stream, &self.kernels, &part.view, by, Self::cubes(dice));
        launched.map_err(|error| self.refused("add", error))?;
        self.note_task(&stream, "add");
        self.set_added(&part, by, AllowedFailures::NONE);
        Ok(())
    }

    /// Returns two parts of the same length.
    fn two_parts(&self, dice: &mut Dice) -> Result<Option<(Part, Part)>, End> {
        let from = self.part(dice)?;
        let to = self.part_with(dice, from.range.len())?;
        Ok(to.map(|to| (from, to)))
    }

    pub(crate) fn mix(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, cubes) = (self.stream(dice), Self::cubes(dice));
        let Some((from, to)) = self.two_parts(dice)? else {
            return Ok(());
        };
        let arguments = Kernels::mixes(&from.view, &to.view);
        let launched = stream.launch(&self.kernels.mix, cubes, arguments);
        if !self.is_refused_overlap("mix", overlap(&from, &to), launched)? {
            self.note_task(&stream, "mix");
            self.set_mixed(&from, &to);
        }
        Ok(())
    }

    /// Sets the expected contents of `to` after a `mix` with `from`.
    fn set_mixed(&mut self, from: &Part, to: &Part) {
        let (source, target) = (self.contents(from), self.contents(to));
        self.set_contents(to, &target.mixed(&source, self.config.allowed));
    }

    pub(crate) fn copy(&mut self, dice: &mut Dice) -> Stepped {
        let stream = self.stream(dice);
        let Some((from, to)) = self.two_parts(dice)? else {
            return Ok(());
        };
        let copied = stream.copy(&from.view, &to.view);
        if !self.is_refused_overlap("copy", overlap(&from, &to), copied)? {
            self.note_task(&stream, "copy");
            let contents = self.contents(&from).by_one_task(self.config.allowed);
            self.set_contents(&to, &contents);
        }
        Ok(())
    }

    pub(crate) fn copy_to_fresh(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, from) = (self.stream(dice), self.part(dice)?);
        let made = stream.empty::<u32>(from.range.len());
        if let Ok(target) = &made {
            let copied = stream.copy(&from.view, target);
            copied.map_err(|error| self.refused("copy", error))?;
            self.note_task(&stream, "copy");
        }
        let contents = self.contents(&from);
        self.add_buffer(dice, made, contents, AllowedFailures::NONE)
    }

    /// Submits a task that fails, which poisons the part that it would update.
    pub(crate) fn boom(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, part) = (self.stream(dice), self.part(dice)?);
        let Some(boom) = self.kernels.boom() else {
            return Ok(());
        };
        boom(&stream, &part.view).map_err(|error| self.refused("boom", error))?;
        let contents = self.contents(&part).failed(AllowedFailures::BOOM);
        self.set_contents(&part, &contents);
        Ok(())
    }

    /// Launches with a dynamic number of cubes, if the device supports that.
    pub(crate) fn count_on_device(&mut self, dice: &mut Dice) -> Stepped {
        if !self.clients[0].properties().has(Feature::DynamicCubeCount) {
            return Ok(());
        }
        let (stream, part, by) = (self.stream(dice), self.part(dice)?, dice.number());
        let CubeCount::Static(cubes, ..) = Self::cubes(dice) else {
            return Ok(());
        };
        let count = match stream.create(&[cubes, 1, 1]) {
            Ok(count) => CubeCount::Dynamic(count),
            Err(error) => return self.count_limit("create", error),
        };
        let launched = crate::add(&stream, &self.kernels, &part.view, by, count);
        launched.map_err(|error| self.refused("add", error))?;
        self.set_added(&part, by, AllowedFailures::NONE);
        Ok(())
    }

    /// Records two tasks, or replays a recording.
    pub(crate) fn replay(&mut self, dice: &mut Dice) -> Stepped {
        if self.recorded.len() < RECORDED_MAX && dice.one_in(2) {
            return match dice.one_in(2) {
                true => self.record(dice),
                false => self.record_open(dice),
            };
        }
        let chosen = dice.below(self.recorded.len());
        let Some(recorded) = self.recorded.get(chosen) else {
            return Ok(());
        };
        let stream = self.stream(dice);
        let (from, to, replayed) = match recorded {
            Recorded::Bound {
                recording,
                from,
                to,
            } => {
                let (Some(from), Some(to)) = (self.recorded_part(from), self.recorded_part(to))
                else {
                    // The program has dropped a buffer of the recording.
                    self.recorded.swap_remove(chosen);
                    return Ok(());
                };
                (from, to, recording.replay(&stream))
            }
            Recorded::Open {
                recording,
                from,
                to,
            } => {
                let of = |program: &Self, dice: &mut Dice| program.part_with(dice, from.len());
                let (Some(source), Some(target)) = (of(self, dice)?, of(self, dice)?) else {
                    return Ok(());
                };
                let bound = recording.bind(from, &source.view).bind(to, &target.view);
                let replayed = bound.replay(&stream);
                (source, target, replayed)
            }
        };
        if !self.is_refused_overlap("replay", overlap(&from, &to), replayed)? {
            self.note_task(&stream, "mix");
            self.note_task(&stream, "add");
            self.set_mixed(&from, &to);
            self.set_added(&to, ADDED, AllowedFailures::NONE);
        }
        Ok(())
    }

    /// Returns the part of a buffer that was recorded, if the buffer still exists.
    fn recorded_part(&self, part: &(u64, Range<usize>)) -> Option<Part> {
        let at = self.buffers.iter().position(|buffer| buffer.id == part.0)?;
        let view = self.buffers[at].handle.clone();
        let range = part.1.clone();
        Some(Part { at, range, view })
    }

    fn record(&mut self, dice: &mut Dice) -> Stepped {
        let stream = self.stream(dice);
        let Some((from, to)) = self.two_parts(dice)? else {
            return Ok(());
        };
        if overlap(&from, &to) {
            return Ok(());
        }
        let count = self.recorded_count(dice, &stream)?;
        let record = |recorder: &mut Recorder<'_>| {
            self.record_tasks(recorder, (&from.view, &to.view), count)
        };
        let recording = stream.record(record);
        let recording = recording.map_err(|error| self.refused("record", error))?;
        let place = |part: Part| (self.buffers[part.at].id, part.range);
        let (from, to) = (place(from), place(to));
        self.recorded.push(Recorded::Bound {
            recording,
            from,
            to,
        });
        Ok(())
    }

    fn record_open(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, most) = (self.stream(dice), self.size(dice));
        let len = 1 + dice.below(most);
        let count = self.recorded_count(dice, &stream)?;
        let record = || -> Result<Recorded, Error> {
            let mut recorder = stream.recorder();
            let (from, to) = (recorder.parameter(len)?, recorder.parameter(len)?);
            self.record_tasks(&mut recorder, (&from, &to), count)?;
            let recording = recorder.finish()?;
            Ok(Recorded::Open {
                recording,
                from,
                to,
            })
        };
        let recorded = record().map_err(|error| self.refused("record", error))?;
        self.recorded.push(recorded);
        Ok(())
    }

    /// Returns the number of cubes of a recorded launch, on the device if it supports that.
    fn recorded_count(&mut self, dice: &mut Dice, stream: &Stream) -> Result<CubeCount, End> {
        let can_be_dynamic = self.clients[0].properties().has(Feature::DynamicCubeCount);
        if !can_be_dynamic || !dice.one_in(4) {
            return Ok(CubeCount::single());
        }
        match stream.create(&[2, 1, 1]) {
            Ok(count) => {
                self.note_task(stream, COPY_IN);
                Ok(CubeCount::Dynamic(count))
            }
            Err(error) => self
                .count_limit("create", error)
                .map(|()| CubeCount::single()),
        }
    }

    /// Records a `mix` and an `add`.
    fn record_tasks(
        &self,
        recorder: &mut Recorder<'_>,
        (from, to): (&Handle<u32>, &Handle<u32>),
        count: CubeCount,
    ) -> Result<(), Error> {
        let mixes = Kernels::mixes(from, to);
        recorder.launch(&self.kernels.mix, CubeCount::single(), mixes)?;
        recorder.launch(&self.kernels.add, count, Kernels::adds(to, ADDED))
    }
}

/// Returns `true` if two parts share an element.
fn overlap(one: &Part, other: &Part) -> bool {
    let (a, b) = (&one.range, &other.range);
    one.at == other.at && a.start.max(b.start) < a.end.min(b.end)
}
