//! What the threads of a warp, or of a cube, do together.

use crate::instruction::{Action, Binary, Meeting, Shuffle, Source, Type, Vote};
use crate::operands::Statement;

const B32: Type = Type::Bits(4);

impl Statement<'_, '_> {
    /// None: it is none of these.
    pub(super) fn meeting(&mut self, name: &str) -> Result<Option<Action>, String> {
        let action = match name {
            "bar" | "barrier" => {
                if self.has("warp") {
                    self.must("sync")?;
                    let lanes = self.source(B32)?;
                    return Ok(Some(Action::Meet {
                        meeting: Meeting::Barrier,
                        lanes,
                    }));
                }
                self.barrier()
            }
            "shfl" => self.shuffle(),
            "vote" => self.vote(),
            "match" => self.matching(),
            "redux" => self.reduce(),
            "elect" => {
                self.must("sync")?;
                let [target, valid] = self.two_targets()?;
                let valid = valid.ok_or("a predicate is missing")?;
                let lanes = self.source(B32)?;
                let meeting = Meeting::Elect { target, valid };
                Ok(Action::Meet { meeting, lanes })
            }
            "activemask" => {
                self.must("b32")?;
                let target = self.target()?;
                Ok(Action::ActiveLanes { target })
            }
            _ => return Ok(None),
        };
        action.map(Some)
    }

    fn must(&mut self, name: &str) -> Result<(), String> {
        match self.has(name) {
            true => Ok(()),
            false => Err(format!("without `.{name}`")),
        }
    }

    fn barrier(&mut self) -> Result<Action, String> {
        self.pass(&["cta", "aligned"]);
        if self.has("red") {
            let how = self.modifier("reduction", |name| match name {
                "popc" => Some(Vote::Count),
                "and" => Some(Vote::All),
                "or" => Some(Vote::Any),
                _ => None,
            })?;
            self.ty()?;
            let (target, id) = (self.target()?, self.source(B32)?);
            let (a, negated) = self.predicate()?;
            let vote = Some((how, target, a, negated));
            return Ok(Action::Barrier { id, vote });
        }
        self.must("sync")?;
        let id = self.source(B32)?;
        match self.more() {
            false => Ok(Action::Barrier { id, vote: None }),
            true => Err("only barriers of all threads are known".to_owned()),
        }
    }

    fn shuffle(&mut self) -> Result<Action, String> {
        self.must("sync")?;
        self.must("b32")?;
        let how = self.modifier("way", |name| match name {
            "up" => Some(Shuffle::Up),
            "down" => Some(Shuffle::Down),
            "bfly" => Some(Shuffle::Butterfly),
            "idx" => Some(Shuffle::Index),
            _ => None,
        })?;
        let [target, valid] = self.two_targets()?;
        let meeting = Meeting::Shuffle {
            how,
            target: target.ok_or("no target")?,
            valid,
            a: self.source(B32)?,
            by: self.source(B32)?,
            bounds: self.source(B32)?,
        };
        let lanes = self.source(B32)?;
        Ok(Action::Meet { meeting, lanes })
    }

    fn vote(&mut self) -> Result<Action, String> {
        self.must("sync")?;
        self.ty()?;
        let how = self.modifier("way", |name| match name {
            "all" => Some(Vote::All),
            "any" => Some(Vote::Any),
            "uni" => Some(Vote::Uniform),
            "ballot" => Some(Vote::Ballot),
            _ => None,
        })?;
        let target = self.target()?;
        let (a, negated) = self.predicate()?;
        let lanes = self.source(B32)?;
        let meeting = Meeting::Vote {
            how,
            target,
            a,
            negated,
        };
        Ok(Action::Meet { meeting, lanes })
    }

    fn matching(&mut self) -> Result<Action, String> {
        self.must("sync")?;
        let all = self.has("all");
        if !all {
            self.must("any")?;
        }
        let ty = self.ty()?;
        let [target, valid] = self.two_targets()?;
        let target = target.ok_or("no target")?;
        let a = self.source(ty)?;
        let meeting = match all {
            true => Meeting::MatchAll {
                ty,
                target,
                valid,
                a,
            },
            false => Meeting::MatchAny { ty, target, a },
        };
        let lanes = self.source(B32)?;
        Ok(Action::Meet { meeting, lanes })
    }

    fn reduce(&mut self) -> Result<Action, String> {
        self.must("sync")?;
        let op = self.modifier("operation", |name| {
            Some(match name {
                "add" => Binary::Add,
                "min" => Binary::Min { nan: false },
                "max" => Binary::Max { nan: false },
                "and" => Binary::And,
                "or" => Binary::Or,
                "xor" => Binary::Xor,
                _ => return None,
            })
        })?;
        let ty = self.ty()?;
        if ty.is_float() || ty.bytes() != 4 {
            return Err("of this type".to_owned());
        }
        let (target, a): (usize, Source) = (self.target()?, self.source(ty)?);
        let lanes = self.source(B32)?;
        let meeting = Meeting::Reduce { op, ty, target, a };
        Ok(Action::Meet { meeting, lanes })
    }
}
