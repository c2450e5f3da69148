//! Checks functions.

use super::{
    Block, DEPTH_MAX, Function, LOCAL_BYTES_MAX, Memory, Op, SHARED_BYTES_MAX, Scope, SsaError,
    Stmt, THREADS_MAX, Type, ValueId, uniform,
};
use crate::nest::BufferMode;
use crate::{BinaryOp, DType, ReduceOp};

/// The most parameters, scalars, or arrays of a kind.
const LIST_MAX: u64 = 512;
/// The most threads of a cube along z.
const THREADS_Z_MAX: u32 = 64;

impl Function {
    /// Checks the function.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> Result<(), SsaError> {
        self.check_names()?;
        self.check_sizes()?;
        let constants = vec![None; self.values.len()];
        let mut check = Check {
            function: self,
            defined: vec![Definition::Undefined; self.values.len()],
            constants,
        };
        check.block(&self.body, 0)?;
        uniform::check(self)
    }

    fn check_names(&self) -> Result<(), SsaError> {
        let params = self.params.iter().map(|param| &param.name);
        let scalars = self.scalars.iter().map(|scalar| &scalar.name);
        let arrays = self.shared.iter().chain(&self.locals);
        let all = params.chain(scalars).chain(arrays.map(|array| &array.name));
        let mut seen = std::collections::HashSet::new();
        for name in std::iter::once(&self.name).chain(all.clone()) {
            let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            if name.is_empty() || !name.chars().all(letter) || name.starts_with(char::is_numeric) {
                let (name, why) = (
                    name.clone(),
                    "must consist of letters, digits and `_`, and not start with a digit",
                );
                return Err(SsaError::Name { name, why });
            }
        }
        for name in all {
            if !seen.insert(name) {
                let (name, why) = (name.clone(), "is used twice: give each item its own");
                return Err(SsaError::Name { name, why });
            }
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), SsaError> {
        let threads = self.threads;
        let all: u128 = threads.iter().map(|axis| u128::from(*axis)).product();
        if !(1..=u128::from(THREADS_MAX)).contains(&all) || threads[2] > THREADS_Z_MAX {
            return Err(SsaError::Threads { threads });
        }
        let bytes = |arrays: &[super::Array]| -> u64 {
            let bytes = arrays
                .iter()
                // Each array is aligned for wide accesses.
                .map(|array| {
                    (u64::from(array.len) * array.dtype.size() as u64).next_multiple_of(16)
                });
            bytes.fold(0, u64::saturating_add)
        };
        let counts = [
            ("parameters", self.params.len() as u64, LIST_MAX),
            ("scalars", self.scalars.len() as u64, LIST_MAX),
            ("shared arrays", self.shared.len() as u64, LIST_MAX),
            ("locals", self.locals.len() as u64, u16::MAX.into()),
            ("values", self.values.len() as u64, u32::MAX.into()),
            ("shared bytes", bytes(&self.shared), SHARED_BYTES_MAX),
            // Only arrays count: variables are registers.
            ("bytes of locals", bytes(&arrays_of(self)), LOCAL_BYTES_MAX),
        ];
        for (what, given, limit) in counts {
            if given > limit {
                return Err(SsaError::TooMany { what, given, limit });
            }
        }
        Ok(())
    }
}

/// Returns the locals that are arrays, not variables.
fn arrays_of(function: &Function) -> Vec<super::Array> {
    let arrays = function.locals.iter().filter(|array| array.len > 1);
    arrays.cloned().collect()
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
}

