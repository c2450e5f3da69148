//! Checks functions.

mod operation;

use super::{
    ACCESS_BYTES_MAX, Array, Block, DEPTH_MAX, Function, LOCAL_BYTES_MAX, Memory, Param,
    SHARED_BYTES_MAX, Stmt, TABLE_BYTES_MAX, THREADS_MAX, Table, Type, ValueId, uniform,
};
use crate::error::Checked;
use crate::nest::BufferMode;
use crate::{DType, ProgramError};

/// The most parameters, scalars, or arrays of a kind.
const LIST_MAX: u64 = 512;
/// The most threads of a cube along z.
const THREADS_Z_MAX: u32 = 64;

impl Function {
    /// Checks the function.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> Result<(), ProgramError> {
        self.check_names()?;
        self.check_sizes()?;
        let constants = vec![None; self.values.len()];
        let mut check = Check {
            function: self,
            defined: vec![Definition::Undefined; self.values.len()],
            constants,
            line: 0,
            loops: Vec::new(),
        };
        check.block(&self.body, 0)?;
        uniform::check(self)
    }

    fn check_names(&self) -> Result<(), ProgramError> {
        let params = self.params.iter().map(|param| &param.name);
        let scalars = self.scalars.iter().map(|scalar| &scalar.name);
        let arrays = self.shared.iter().chain(&self.locals);
        let tables = self.tables.iter().map(|table| &table.name);
        let all = params.chain(scalars).chain(tables);
        let all = all.chain(arrays.map(|array| &array.name));
        let mut seen = std::collections::HashSet::new();
        for name in std::iter::once(&self.name).chain(all.clone()) {
            let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            if name.is_empty() || !name.chars().all(letter) || name.starts_with(char::is_numeric) {
                return Err(ProgramError::new(format!(
                    "the name `{name}` must consist of letters, digits and `_`, and not start with a digit"
                )));
            }
        }
        for name in all {
            if !seen.insert(name) {
                return Err(ProgramError::new(format!(
                    "the name `{name}` is used twice: give each item its own"
                )));
            }
        }
        if self.file.chars().any(char::is_control) {
            return Err(ProgramError::new(format!(
                "the file name {:?} has control characters: remove them",
                self.file
            )));
        }
        self.check_lens()
    }

    fn check_lens(&self) -> Result<(), ProgramError> {
        for Param {
            name, len, each, ..
        } in &self.params
        {
            if *each == 0 {
                return Err(ProgramError::new(format!(
                    "messages count each 0 elements of `{name}` as one: write at least 1"
                )));
            }
            let len = len.map(|len| self.scalars.get(usize::from(len)).ok_or(len));
            let why = match len {
                None if self.checked => format!(
                    "accesses are checked, but `{name}` has no length: add a scalar of type u64, and `[its name]` behind the type of `{name}`"
                ),
                Some(Err(len)) => {
                    format!("the length of `{name}` is scalar {len}, which does not exist")
                }
                Some(Ok(scalar)) if scalar.dtype != DType::U64 => format!(
                    "the length of `{name}`, `{}`, has type {}: declare it as u64",
                    scalar.name, scalar.dtype
                ),
                _ => continue,
            };
            return Err(ProgramError::new(why));
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), ProgramError> {
        let threads = self.threads;
        let all: u128 = threads.iter().map(|axis| u128::from(*axis)).product();
        if !(1..=u128::from(THREADS_MAX)).contains(&all) || threads[2] > THREADS_Z_MAX {
            return Err(ProgramError::new(format!(
                "cubes have {threads:?} threads: each axis needs at least 1, all together at most {THREADS_MAX}, and z at most {THREADS_Z_MAX}"
            )));
        }
        // Each array is aligned for wide accesses.
        let bytes_of =
            |array: &Array| (u64::from(array.len) * array.dtype.size() as u64).next_multiple_of(16);
        let shared_bytes = self.shared.iter().map(bytes_of);
        let shared_bytes = shared_bytes.fold(0, u64::saturating_add);
        // Only arrays count: variables are registers.
        let arrays = self.locals.iter().filter(|array| array.len > 1);
        let local_bytes = arrays.map(bytes_of).fold(0, u64::saturating_add);
        let bytes_of = |table: &Table| table.bits.len() as u64 * table.dtype.size() as u64;
        let table_bytes = self
            .tables
            .iter()
            .map(bytes_of)
            .fold(0, u64::saturating_add);
        let counts = [
            ("tables", self.tables.len() as u64, LIST_MAX),
            ("bytes of tables", table_bytes, TABLE_BYTES_MAX),
            ("parameters", self.params.len() as u64, LIST_MAX),
            ("scalars", self.scalars.len() as u64, LIST_MAX),
            ("shared arrays", self.shared.len() as u64, LIST_MAX),
            ("locals", self.locals.len() as u64, u16::MAX.into()),
            ("values", self.values.len() as u64, u32::MAX.into()),
            ("shared bytes", shared_bytes, SHARED_BYTES_MAX),
            ("bytes of locals", local_bytes, LOCAL_BYTES_MAX),
        ];
        for (what, given, limit) in counts {
            if given > limit {
                return Err(ProgramError::too_many(what, given, limit));
            }
        }
        for Table { name, dtype, bits } in &self.tables {
            let width = match dtype {
                DType::Bool => 1,
                dtype => 8 * dtype.size() as u32,
            };
            let fits = |bits: &u64| width == 64 || bits >> width == 0;
            if bits.is_empty() || !bits.iter().all(fits) {
                return Err(ProgramError::new(format!(
                    "the table `{name}` needs at least one constant, and constants of type {dtype}"
                )));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Definition {
    Undefined,
    /// Defined in an open block.
    InScope,
    /// Defined in a block that has ended.
    OutOfScope,
}

struct Check<'a> {
    function: &'a Function,
    defined: Vec<Definition>,
    /// The bits of constant values.
    constants: Vec<Option<u64>>,
    /// The line of the source file.
    line: u32,
    /// The loops around the statement, and whether a `break` or a `return` was found that leaves each.
    loops: Vec<bool>,
}

impl Check<'_> {
    fn block(&mut self, body: &Block, depth: usize) -> Result<(), ProgramError> {
        if depth > DEPTH_MAX {
            let (given, limit) = (depth as u64, DEPTH_MAX as u64);
            return Err(ProgramError::too_many("nested blocks", given, limit));
        }
        let mut in_scope = Vec::new();
        for (index, stmt) in body.iter().enumerate() {
            if stmt.is_terminator() && index + 1 < body.len() {
                let at = At(self.function, stmt, self.line);
                return Err(at.error(
                    "must be the last statement of its block: remove the statements behind it, which are never executed",
                ));
            }
            self.stmt(stmt, depth, &mut in_scope)?;
        }
        self.end(&in_scope);
        Ok(())
    }

    fn end(&mut self, values: &[ValueId]) {
        for value in values {
            self.defined[*value as usize] = Definition::OutOfScope;
        }
    }

    fn stmt(
        &mut self,
        stmt: &Stmt,
        depth: usize,
        in_scope: &mut Vec<ValueId>,
    ) -> Result<(), ProgramError> {
        let at = At(self.function, stmt, self.line);
        match stmt {
            Stmt::Let { value, op } => {
                let mut operands = Ok(());
                op.each_operand(|operand| {
                    if operands.is_ok() {
                        operands = self.uses(operand, at).map(|_| ());
                    }
                });
                operands?;
                self.define(*value, at)?;
                in_scope.push(*value);
                self.op(*value, op, at)
            }
            Stmt::Store {
                to,
                at: index,
                value,
            } => {
                let given = self.uses(*value, at)?;
                self.access(*to, *index, given, at)?;
                self.writes(*to)
            }
            Stmt::If {
                condition,
                then,
                otherwise,
            } => {
                let given = self.uses(*condition, at)?;
                at.same(DType::Bool, given)?;
                self.block(then, depth + 1)?;
                self.block(otherwise, depth + 1)
            }
            Stmt::For {
                index,
                start,
                end,
                step,
                body,
                ..
            } => {
                for bound in [start, end, step] {
                    let given = self.uses(*bound, at)?;
                    at.same(DType::I64, given)?;
                }
                if self.constants[*step as usize].is_some_and(|bits| (bits as i64) < 1) {
                    return Err(at.error("has a step below 1: use a positive constant"));
                }
                self.define(*index, at)?;
                at.same(DType::I64, self.function.values[*index as usize])?;
                self.repeated(body, depth + 1)?;
                self.end(&[*index]);
                Ok(())
            }
            Stmt::Loop { body } => match self.repeated(body, depth + 1)? {
                true => Ok(()),
                false => Err(at.error(
                    "never ends: leave it by `break` or `return`, below a condition that becomes true",
                )),
            },
            Stmt::Break | Stmt::Continue => match self.loops.last_mut() {
                Some(is_left) => {
                    *is_left |= matches!(stmt, Stmt::Break);
                    Ok(())
                }
                None => Err(at.error(
                    "is outside of a loop: use `return` to end the thread, or put it into a loop",
                )),
            },
            Stmt::Return => {
                self.loops.fill(true);
                Ok(())
            }
            Stmt::Line(line) => {
                self.line = *line;
                Ok(())
            }
            Stmt::Say(say) => {
                let mut types = Vec::new();
                for value in &say.values {
                    let given = self.uses(*value, at)?;
                    if given.lanes != 1 {
                        return Err(at.error(format_args!(
                            "has a value of type {given}: take its lanes one by one"
                        )));
                    }
                    types.push(given.dtype);
                }
                say.check(&types).map_err(|why| at.error(why))
            }
            Stmt::Barrier => Ok(()),
        }
    }

    /// Checks the block of a loop. Returns whether a `break` or a `return` leaves the loop.
    fn repeated(&mut self, body: &Block, depth: usize) -> Result<bool, ProgramError> {
        self.loops.push(false);
        self.block(body, depth)?;
        Ok(self.loops.pop().unwrap_or_default())
    }

    /// Returns the type of a value that is used here.
    fn uses(&self, value: ValueId, at: At<'_>) -> Result<Type, ProgramError> {
        match self.defined.get(value as usize) {
            None => Err(at.missing("value", value)),
            Some(Definition::InScope) => Ok(self.function.values[value as usize]),
            Some(Definition::Undefined | Definition::OutOfScope) => Err(at.error(format_args!(
                "uses %{value}, which is not defined there: pass it out of a block in a local"
            ))),
        }
    }

    fn define(&mut self, value: ValueId, at: At<'_>) -> Result<(), ProgramError> {
        match self.defined.get_mut(value as usize) {
            None => Err(at.missing("value", value)),
            Some(definition @ Definition::Undefined) => {
                *definition = Definition::InScope;
                Ok(())
            }
            Some(Definition::InScope | Definition::OutOfScope) => Err(at.error(format_args!(
                "defines %{value} a second time: each value is defined once"
            ))),
        }
    }

    fn writes(&self, memory: Memory) -> Result<(), ProgramError> {
        let index = match memory {
            Memory::Param(index) => index,
            Memory::Table(index) => {
                let name = &self.function.tables[usize::from(index)].name;
                return Err(ProgramError::new(format!(
                    "`{name}` is a table of constants, but the function stores to it: copy it to a local"
                )));
            }
            _ => return Ok(()),
        };
        let param = &self.function.params[usize::from(index)];
        if param.mode != BufferMode::Read {
            return Ok(());
        }
        Err(ProgramError::new(format!(
            "`{}` is read-only, but the function stores to it: declare it as written or updated",
            param.name
        )))
    }
}

/// The statement that is checked, and its line in the source file.
#[derive(Clone, Copy)]
struct At<'a>(&'a Function, &'a Stmt, u32);

impl At<'_> {
    fn width(self, given: Type) -> ProgramError {
        self.error(format_args!(
            "has type {given}: values have 1, 2, 4, 8 or 16 lanes, and accesses at most {ACCESS_BYTES_MAX} bytes"
        ))
    }
}

impl Checked for At<'_> {
    fn error(self, why: impl std::fmt::Display) -> ProgramError {
        ProgramError::new(format!("{} {why}", self.0.quoted(self.1, self.2)))
    }
}
