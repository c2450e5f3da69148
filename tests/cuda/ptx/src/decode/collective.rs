//! Decodes collectives of a warp or a block: barriers, shuffles, votes, matches, reductions.

use crate::instruction::{Action, Binary, Collective, Shuffle, Source, Type, Vote};
use crate::operands::Statement;

const B32: Type = Type::Bits(4);

impl Statement<'_, '_> {
    /// Decodes a collective, or returns `None` for any other instruction.
    pub(super) fn collective(&mut self, name: &str) -> Result<Option<Action>, String> {
        let action = match name {
            "bar" | "barrier" => {
                if self.has("warp") {
                    self.require("sync")?;
                    let lanes = self.source(B32)?;
                    return Ok(Some(Action::Collective {
                        collective: Collective::Barrier,
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
                self.require("sync")?;
                let [target, valid] = self.two_targets()?;
                let valid = valid.ok_or("the predicate is missing")?;
                let lanes = self.source(B32)?;
                let collective = Collective::Elect { target, valid };
                Ok(Action::Collective { collective, lanes })
            }
            "activemask" => {
                self.require("b32")?;
                let target = self.target()?;
                Ok(Action::ActiveLanes { target })
            }
            _ => return Ok(None),
        };
        action.map(Some)
    }

    fn require(&mut self, name: &str) -> Result<(), String> {
        match self.has(name) {
            true => Ok(()),
            false => Err(format!("expected the modifier `.{name}`")),
        }
    }

    fn barrier(&mut self) -> Result<Action, String> {
        self.ignore(&["cta", "aligned"]);
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
        self.require("sync")?;
        let id = self.source(B32)?;
        match self.has_more() {
            false => Ok(Action::Barrier { id, vote: None }),
            true => Err("only barriers of all threads are supported".to_owned()),
        }
    }

    fn shuffle(&mut self) -> Result<Action, String> {
        self.require("sync")?;
        self.require("b32")?;
        let how = self.modifier("shuffle mode", |name| match name {
            "up" => Some(Shuffle::Up),
            "down" => Some(Shuffle::Down),
            "bfly" => Some(Shuffle::Butterfly),
            "idx" => Some(Shuffle::Index),
            _ => None,
        })?;
        let [target, valid] = self.two_targets()?;
        let collective = Collective::Shuffle {
            how,
            target: target.ok_or("the target is missing")?,
            valid,
            a: self.source(B32)?,
            by: self.source(B32)?,
            bounds: self.source(B32)?,
        };
        let lanes = self.source(B32)?;
        Ok(Action::Collective { collective, lanes })
    }

    fn vote(&mut self) -> Result<Action, String> {
        self.require("sync")?;
        self.ty()?;
        let how = self.modifier("vote mode", |name| match name {
            "all" => Some(Vote::All),
            "any" => Some(Vote::Any),
            "uni" => Some(Vote::Uniform),
            "ballot" => Some(Vote::Ballot),
            _ => None,
        })?;
        let target = self.target()?;
        let (a, negated) = self.predicate()?;
        let lanes = self.source(B32)?;
        let collective = Collective::Vote {
            how,
            target,
            a,
            negated,
        };
        Ok(Action::Collective { collective, lanes })
    }

    fn matching(&mut self) -> Result<Action, String> {
        self.require("sync")?;
        let all = self.has("all");
        if !all {
            self.require("any")?;
        }
        let ty = self.ty()?;
        let [target, valid] = self.two_targets()?;
        let target = target.ok_or("the target is missing")?;
        let a = self.source(ty)?;
        let collective = match all {
            true => Collective::MatchAll {
                ty,
                target,
                valid,
                a,
            },
            false => Collective::MatchAny { ty, target, a },
        };
        let lanes = self.source(B32)?;
        Ok(Action::Collective { collective, lanes })
    }

    fn reduce(&mut self) -> Result<Action, String> {
        self.require("sync")?;
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
            return Err("unsupported type".to_owned());
        }
        let (target, a): (usize, Source) = (self.target()?, self.source(ty)?);
        let lanes = self.source(B32)?;
        let collective = Collective::Reduce { op, ty, target, a };
        Ok(Action::Collective { collective, lanes })
    }
}
