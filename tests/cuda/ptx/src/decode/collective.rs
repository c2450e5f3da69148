//! Decodes collectives of a warp or a block: barriers and shuffles.

use crate::instruction::{Action, Collective, Shuffle, Type};
use crate::operands::Statement;

const B32: Type = Type::Bits(4);

impl Statement<'_, '_> {
    /// Decodes a collective, or returns `None` for any other instruction.
    pub(super) fn collective(&mut self, name: &str) -> Result<Option<Action>, String> {
        let action = match name {
            "bar" | "barrier" => self.barrier(),
            "shfl" => self.shuffle(),
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
        let of_warp = self.has("warp");
        self.require("sync")?;
        let id = self.source(B32)?;
        if of_warp {
            let collective = Collective::Barrier;
            return Ok(Action::Collective {
                collective,
                lanes: id,
            });
        }
        match self.has_more() {
            false => Ok(Action::Barrier { id }),
            true => Err("only barriers of all threads are supported".to_owned()),
        }
    }

    fn shuffle(&mut self) -> Result<Action, String> {
        self.require("sync")?;
        self.require("b32")?;
        let how = self.modifier("shuffle mode", |name| match name {
            "down" => Some(Shuffle::Down),
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
}
