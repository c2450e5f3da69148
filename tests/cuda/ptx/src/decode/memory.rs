//! Decodes memory accesses.

use crate::instruction::{Action, Space, Type};
use crate::number::{Format, Mode};
use crate::operands::Statement;

/// Scopes of visibility. Here everything is visible to all threads.
const SCOPES: [&str; 3] = ["cta", "gpu", "sys"];

impl Statement<'_, '_> {
    /// Decodes a memory access, or returns `None` for any other instruction.
    pub(super) fn memory(&mut self, name: &str) -> Result<Option<Action>, String> {
        let action = match name {
            "ld" => self.load(),
            "st" => self.store(),
            "atom" => self.atomic(true),
            "red" => self.atomic(false),
            _ => return Ok(None),
        };
        action.map(Some)
    }

    fn load(&mut self) -> Result<Action, String> {
        // Cached and uncached loads are the same here.
        self.ignore(&["volatile", "nc"]);
        let space = self.space();
        let count = self.vector();
        let ty = self.ty()?;
        let targets = self.vector_targets(ty)?;
        let (space, from) = self.address(space)?;
        match targets.len() == count {
            true => Ok(Action::Load {
                space,
                ty,
                targets,
                from,
            }),
            false => Err(format!("expected {count} registers, got {}", targets.len())),
        }
    }

    fn store(&mut self) -> Result<Action, String> {
        if self.modifiers.contains(&"const") {
            return Err("constants cannot be written".to_owned());
        }
        let space = self.space();
        let count = self.vector();
        let ty = self.ty()?;
        let (space, to) = self.address(space)?;
        let values = self
            .vector_operand(ty)?
            .into_iter()
            .collect::<Option<Vec<_>>>();
        let values = values.ok_or("a stored value is missing")?;
        match values.len() == count && space != Space::Parameter {
            true => Ok(Action::Store {
                space,
                ty,
                values: values.into(),
                to,
            }),
            false => {
                Err("parameters cannot be written, and a vector needs as many values".to_owned())
            }
        }
    }

    fn vector(&mut self) -> usize {
        let counts = [("v2", 2), ("v4", 4)];
        let count = counts.into_iter().find(|(name, _)| self.has(name));
        count.map_or(1, |(_, count)| count)
    }

    fn atomic(&mut self, returns_old: bool) -> Result<Action, String> {
        let space = self.space();
        // Operations run one at a time, so every scope is satisfied.
        self.ignore(&SCOPES);
        if !self.has("add") {
            return Err("only atomic additions are supported".to_owned());
        }
        let ty = self.ty()?;
        let target = match returns_old {
            true => Some(self.target()?),
            false => None,
        };
        let (space, at) = self.address(space)?;
        let a = self.source(ty)?;
        Ok(Action::Atomic {
            space,
            ty,
            target,
            at,
            a,
        })
    }
}

/// Returns the mode of atomic additions. Atomic additions of `f32` in global memory flush subnormals; all others do
/// not.
pub(crate) fn atomic_mode(ty: Type, space: Space) -> Mode {
    Mode {
        flush: ty == Type::Float(Format::F32) && space == Space::Global,
        ..Mode::default()
    }
}
