//! Steps about order: points, syncs, new and dropped streams, host functions.

use millstream::{CubeCount, read};

use crate::answers;
use crate::contents::AllowedFailures;
use crate::dice::Dice;
use crate::program::{Program, Stepped};
use crate::tally::{Token, Value};

/// The maximum number of `tick` launches of a step.
const TICKS_MAX: usize = 3;

impl Program {
    /// Takes a point of a stream, or makes a stream wait for one.
    pub(crate) fn point(&mut self, dice: &mut Dice) -> Stepped {
        let stream = self.stream(dice);
        let done = match self.points.pop() {
            Some(point) if dice.one_in(2) => stream.wait_for(&point),
            earlier => stream.point().map(|point| {
                self.points.extend(earlier);
                self.points.push(point);
            }),
        };
        done.map_err(|error| self.refused("point", error))
    }

    pub(crate) fn flush(&mut self, dice: &mut Dice) -> Stepped {
        let flushed = self.stream(dice).flush();
        flushed.map_err(|error| self.refused("flush", error))
    }

    /// Launches `tick`, which has no bindings: only the order of its stream determines when it has run.
    pub(crate) fn tick(&mut self, dice: &mut Dice) -> Stepped {
        let (nth, ticks) = (dice.below(self.streams.len()), 1 + dice.below(TICKS_MAX));
        let Some(tick) = self.kernels.tick() else {
            return Ok(());
        };
        let counted = &self.streams[nth];
        for _ in 0..ticks {
            let launched = counted
                .stream
                .launch(&tick.kernel, CubeCount::single(), (counted.id,));
            launched.map_err(|error| self.refused("tick", error))?;
        }
        self.streams[nth].ticks += ticks as u64;
        Ok(())
    }

    /// Waits for a sync, after which all tasks of the stream must have run.
    pub(crate) fn sync_stream(&mut self, dice: &mut Dice) -> Stepped {
        self.end_outside()?;
        let counted = &self.streams[dice.below(self.streams.len())];
        let synced = answers::answer(&self.config, dice, "sync", counted.stream.sync())?;
        synced.map_err(|error| self.refused("sync", error))?;
        let may_fail = [AllowedFailures::INJECTED, AllowedFailures::LOST];
        let may_fail = may_fail.map(|excuse| self.config.allowed.has(excuse));
        let Some(tick) = self.kernels.tick() else {
            return Ok(());
        };
        let (ran, all) = (tick.runs(counted.id), counted.ticks);
        match ran == all || may_fail.contains(&true) {
            true => Ok(()),
            false => Err(self.violation(format!(
                "a sync was answered after {ran} of {all} tasks (I1, I6)"
            ))),
        }
    }

    pub(crate) fn sync_client(&mut self, dice: &mut Dice) -> Stepped {
        self.end_outside()?;
        let pending = self.clients[dice.below(self.clients.len())].sync();
        let synced = answers::answer(&self.config, dice, "client sync", pending)?;
        synced.map_err(|error| self.refused("client sync", error))
    }

    /// Adds a stream, and may drop one with its pending tasks before.
    pub(crate) fn replace_stream(&mut self, dice: &mut Dice) -> Stepped {
        if self.streams.len() == self.config.streams_max || dice.one_in(2) {
            let nth = dice.below(self.streams.len());
            self.streams.swap_remove(nth);
        }
        let stream = self.new_stream(dice);
        self.streams.push(stream);
        Ok(())
    }

    /// Submits a host function that reads a part.
    pub(crate) fn read_on_host(&mut self, dice: &mut Dice) -> Stepped {
        let stream = self.stream(dice);
        let part = self.part(dice)?;
        let token = Token::new(self.tally());
        let submitted = stream.host("read", (read(&part.view),), move || token.called());
        submitted.map_err(|returned| self.refused("host", returned.error))
    }

    pub(crate) fn drop_after(&mut self, dice: &mut Dice) -> Stepped {
        let value = Value::new(self.tally());
        let submitted = self.stream(dice).drop_after(value);
        submitted.map_err(|returned| self.refused("drop after", returned.error))
    }

    /// Waits for a cleanup, the statistics, or a memory report.
    pub(crate) fn query_device(&mut self, dice: &mut Dice) -> Stepped {
        self.end_outside()?;
        let (config, client) = (&self.config, &self.clients[0]);
        let refused = |error| self.refused("query", error);
        match dice.below(3) {
            0 => answers::answer(config, dice, "cleanup", client.memory_cleanup())?
                .map(drop)
                .map_err(refused),
            1 => answers::answer(config, dice, "stats", client.stats())?
                .map(drop)
                .map_err(refused),
            _ => answers::answer(config, dice, "memory", client.memory_usage())?
                .map(drop)
                .map_err(refused),
        }
    }
}
