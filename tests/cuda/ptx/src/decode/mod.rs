//! Decodes a statement to an instruction. Everything unknown is an error: ignoring a modifier would give a wrong
//! result.
//!
//! | module | contents |
//! | --- | --- |
//! | `arithmetic` | arithmetic instructions |
//! | `movement` | data movement, comparisons and conversions |
//! | `memory` | memory accesses |
//! | `collective` | collectives of warps and blocks |

mod arithmetic;
mod collective;
mod memory;
mod movement;

use crate::instruction::Action;
use crate::operands::{Scope, Statement, split_operands};

pub(super) use memory::atomic_mode;

/// Decodes a statement. `operands` are its tokens without the final `;`.
pub(super) fn decode(scope: &Scope, opcode: &str, operands: &[&str]) -> Result<Action, String> {
    let mut parts = opcode.split('.');
    let name = parts.next().unwrap_or_default();
    let mut statement = Statement {
        scope,
        modifiers: parts.collect(),
        operands: split_operands(operands),
        next: 0,
    };
    let action = statement.action(name)?;
    if statement.next != statement.operands.len() {
        return Err(format!(
            "expected {} operands, got {}",
            statement.next,
            statement.operands.len()
        ));
    }
    match statement.modifiers.first() {
        Some(unknown) => Err(format!("unsupported modifier `.{unknown}`")),
        None => Ok(action),
    }
}

impl Statement<'_, '_> {
    fn action(&mut self, name: &str) -> Result<Action, String> {
        let action = match self.arithmetic(name)? {
            Some(action) => Some(action),
            None => match self.movement(name)? {
                Some(action) => Some(action),
                None => match self.memory(name)? {
                    Some(action) => Some(action),
                    None => self.collective(name)?,
                },
            },
        };
        if let Some(action) = action {
            return Ok(action);
        }
        match name {
            "ret" => {
                self.ignore(&["uni"]);
                Ok(match self.scope.in_function {
                    true => Action::Return,
                    false => Action::Exit,
                })
            }
            "exit" => Ok(Action::Exit),
            "trap" => Ok(Action::Trap),
            _ => Err("unsupported instruction".to_owned()),
        }
    }
}
