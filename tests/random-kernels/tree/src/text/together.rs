//! The text of what the threads of a cube do together.

use std::fmt::Result;

use super::Text;
use super::expression::atomic;
use crate::tree::{Fold, Shuffle, Together, Var};

impl Text<'_> {
    pub(super) fn together(&mut self, it: &Together) -> Result {
        match it {
            Together::Store(array, value) => {
                let value = self.value(value);
                // The value may be of an element of this array, which another thread stores.
                self.line(&format!("let stored = {value};"))?;
                self.line("barrier();")?;
                self.line(&format!("m{array}[thread_in_cube()] = stored;"))?;
                self.line("barrier();")
            }
            Together::Exchange(var, array, value, index) => {
                let (value, index) = (
                    self.value(value),
                    self.index(index, &format!("m{array}.len()")),
                );
                let call = format!(
                    "e{}_{array}({value}, ({index}) as usize, m{array})",
                    self.kernel.seed
                );
                self.bound(*var, &call)
            }
            Together::Tally(it) => {
                let name = format!("n{}", it.array);
                let first = self.expr(&it.first);
                self.line(&format!("{name}[thread_in_cube()].store({first});"))?;
                self.line("barrier();")?;
                let at = self.index(&it.at, &format!("{name}.len()"));
                let (operation, value) = (atomic(it.operation), self.expr(&it.value));
                self.line(&format!("{name}[{at}].{operation}({value});"))?;
                self.line("barrier();")?;
                let from = self.index(&it.from, &format!("{name}.len()"));
                self.bound(it.var, &format!("{name}[{from}].load()"))?;
                self.line("barrier();")
            }
            Together::Reduce(var, fold, width, value) => {
                let fold = match fold {
                    Fold::Sum => "sum",
                    Fold::Product => "product",
                    Fold::Min => "min",
                    Fold::Max => "max",
                };
                let function = match width {
                    Some(width) => format!("subgroup_{fold}::<{width}>"),
                    None => format!("cube_{fold}"),
                };
                // As of `min` and `max`.
                let end = match value.ty.is_float() && matches!(fold, "min" | "max") {
                    true => ".abs()",
                    false => "",
                };
                let value = self.expr(value);
                self.bound(*var, &format!("{function}({value}){end}"))
            }
            Together::Shuffle(var, shuffle, width, value, by) => {
                let function = match shuffle {
                    Shuffle::Lane => "shuffle",
                    Shuffle::Xor => "shuffle_xor",
                    Shuffle::Down => "shuffle_down",
                    Shuffle::Up => "shuffle_up",
                };
                let (value, by) = (self.expr(value), self.expr(by));
                self.bound(*var, &format!("{function}::<{width}>({value}, {by})"))
            }
            Together::For(var, end, body) => {
                let (name, of) = (self.name(*var), self.shape_of(*var));
                let (end, body) = (self.expr(end), self.body(body));
                self.line(&format!("for {name} in 0_{of}..{end} {body}"))
            }
            Together::If(condition, body) => {
                let (condition, body) = (self.expr(condition), self.body(body));
                self.line(&format!("if {condition} {body}"))
            }
        }
    }

    fn bound(&mut self, var: Var, value: &str) -> Result {
        let is_mut = if self.variables[var].is_mut {
            "mut "
        } else {
            ""
        };
        let name = self.name(var);
        self.line(&format!("let {is_mut}{name} = {value};"))
    }
}
