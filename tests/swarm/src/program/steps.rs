//! What steps do with buffers, and what that makes of what must be in them.

use std::ops::Range;

use millstream::{CancelToken, CubeCount, Error, Stream, read, update, write};

use super::{ELEMENTS, Program, Read, cubes, mixed};
use crate::dice::Dice;
use crate::expect::{Element, any_failed};

impl Program {
    fn each(&mut self, buffer: usize, range: Range<usize>, f: impl Fn(u32) -> u32) {
        let part = &mut self.buffers[buffer].elements[range];
        let failed = any_failed(part);
        for element in part {
            *element = match failed {
                true => Element::Failed,
                false => element.map(&f),
            };
        }
    }

    pub(super) fn add(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        let (cubes, n) = (cubes(dice), dice.roll(100) as u32);
        stream.launch(&self.kernels.add, cubes, (update(&view), n))?;
        self.each(buffer, range, |value| value.wrapping_add(n));
        Ok(())
    }

    pub(super) fn mix(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (from, from_range, source) = self.part(dice, None);
        let (to, to_range, target) = self.part(dice, Some(from_range.len()));
        if from == to && from_range.start < to_range.end && to_range.start < from_range.end {
            return Ok(());
        }
        stream.launch(
            &self.kernels.mix,
            cubes(dice),
            (read(&source), update(&target)),
        )?;
        self.mixed(from, from_range, to, to_range);
        Ok(())
    }

    fn mixed(&mut self, from: usize, from_range: Range<usize>, to: usize, to_range: Range<usize>) {
        let source = self.buffers[from].elements[from_range].to_vec();
        let target = &mut self.buffers[to].elements[to_range];
        let failed = any_failed(&source) || any_failed(target);
        for (element, other) in target.iter_mut().zip(source) {
            *element = match (failed, *element, other) {
                (true, ..) => Element::Failed,
                (_, Element::Value(value), Element::Value(other)) => {
                    Element::Value(mixed(value, other))
                }
                _ => Element::Unknown,
            };
        }
    }

    pub(super) fn set(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        let (cubes, value) = (cubes(dice), dice.roll(1000) as u32);
        stream.launch(&self.kernels.set, cubes, (write(&view), value))?;
        self.buffers[buffer].elements[range].fill(Element::Value(value));
        Ok(())
    }

    pub(super) fn fill(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        let value = dice.roll(1000) as u32;
        stream.fill(&view, value)?;
        self.buffers[buffer].elements[range].fill(Element::Value(value));
        Ok(())
    }

    pub(super) fn write(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        let values: Vec<u32> = range.clone().map(|_| dice.roll(1000) as u32).collect();
        stream.write(&view, &values)?;
        let elements = self.buffers[buffer].elements[range].iter_mut();
        elements
            .zip(values)
            .for_each(|(element, value)| *element = Element::Value(value));
        Ok(())
    }

    pub(super) fn copy(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (from, from_range, source) = self.part(dice, None);
        let (to, to_range, target) = self.part(dice, Some(from_range.len()));
        if from == to && from_range.start < to_range.end && to_range.start < from_range.end {
            return Ok(());
        }
        stream.copy(&source, &target)?;
        let elements = self.buffers[from].elements[from_range].to_vec();
        let failed = any_failed(&elements);
        let targets = self.buffers[to].elements[to_range].iter_mut();
        for (target, element) in targets.zip(elements) {
            *target = if failed { Element::Failed } else { element };
        }
        Ok(())
    }

    pub(super) fn read(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        self.reads.push(Read {
            pending: stream.read(&view),
            expected: self.buffers[buffer].elements[range].to_vec(),
        });
        Ok(())
    }

    /// A buffer goes, with whatever is still to be done with it, and another takes its place.
    pub(super) fn renew(&mut self, dice: &mut Dice) -> Result<(), Error> {
        let nth = dice.roll(self.buffers.len());
        if let Some((from, to, _)) = self.recording
            && (from == nth || to == nth)
        {
            self.recording = None;
        }
        if dice.once_in(2) {
            // The old one goes first: its memory may serve the new one.
            let nothing = self.streams[0].stream.empty(0)?;
            self.buffers[nth].handle = nothing;
        }
        self.buffers[nth] = self.buffer(dice)?;
        Ok(())
    }

    pub(super) fn edge(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        match dice.once_in(2) {
            true => self.points.push(stream.point()?),
            false => {
                if let Some(point) = self.points.pop() {
                    stream.wait_for(&point)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn replay(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let Some((from, to, recording)) = self.recording.take() else {
            let from = dice.roll(self.buffers.len());
            let to = (from + 1) % self.buffers.len();
            let (source, target) = (&self.buffers[from].handle, &self.buffers[to].handle);
            let (mix, add) = (&self.kernels.mix, &self.kernels.add);
            let recording = stream.record(|r| {
                r.launch(mix, CubeCount::single(), (read(source), update(target)))?;
                r.launch(add, CubeCount::single(), (update(target), 7_u32))
            })?;
            self.recording = Some((from, to, recording));
            return Ok(());
        };
        recording.replay(stream)?;
        self.mixed(from, 0..ELEMENTS, to, 0..ELEMENTS);
        self.each(to, 0..ELEMENTS, |value| value.wrapping_add(7));
        self.recording = Some((from, to, recording));
        Ok(())
    }

    /// A kernel that panics.
    pub(super) fn boom(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        stream.launch(&self.kernels.boom, CubeCount::single(), (update(&view),))?;
        self.buffers[buffer].elements[range].fill(Element::Failed);
        Ok(())
    }

    /// A task of a token that is cancelled already: it never runs.
    pub(super) fn cancelled(&mut self, stream: &Stream, dice: &mut Dice) -> Result<(), Error> {
        let (buffer, range, view) = self.part(dice, None);
        let token = CancelToken::new();
        token.cancel();
        let request = stream.with_cancel(&token);
        request.launch(&self.kernels.set, cubes(dice), (write(&view), 1_u32))?;
        self.buffers[buffer].elements[range].fill(Element::Failed);
        Ok(())
    }
}
