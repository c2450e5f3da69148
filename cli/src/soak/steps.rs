//! The steps of a session: each does something to a stream or buffer, and notes what that must have done.

use std::time::{Duration, Instant};

use millstream::{
    CancelToken, CubeCount, Error, MemoryError, Recycled, Stream, read, readbacks, update, write,
};

use super::asks::{self, End, Wanted};
use super::dice::Dice;
use super::model::{Excuses, Expected};
use super::session::{Session, Stepped, add};
use super::tally::{Count, Token, Value};

/// Streams that one session has at most.
const STREAMS_MAX: usize = 6;
/// The most cubes of a launch.
const CUBES_MAX: usize = 9;

impl Session<'_> {
    /// One step. `End` says that the session cannot go on.
    pub(crate) fn step(&mut self, dice: &mut Dice) -> Stepped {
        if self.buffers.is_empty() {
            return self.create(dice);
        }
        match dice.below(100) {
            0..12 => self.create(dice),
            12..16 => self.drop_buffer(dice),
            16..22 => self.overwrite(dice),
            22..38 => self.add(dice),
            38..46 => self.mix(dice),
            46..50 => self.copy(dice),
            50..52 => self.panic(dice),
            52..64 => self.read(dice),
            64..67 => self.read_many(dice),
            67..71 => self.cancel(dice),
            71..74 => self.deadline(dice),
            74..78 => self.replay(dice),
            78..81 => self.wait_for_a_point(dice),
            81..84 => self.host(dice),
            84..86 => self.sequence(dice),
            86..88 => self.drop_after(dice),
            88..91 => self.sync(dice),
            91..94 => self.without_waiting(dice),
            94..96 => self.count_on_the_device(dice),
            96..99 => self.churn_streams(dice),
            _ => self.ask_the_device(dice),
        }
    }

    fn create(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, pattern) = (self.stream(dice), Self::pattern(dice));
        let len = dice.log_uniform(self.ground.elements_max);
        let expected = Expected::defined(pattern, Excuses::NONE);
        let made = match dice.below(3) {
            0 => stream.create(&pattern.elements(len)),
            1 => stream
                .create_owned(pattern.elements(len))
                .map_err(Error::from),
            _ => {
                let flat = pattern.flat();
                let made = stream.empty::<u32>(len);
                if let Ok(handle) = &made {
                    let filled = stream.fill(handle, flat.base);
                    filled.map_err(|error| self.refused("fill", error))?;
                }
                let expected = Expected::defined(flat, Excuses::NONE);
                return self.keep(dice, made, expected, Excuses::NONE).map(drop);
            }
        };
        self.keep(dice, made, expected, Excuses::NONE).map(drop)
    }

    fn drop_buffer(&mut self, dice: &mut Dice) -> Stepped {
        let at = self.any(dice);
        self.buffers.swap_remove(at);
        Ok(())
    }

    fn overwrite(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, at, mut pattern) = (self.stream(dice), self.any(dice), Self::pattern(dice));
        let buffer = &self.buffers[at];
        let done = match dice.one_in(2) {
            true => stream.write(&buffer.handle, &pattern.elements(buffer.len())),
            false => {
                pattern.stride = 0;
                stream.fill(&buffer.handle, pattern.base)
            }
        };
        done.map_err(|error| self.refused("overwrite", error))?;
        self.define(at, pattern, Excuses::NONE);
        Ok(())
    }

    fn add(&mut self, dice: &mut Dice) -> Stepped {
        let at = self.any(dice);
        self.add_to(at, dice)
    }

    fn add_to(&mut self, at: usize, dice: &mut Dice) -> Stepped {
        let (stream, by) = (self.stream(dice), dice.next() as u32);
        let cubes = 1 + dice.below(CUBES_MAX) as u32;
        add(&stream, &self.kernels, &self.buffers[at].handle, by, cubes)
            .map_err(|error| self.refused("add", error))?;
        self.added(at, by, self.ground.excuses);
        Ok(())
    }

    /// A buffer as long as the shorter of two others, with their sum.
    fn mix(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, left, right) = (self.stream(dice), self.any(dice), self.any(dice));
        let len = self.buffers[left].len().min(self.buffers[right].len());
        let made = stream.empty::<u32>(len);
        let expected = self.buffers[left].expected;
        let expected = expected.mixed(self.buffers[right].expected);
        if let Ok(sum) = &made {
            let inputs = [left, right].map(|at| self.buffers[at].handle.slice(0..len));
            let [Ok(left), Ok(right)] = inputs else {
                self.tally().is_unexpected("mix: a prefix was refused");
                return Err(End::Wrong);
            };
            let cubes = CubeCount::d1(1 + dice.below(CUBES_MAX) as u32);
            let arguments = (read(&left), read(&right), write(sum));
            stream
                .launch(&self.kernels.mix, cubes, arguments)
                .map_err(|error| self.refused("mix", error))?;
        }
        self.keep(dice, made, expected, Excuses::NONE).map(drop)
    }

    fn copy(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, from) = (self.stream(dice), self.any(dice));
        let made = stream.empty::<u32>(self.buffers[from].len());
        if let Ok(target) = &made {
            stream
                .copy(&self.buffers[from].handle, target)
                .map_err(|error| self.refused("copy", error))?;
        }
        let expected = self.buffers[from].expected;
        self.keep(dice, made, expected, Excuses::NONE).map(drop)
    }

    fn panic(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, at) = (self.stream(dice), self.any(dice));
        let buffer = &mut self.buffers[at];
        let launched = stream.launch(
            &self.kernels.panic,
            CubeCount::d1(2),
            (update(&buffer.handle),),
        );
        buffer.expected = buffer.expected.panicked();
        launched.map_err(|error| self.refused("panic", error))
    }

    /// Reads all of a buffer, or a part.
    fn read(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, at) = (self.stream(dice), self.any(dice));
        let buffer = &self.buffers[at];
        let (start, end) = match dice.one_in(2) {
            true => (0, buffer.len()),
            false => {
                let (one, other) = (dice.below(buffer.len() + 1), dice.below(buffer.len() + 1));
                (one.min(other), one.max(other))
            }
        };
        let Ok(view) = buffer.handle.slice(start..end) else {
            self.tally().is_unexpected("read: a part was refused");
            return Err(End::Wrong);
        };
        let wanted = Wanted {
            what: "read",
            expected: self.readable(at, end - start),
            start,
            len: end - start,
        };
        asks::read(self.tally(), dice, wanted, stream.read(&view))
    }

    /// What reading `len` elements of a buffer must bring. No bytes can be had of anything.
    fn readable(&self, at: usize, len: usize) -> Expected {
        let expected = self.buffers[at].expected;
        Expected {
            fails: expected.fails && len > 0,
            ..expected
        }
    }

    /// What reading all of a buffer must bring.
    fn whole(&self, what: &'static str, at: usize) -> Wanted {
        Wanted {
            what,
            expected: self.buffers[at].expected,
            start: 0,
            len: self.buffers[at].len(),
        }
    }

    fn read_many(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, first, second) = (self.stream(dice), self.any(dice), self.any(dice));
        let pending = stream.read_many([&self.buffers[first].handle, &self.buffers[second].handle]);
        let answer = asks::answer(self.tally(), dice, "read many", pending)?;
        let both = [first, second].map(|at| self.whole("read many", at));
        match answer {
            Ok(parts) if parts.len() == 2 => both
                .iter()
                .zip(parts)
                .try_for_each(|(wanted, part)| wanted.check(self.tally(), &Ok(part))),
            Ok(parts) => {
                self.tally()
                    .is_wrong(format!("read many: {} of 2 answers", parts.len()));
                Err(End::Wrong)
            }
            // The failure is one of the two.
            Err(error) => {
                let either = Wanted {
                    expected: both[0].expected.mixed(both[1].expected),
                    ..both[0].clone()
                };
                either.check(self.tally(), &Err(error))
            }
        }
    }

    /// Tasks that may be withdrawn before they run.
    fn cancel(&mut self, dice: &mut Dice) -> Stepped {
        let token = CancelToken::new();
        let stream = self.stream(dice).with_cancel(&token);
        self.under_terms(dice, &stream, Excuses::CANCELLED)?;
        if dice.one_in(2) {
            token.cancel();
        }
        self.tokens.push(token);
        Ok(())
    }

    fn deadline(&mut self, dice: &mut Dice) -> Stepped {
        let soon = Instant::now() + Duration::from_micros(dice.log_uniform(2_000) as u64);
        let stream = self.stream(dice).with_deadline(soon);
        self.under_terms(dice, &stream, Excuses::DEADLINE)
    }

    fn under_terms(&mut self, dice: &mut Dice, stream: &Stream, excuse: Excuses) -> Stepped {
        for _ in 0..1 + dice.below(3) {
            let (at, pattern) = (self.any(dice), Self::pattern(dice));
            let excuses = excuse.and(self.ground.excuses);
            match dice.below(3) {
                0 => {
                    let handle = &self.buffers[at].handle;
                    let filled = stream.fill(handle, pattern.base);
                    filled.map_err(|error| self.refused("fill", error))?;
                    self.define(at, pattern.flat(), excuses);
                }
                1 => {
                    let len = dice.log_uniform(self.ground.elements_max);
                    let made = stream.create(&pattern.elements(len));
                    let expected = Expected::defined(pattern, excuses);
                    self.keep(dice, made, expected, excuse)?;
                }
                _ => {
                    let buffer = &self.buffers[at];
                    add(stream, &self.kernels, &buffer.handle, pattern.base, 2)
                        .map_err(|error| self.refused("add", error))?;
                    self.added(at, pattern.base, excuses);
                }
            }
        }
        Ok(())
    }

    /// Records an addition and a copy, and replays them some times.
    fn replay(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, at, by) = (self.stream(dice), self.any(dice), dice.next() as u32);
        let buffer = &self.buffers[at];
        let made = stream.empty::<u32>(buffer.len());
        let Ok(target) = &made else {
            let nothing = buffer.expected;
            return self.keep(dice, made, nothing, Excuses::NONE).map(drop);
        };
        let arguments = (update(&buffer.handle), by);
        let recording = stream.record(|recorder| {
            recorder.launch(&self.kernels.add, CubeCount::d1(3), arguments)?;
            recorder.copy(&buffer.handle, target)
        });
        let recording = recording.map_err(|error| self.refused("record", error))?;
        let times = 1 + dice.below(4) as u32;
        for _ in 0..times {
            let on = self.stream(dice);
            let replayed = recording.replay(&on);
            replayed.map_err(|error| self.refused("replay", error))?;
        }
        self.added(at, by.wrapping_mul(times), self.ground.excuses);
        let expected = self.buffers[at].expected;
        self.keep(dice, made, expected, Excuses::NONE).map(drop)
    }

    fn wait_for_a_point(&mut self, dice: &mut Dice) -> Stepped {
        let (before, after) = (self.stream(dice), self.stream(dice));
        let waited = before.point().and_then(|point| after.wait_for(&point));
        waited.map_err(|error| self.refused("point", error))
    }

    /// A host function that looks on while a buffer is kept as it is.
    fn host(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, at, token) = (self.stream(dice), self.any(dice), Token::new(self.tally()));
        let bindings = (read(&self.buffers[at].handle),);
        let asked = stream.host("look", bindings, move || token.called());
        asked.map_err(|returned| self.refused("host", returned.error))
    }

    /// A sequence of readbacks, with a change between them; they come in order.
    fn sequence(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, at) = (self.stream(dice), self.any(dice));
        let count = 1 + dice.below(4);
        let (sender, frames) = readbacks::<u32, usize>(count);
        let mut wanted = Vec::new();
        let mut ended = Ok(());
        while ended.is_ok() && wanted.len() < count {
            let asked = sender.read(&stream, &self.buffers[at].handle, wanted.len());
            ended = asked.map_err(|returned| self.refused("sequence", returned.error));
            if ended.is_ok() {
                self.tally().one(Count::Asked);
                wanted.push(self.whole("sequence", at));
                ended = self.add_to(at, dice);
            }
        }
        drop(sender);
        // What was asked comes, also where the device is lost meanwhile.
        for (tag, wanted) in wanted.into_iter().enumerate() {
            let Some(frame) = frames.wait_next() else {
                self.tally().is_unanswered("sequence: it ended early");
                return Err(End::Wrong);
            };
            self.tally().one(Count::Answered);
            if frame.tag != tag {
                let got = frame.tag;
                self.tally()
                    .is_wrong(format!("sequence: {got} came, not {tag}"));
            }
            let elements = frame.elements.map(Recycled::into_vec);
            ended = ended.and(wanted.check(self.tally(), &elements));
        }
        ended
    }

    fn drop_after(&mut self, dice: &mut Dice) -> Stepped {
        let value = Value::new(self.tally());
        let given = self.stream(dice).drop_after(value);
        given.map_err(|returned| self.refused("drop after", returned.error))
    }

    fn sync(&mut self, dice: &mut Dice) -> Stepped {
        let pending = match dice.one_in(2) {
            true => self.client.sync(),
            false => self.stream(dice).sync(),
        };
        let answer = asks::answer(self.tally(), dice, "sync", pending)?;
        answer.map_err(|error| self.refused("sync", error))
    }

    /// Calls that would rather not be than wait.
    fn without_waiting(&mut self, dice: &mut Dice) -> Stepped {
        let stream = self.stream(dice).nowait();
        let (at, pattern) = (self.any(dice), Self::pattern(dice));
        let flat = pattern.flat();
        for _ in 0..1 + dice.below(20) {
            match stream.fill(&self.buffers[at].handle, flat.base) {
                Ok(()) => self.define(at, flat, Excuses::NONE),
                Err(Error::Busy { .. }) => self.tally().one(Count::Busy),
                Err(error) => return Err(self.refused("fill", error)),
            }
        }
        let len = dice.log_uniform(self.ground.elements_max);
        match stream.create(&pattern.elements(len)) {
            Err(Error::Busy { .. }) => {
                self.tally().one(Count::Busy);
                Ok(())
            }
            made => {
                let expected = Expected::defined(pattern, Excuses::NONE);
                self.keep(dice, made, expected, Excuses::NONE).map(drop)
            }
        }
    }

    /// How many cubes run is read on the device.
    fn count_on_the_device(&mut self, dice: &mut Dice) -> Stepped {
        let (stream, at, by) = (self.stream(dice), self.any(dice), dice.next() as u32);
        let cubes = [1 + dice.below(CUBES_MAX) as u32, 1, 1];
        let count = match stream.create(&cubes) {
            Ok(count) => count,
            Err(Error::Memory(MemoryError::Limit { .. })) if self.limited => {
                self.tally().one(Count::Limits);
                return Ok(());
            }
            Err(error) => return Err(self.refused("create", error)),
        };
        let arguments = (update(&self.buffers[at].handle), by);
        stream
            .launch(&self.kernels.add, CubeCount::Dynamic(count), arguments)
            .map_err(|error| self.refused("add", error))?;
        self.added(at, by, self.ground.excuses);
        Ok(())
    }

    fn churn_streams(&mut self, dice: &mut Dice) -> Stepped {
        if self.streams.len() == STREAMS_MAX {
            self.streams.swap_remove(dice.below(STREAMS_MAX));
        }
        self.open_stream();
        Ok(())
    }

    fn ask_the_device(&mut self, dice: &mut Dice) -> Stepped {
        let tally = self.tally();
        let refused = |error| self.refused("ask", error);
        match dice.below(3) {
            0 => asks::answer(tally, dice, "cleanup", self.client.memory_cleanup())?
                .map(drop)
                .map_err(refused),
            1 => asks::answer(tally, dice, "stats", self.client.stats())?
                .map(drop)
                .map_err(refused),
            _ => asks::answer(tally, dice, "memory", self.client.memory_usage())?
                .map(drop)
                .map_err(refused),
        }
    }
}