impl Check<'_> {
    fn block(&mut self, body: &Block, depth: usize) -> Result<(), SsaError> {
        if depth > DEPTH_MAX {
            let (what, given, limit) = ("nested blocks", depth as u64, DEPTH_MAX as u64);
            return Err(SsaError::TooMany { what, given, limit });
        }
        let mut in_scope = Vec::new();
        for stmt in body {
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
    ) -> Result<(), SsaError> {
        let at = At(self.function, stmt);
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
            Stmt::AtomicAdd {
                to,
                at: index,
                value,
            } => {
                let given = self.uses(*value, at)?;
                self.access(*to, Some(*index), given, at)?;
                let can = match to {
                    Memory::Param(param) => {
                        self.function.params[usize::from(*param)].mode == BufferMode::Update
                    }
                    Memory::Shared(_) => true,
                    Memory::Local(_) => false,
                };
                let of = given.dtype.size() >= 4 && given.lanes == 1;
                if can && of {
                    return Ok(());
                }
                let place = at.text();
                Err(SsaError::Atomic { place })
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
                    let place = at.text();
                    return Err(SsaError::Step { place });
                }
                self.define(*index, at)?;
                at.same(DType::I64, self.function.values[*index as usize])?;
                self.block(body, depth + 1)?;
                self.end(&[*index]);
                Ok(())
            }
            Stmt::Barrier => Ok(()),
        }
    }

    /// Returns the type of a value that is used here.
    fn uses(&self, value: ValueId, at: At<'_>) -> Result<Type, SsaError> {
        match self.defined.get(value as usize) {
            None => Err(at.missing("value", value.into())),
            Some(Definition::InScope) => Ok(self.function.values[value as usize]),
            Some(Definition::Undefined | Definition::OutOfScope) => {
                let place = at.text();
                Err(SsaError::Scope { value, place })
            }
        }
    }

    fn define(&mut self, value: ValueId, at: At<'_>) -> Result<(), SsaError> {
        match self.defined.get_mut(value as usize) {
            None => Err(at.missing("value", value.into())),
            Some(definition @ Definition::Undefined) => {
                *definition = Definition::InScope;
                Ok(())
            }
            Some(Definition::InScope | Definition::OutOfScope) => {
                let place = at.text();
                Err(SsaError::Twice { value, place })
            }
        }
    }

    fn op(&mut self, value: ValueId, op: &Op, at: At<'_>) -> Result<(), SsaError> {
        let function = self.function;
        let to = function.values[value as usize];
        if !matches!(to.lanes, 1 | 2 | 4 | 8 | 16) {
            return Err(at.width(to));
        }
        let of = |id: &ValueId| function.values[*id as usize];
        let one = Type::one;
        match op {
            Op::Const(bits) => {
                let bits_of = 8 * to.dtype.size() as u32;
                let limit = if to.dtype == DType::Bool { 1 } else { bits_of };
                if limit < 64 && bits >> limit != 0 {
                    let place = at.text();
                    return Err(SsaError::Const { place });
                }
                self.constants[value as usize] = Some(*bits);
                Ok(())
            }
            Op::Scalar(index) => match function.scalars.get(usize::from(*index)) {
                None => Err(at.missing("scalar", u64::from(*index))),
                Some(scalar) => at.same(scalar.dtype, to),
            },
            Op::Position(..) => at.same(DType::I64, to),
            Op::Load(memory, index) => {
                self.access(*memory, *index, to, at)?;
                match memory {
                    Memory::Param(param)
                        if function.params[usize::from(*param)].mode == BufferMode::Write =>
                    {
                        let name = function.params[usize::from(*param)].name.clone();
                        let why =
                            "is write-only, but the function loads from it: declare it as updated";
                        Err(SsaError::Mode { name, why })
                    }
                    _ => Ok(()),
                }
            }
            Op::Lane(a, lane) if *lane < of(a).lanes => at.same(one(of(a).dtype), to),
            Op::Lane(_, lane) => Err(at.missing("lane", u64::from(*lane))),
            Op::Splat(a) => at.same(one(to.dtype), of(a)),
            Op::Pack(lanes) => {
                if lanes.len() != usize::from(to.lanes) || lanes.len() < 2 {
                    return Err(at.width(to));
                }
                let mut lanes = lanes.iter();
                lanes.try_for_each(|lane| at.same(one(to.dtype), of(lane)))
            }
            Op::Unary(op, a) => {
                at.expect(
                    op.takes(of(a).dtype),
                    || format!("a type that `{op}` supports"),
                    of(a),
                )?;
                at.same(of(a), to)
            }
            Op::Binary(op, a, b) => {
                at.expect(
                    op.takes(of(a).dtype),
                    || format!("a type that `{op}` supports"),
                    of(a),
                )?;
                self.fold(value, *op, *a, *b);
                at.same(of(a), of(b))?;
                at.same(of(a), to)
            }
            Op::Compare(_, a, b) => {
                at.same(of(a), of(b))?;
                at.same(of(a).with(DType::Bool), to)
            }
            Op::Select(condition, a, b) => {
                at.same(of(a).with(DType::Bool), of(condition))?;
                at.same(of(a), of(b))?;
                at.same(of(a), to)
            }
            Op::Cast(a) => at.same(of(a).with(to.dtype), to),
            Op::Bits(a) => {
                let (from, to_type) = (of(a).dtype, to.dtype);
                let fits =
                    from.size() == to_type.size() && from != DType::Bool && to_type != DType::Bool;
                at.expect(fits, || format!("a type of the size of {to_type}"), of(a))?;
                at.same(of(a).with(to_type), to)
            }
            Op::Fma(a, b, c) => {
                let fits = matches!(of(a).dtype, DType::F32 | DType::F64);
                at.expect(fits, || "f32 or f64".to_owned(), of(a))?;
                at.same(of(a), of(b))?;
                at.same(of(a), of(c))?;
                at.same(of(a), to)
            }
            Op::Random(seed, counter) => {
                at.same(to.with(DType::U32), to)?;
                at.same(to.with(DType::I64), of(counter))?;
                at.same(to.with(DType::U64), of(seed))
            }
            Op::Reduce(scope, op, a) => {
                let why = if matches!(op, ReduceOp::ArgMin | ReduceOp::ArgMax) {
                    "reduces to an index: reduce the value, then the least index that has it"
                } else if *scope == Scope::Row
                    && !(self.function.threads[0].is_power_of_two()
                        && self.function.threads[0] <= 32)
                {
                    "reduces over threads along x, whose number must be a power of two, at most 32"
                } else if of(a).lanes > 1 {
                    "reduces a wide value: reduce its lanes first"
                } else {
                    at.expect(
                        op.takes(of(a).dtype),
                        || format!("a type that `{op}` supports"),
                        of(a),
                    )?;
                    return at.same(of(a), to);
                };
                let place = at.text();
                Err(SsaError::Reduce { place, why })
            }
        }
    }

    /// Folds sums, differences and products of constants, so that a step of 0 is detected.
    fn fold(&mut self, value: ValueId, op: BinaryOp, a: ValueId, b: ValueId) {
        let of = |id: ValueId| self.constants.get(id as usize).copied().flatten();
        if let (Some(a), Some(b)) = (of(a), of(b))
            && self.function.values[value as usize] == Type::one(DType::I64)
        {
            self.constants[value as usize] = match op {
                BinaryOp::Add => Some(a.wrapping_add(b)),
                BinaryOp::Sub => Some(a.wrapping_sub(b)),
                BinaryOp::Mul => Some(a.wrapping_mul(b)),
                _ => None,
            };
        }
    }

    /// Checks a load from or a store to memory.
    fn access(
        &self,
        memory: Memory,
        index: Option<ValueId>,
        value: Type,
        at: At<'_>,
    ) -> Result<(), SsaError> {
        let Some((_, dtype)) = self.function.memory(memory) else {
            let (what, index) = match memory {
                Memory::Param(index) => ("parameter", index),
                Memory::Shared(index) => ("shared array", index),
                Memory::Local(index) => ("local", index),
            };
            return Err(at.missing(what, u64::from(index)));
        };
        at.same(value.with(dtype), value)?;
        let bytes = dtype.size() * usize::from(value.lanes);
        if bytes > super::ACCESS_BYTES_MAX && !matches!(memory, Memory::Local(_)) {
            return Err(at.width(value));
        }
        match index {
            Some(index) => at.same(DType::I64, self.uses(index, at)?),
            None => Ok(()),
        }
    }

    fn writes(&self, memory: Memory) -> Result<(), SsaError> {
        let Memory::Param(index) = memory else {
            return Ok(());
        };
        let param = &self.function.params[usize::from(index)];
        if param.mode != BufferMode::Read {
            return Ok(());
        }
        let (name, why) = (
            param.name.clone(),
            "is read-only, but the function stores to it: declare it as written or updated",
        );
        Err(SsaError::Mode { name, why })
    }
}

/// The statement that is checked.
#[derive(Clone, Copy)]
struct At<'a>(&'a Function, &'a Stmt);

impl At<'_> {
    fn text(self) -> String {
        self.0.line(self.1)
    }

    fn missing(self, what: &'static str, index: u64) -> SsaError {
        let place = self.text();
        SsaError::Missing { what, index, place }
    }

    fn width(self, given: Type) -> SsaError {
        let place = self.text();
        SsaError::Width { place, given }
    }

    fn same(self, expected: impl Into<Type>, given: Type) -> Result<(), SsaError> {
        let expected = expected.into();
        self.expect(expected == given, || expected.to_string(), given)
    }

    fn expect(
        self,
        fits: bool,
        expected: impl FnOnce() -> String,
        given: Type,
    ) -> Result<(), SsaError> {
        if fits {
            return Ok(());
        }
        let (place, expected) = (self.text(), expected());
        Err(SsaError::Type {
            place,
            expected,
            given,
        })
    }
}
