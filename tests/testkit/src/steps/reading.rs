//! Steps that read data.

use millstream::{Recycled, stream::readbacks};

use crate::answers::{self, Expected};
use crate::contents::{AllowedFailures, Contents};
use crate::dice::Dice;
use crate::end::End;
use crate::program::{Program, Stepped};
use crate::tally::Count;

/// The maximum number of pending reads. Each keeps the memory of its data.
const PENDING_MAX: usize = 16;
/// The maximum number of frames of a sequence.
const FRAMES_MAX: usize = 4;

impl Program {
    /// Reads a part. A later step receives the answer.
    pub(crate) fn read_later(&mut self, dice: &mut Dice) -> Stepped {
        if self.pending_reads() >= PENDING_MAX {
            self.receive_one(dice)?;
        }
        let (stream, part) = (self.stream(dice), self.part(dice)?);
        self.start_read(&stream, &part);
        Ok(())
    }

    /// Reads a part, and receives the answer or drops it.
    pub(crate) fn read_now(&mut self, dice: &mut Dice) -> Stepped {
        self.end_outside()?;
        let (stream, part) = (self.stream(dice), self.part(dice)?);
        let expected = self.expected("read", self.contents(&part));
        answers::read(&self.config, dice, expected, stream.read(&part.view))
    }

    /// Returns the expected result of a read of a whole buffer.
    fn expected_whole(&self, what: &'static str, at: usize) -> Expected {
        self.expected(what, self.buffers[at].contents.clone())
    }

    pub(crate) fn read_many(&mut self, dice: &mut Dice) -> Stepped {
        self.end_outside()?;
        let (stream, first, second) = (self.stream(dice), self.any(dice), self.any(dice));
        let pending = stream.read_many([first, second].map(|at| &self.buffers[at].handle));
        let answer = answers::answer(&self.config, dice, "read many", pending)?;
        let both = [first, second].map(|at| self.expected_whole("read many", at));
        match answer {
            Ok(parts) if parts.len() == 2 => both
                .iter()
                .zip(parts)
                .try_for_each(|(expected, part)| expected.check(self.tally(), &Ok(part))),
            Ok(parts) => Err(self.violation(format!(
                "read many: expected 2 answers, got {}",
                parts.len()
            ))),
            // One of the two reads has failed.
            Err(error) => {
                let mut either = Contents::default();
                both.iter()
                    .for_each(|one| either.paste(either.len(), &one.contents));
                let either = self.expected("read many", either);
                either.check(self.tally(), &Err(error))
            }
        }
    }

    /// Submits a sequence of readbacks with a task between them, which must arrive in order.
    pub(crate) fn sequence(&mut self, dice: &mut Dice) -> Stepped {
        self.end_outside()?;
        let (stream, at) = (self.stream(dice), self.any(dice));
        let count = 1 + dice.below(FRAMES_MAX);
        let (sender, mut frames) = readbacks::<u32, usize>(count);
        let mut expected = Vec::new();
        let mut ended = Ok(());
        while ended.is_ok() && expected.len() < count {
            let submitted = sender.read(&stream, &self.buffers[at].handle, expected.len());
            ended = submitted.map_err(|returned| self.refused("sequence", returned.error));
            if ended.is_ok() {
                self.tally().increment(Count::Requests);
                expected.push(self.expected_whole("sequence", at));
                ended = self.add_to_all(at, dice);
            }
        }
        drop(sender);
        // Every accepted readback is answered, even if the device is lost meanwhile (I5).
        for (tag, expected) in expected.into_iter().enumerate() {
            let Some(frame) = frames.wait_next() else {
                self.tally()
                    .note_unanswered("sequence: ended before the last readback");
                return Err(End::Wrong);
            };
            self.tally().increment(Count::Answered);
            if frame.tag != tag {
                ended = Err(self.violation(format!(
                    "sequence: expected readback {tag}, got {}",
                    frame.tag
                )));
            }
            let elements = frame.elements.map(Recycled::into_vec);
            ended = ended.and(expected.check(self.tally(), &elements));
        }
        ended
    }

    fn add_to_all(&mut self, at: usize, dice: &mut Dice) -> Stepped {
        let (stream, by) = (self.stream(dice), dice.number());
        let whole = self.whole_part(at);
        let launched = crate::add(&stream, &self.kernels, &whole.view, by, Self::cubes(dice));
        launched.map_err(|error| self.refused("add", error))?;
        self.note_task(&stream, "add");
        self.set_added(&whole, by, AllowedFailures::NONE);
        Ok(())
    }
}
