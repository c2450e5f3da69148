//! Steps whose tasks end outside of the device, when a later step says so: external tasks, and writes whose bytes arrive
//! later. A step that waits for an answer ends them first.

use std::sync::{Arc, Mutex};

use millstream::{Reason, read, update};

use crate::contents::{AllowedFailures, ON_PURPOSE};
use crate::dice::Dice;
use crate::outside::{External, Outside, Work, meet};
use crate::program::{Program, Stepped};

/// The maximum number of tasks that later steps end.
const OUTSIDE_MAX: usize = 4;

impl Program {
    /// Submits a task that a later step ends, or ends one.
    pub(crate) fn outside(&mut self, dice: &mut Dice) -> Stepped {
        if !self.config.ends_tasks_later {
            return Ok(());
        }
        if self.outside.len() == OUTSIDE_MAX || dice.one_in(3) {
            let nth = dice.below(self.outside.len());
            return match nth < self.outside.len() {
                true => {
                    let outside = self.outside.swap_remove(nth);
                    self.end_one(outside)
                }
                false => Ok(()),
            };
        }
        let (stream, part, fails) = (self.stream(dice), self.part(dice)?, dice.one_in(4));
        let kind = dice.below(3);
        let work = if kind == 0 {
            let pattern = Self::pattern(dice);
            let late = stream.write_later("write later", &part.view);
            let late = late.map_err(|error| self.refused("write later", error))?;
            self.set_overwritten(&part, pattern, AllowedFailures::NONE);
            Work::Late(late, pattern.elements(part.range.len()))
        } else {
            let place = Arc::new(Mutex::new(External::Waits));
            let bound = match kind {
                1 => read(&part.view),
                _ => update(&part.view),
            };
            let begins = place.clone();
            let submitted = stream.external("outside", bound, move |begun| {
                if let Ok(task) = begun {
                    meet(&begins, External::Begun(task), fails);
                }
            });
            submitted.map_err(|returned| self.refused("external", returned.error))?;
            if kind != 1 {
                let contents = self.contents(&part).by_one_task(self.config.allowed);
                self.set_contents(&part, &contents);
            }
            Work::External(place)
        };
        if fails && kind != 1 {
            let contents = self.contents(&part).failed(AllowedFailures::OUTSIDE);
            self.set_contents(&part, &contents);
        }
        self.outside.push(Outside { work, fails });
        Ok(())
    }

    /// Ends all tasks that later steps would end: the program waits for an answer.
    pub(crate) fn end_outside(&mut self) -> Stepped {
        let mut all = std::mem::take(&mut self.outside).into_iter();
        all.try_for_each(|outside| self.end_one(outside))
    }

    fn end_one(&self, Outside { work, fails }: Outside) -> Stepped {
        match work {
            Work::External(place) => meet(&place, External::Ended, fails),
            Work::Late(late, _) if fails => late.fail(Reason::Refused(ON_PURPOSE.to_owned())),
            Work::Late(late, elements) => {
                let sent = late.send(elements);
                sent.map_err(|returned| self.refused("send", returned.error))?;
            }
        }
        Ok(())
    }
}
