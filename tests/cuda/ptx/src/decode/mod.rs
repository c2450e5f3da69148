//! One statement into an instruction. Whatever is not known is an error: a modifier that were passed over would be a
//! wrong result.
//!
//! | module | what |
//! | --- | --- |
//! | `arithmetic` | what computes |
//! | `moving` | what moves bits and converts them |
//! | `memory` | what touches memory |
//! | `meeting` | what threads do together |

mod arithmetic;
mod meeting;
mod memory;
mod moving;

use crate::instruction::Action;
use crate::operands::{Scope, Statement, separated};

pub(super) use memory::atomic_mode;

/// Reads a statement; `operands` are its words without the last `;`.
pub(super) fn decode(scope: &Scope, opcode: &str, operands: &[&str]) -> Result<Action, String> {
    let mut parts = opcode.split('.');
    let name = parts.next().unwrap_or_default();
    let mut statement = Statement {
        scope,
        modifiers: parts.collect(),
        operands: separated(operands),
        next: 0,
    };
    let action = statement.action(name)?;
    if statement.next != statement.operands.len() {
        return Err(format!(
            "{} operands, not {}",
            statement.next,
            statement.operands.len()
        ));
    }
    match statement.modifiers.first() {
        Some(unknown) => Err(format!("the modifier `.{unknown}` is not known")),
        None => Ok(action),
    }
}

impl Statement<'_, '_> {
    fn action(&mut self, name: &str) -> Result<Action, String> {
        let action = match self.arithmetic(name)? {
            Some(action) => Some(action),
            None => match self.moving(name)? {
                Some(action) => Some(action),
                None => match self.memory(name)? {
                    Some(action) => Some(action),
                    None => self.meeting(name)?,
                },
            },
        };
        if let Some(action) = action {
            return Ok(action);
        }
        match name {
            "ret" => {
                self.pass(&["uni"]);
                Ok(match self.scope.in_function {
                    true => Action::Return,
                    false => Action::Exit,
                })
            }
            "exit" => Ok(Action::Exit),
            "trap" => Ok(Action::Trap),
            _ => Err("the fake does not know this instruction".to_owned()),
        }
    }
}
