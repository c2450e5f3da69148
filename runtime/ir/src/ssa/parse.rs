//! Parses functions of threads.

use std::collections::HashMap;

use super::{
    Array, AtomicOp, Axis, Block, DEPTH_MAX, Function, Memory, Op, Param, Position, Say, Scalar,
    Scope, Shuffle, Stmt, Table, Type, ValueId,
};
use crate::nest::BufferMode;
use crate::scalar::Number;
use crate::text::{Scanner, TextError};
use crate::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};

/// The most values of a text: their numbers are indices into a list.
const VALUES_MAX: ValueId = 1 << 20;

/// Parses a function. What was parsed is not checked: call [`Function::check`].
///
/// # Errors
/// The place where the text is no function, and what was expected there.
pub fn parse(text: &str) -> Result<Function, TextError> {
    let mut reader = Reader {
        scanner: Scanner::new(text),
        function: Function::begun(String::new(), [0; 3]),
        types: HashMap::new(),
    };
    reader.header()?;
    reader.function.body = reader.block(0)?;
    reader.scanner.end()?;
    let Reader {
        mut function,
        types,
        ..
    } = reader;
    let count = types.keys().max().map_or(0, |most| *most as usize + 1);
    // A number that no statement defines gets an arbitrary type: a valid function does not use it.
    function.values = vec![Type::one(DType::Bool); count];
    for (value, of) in types {
        function.values[value as usize] = of;
    }
    Ok(function)
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    function: Function,
    types: HashMap<ValueId, Type>,
}

impl Reader<'_> {
    fn header(&mut self) -> Result<(), TextError> {
        self.scanner.expect("kernel")?;
        self.function.name = self.scanner.word("the function's name")?.to_owned();
        self.scanner.expect("threads")?;
        for axis in &mut self.function.threads {
            *axis = self.scanner.number("a number of threads")?;
        }
        self.function.checked = self.scanner.take("checked");
        self.function.contract = self.scanner.take("contract");
        if self.scanner.take("file") {
            self.function.file = self
                .scanner
                .string("the name of the source file, in quotes")?;
        }
        // Lengths are scalars, which may be declared behind the buffers.
        let mut lens = Vec::new();
        loop {
            let kind = self.scanner.take_next();
            if kind == "{" {
                return self.tie(lens);
            }
            let mode = BufferMode::from_name(kind);
            if mode.is_none() && !matches!(kind, "scalar" | "shared" | "local" | "table") {
                let what = "`read`, `write`, `update`, `scalar`, `shared`, `local`, `table` or `{`";
                return Err(self.scanner.expected(what, kind));
            }
            let name = self.scanner.word("a name")?.to_owned();
            self.scanner.expect(":")?;
            let dtype = self.scanner.dtype()?;
            match (mode, kind) {
                (Some(mode), _) => {
                    if self.scanner.take("[") {
                        let len = self.scanner.word("the name of a scalar")?.to_owned();
                        self.scanner.expect("]")?;
                        lens.push((self.function.params.len(), len));
                    }
                    let each = match self.scanner.take("each") {
                        true => self.scanner.number("a number of elements")?,
                        false => 1,
                    };
                    self.function.params.push(Param {
                        name,
                        dtype,
                        mode,
                        len: None,
                        each,
                    });
                }
                (None, "scalar") => self.function.scalars.push(Scalar { name, dtype }),
                (None, "table") => {
                    self.scanner.expect("[")?;
                    let len: u32 = self.scanner.number("a length")?;
                    self.scanner.expect("]")?;
                    self.scanner.expect("=")?;
                    let bits = (0..len)
                        .map(|_| self.bits(dtype))
                        .collect::<Result<_, _>>()?;
                    self.function.tables.push(Table { name, dtype, bits });
                }
                (None, kind) => {
                    let mut len = 1;
                    if self.scanner.take("[") {
                        len = self.scanner.number("a length")?;
                        self.scanner.expect("]")?;
                    }
                    let arrays = match kind {
                        "shared" => &mut self.function.shared,
                        _ => &mut self.function.locals,
                    };
                    arrays.push(Array { name, dtype, len });
                }
            }
        }
    }

    /// Sets the launch words with the lengths of parameters.
    fn tie(&mut self, lens: Vec<(usize, String)>) -> Result<(), TextError> {
        for (param, name) in lens {
            self.function.params[param].len = Some(self.scalar(&name)?);
        }
        Ok(())
    }

    /// Returns the index of a scalar.
    fn scalar(&self, name: &str) -> Result<u16, TextError> {
        let scalars = &self.function.scalars;
        match scalars.iter().position(|scalar| scalar.name == name) {
            Some(index) => Ok(index.min(usize::from(u16::MAX)) as u16),
            None => Err(self.scanner.error(format!(
                "there is no scalar `{name}`: declare it in the head of the function"
            ))),
        }
    }

    /// Parses statements up to the closing `}`.
    fn block(&mut self, depth: usize) -> Result<Block, TextError> {
        if depth > DEPTH_MAX {
            let why = format!("expected at most {DEPTH_MAX} nested blocks, got more");
            return Err(self.scanner.error(why));
        }
        let mut body = Block::new();
        while !self.scanner.take("}") {
            body.push(self.stmt(depth)?);
        }
        Ok(body)
    }

    fn stmt(&mut self, depth: usize) -> Result<Stmt, TextError> {
        match self.scanner.take_next() {
            "%" => {
                let value = self.number()?;
                self.scanner.expect(":")?;
                let of = self.of()?;
                self.types.insert(value, of);
                self.scanner.expect("=")?;
                let op = self.op(of)?;
                Ok(Stmt::Let { value, op })
            }
            "store" => {
                let (to, at) = self.element()?;
                self.scanner.expect("=")?;
                let value = self.value()?;
                Ok(Stmt::Store { to, at, value })
            }
            "if" => {
                let condition = self.value()?;
                self.scanner.expect("{")?;
                let then = self.block(depth + 1)?;
                let mut otherwise = Block::new();
                if self.scanner.take("else") {
                    self.scanner.expect("{")?;
                    otherwise = self.block(depth + 1)?;
                }
                Ok(Stmt::If {
                    condition,
                    then,
                    otherwise,
                })
            }
            "for" => {
                let index = self.value()?;
                self.types.insert(index, DType::I64.into());
                self.scanner.expect("in")?;
                let start = self.value()?;
                self.scanner.expect("..")?;
                let end = self.value()?;
                self.scanner.expect("step")?;
                let step = self.value()?;
                let unroll = self.scanner.take("unroll");
                self.scanner.expect("{")?;
                let body = self.block(depth + 1)?;
                Ok(Stmt::For {
                    index,
                    start,
                    end,
                    step,
                    unroll,
                    body,
                })
            }
            "loop" => {
                self.scanner.expect("{")?;
                let body = self.block(depth + 1)?;
                Ok(Stmt::Loop { body })
            }
            "break" => Ok(Stmt::Break),
            "continue" => Ok(Stmt::Continue),
            "return" => Ok(Stmt::Return),
            "barrier" => Ok(Stmt::Barrier),
            verb @ ("print" | "fail") => {
                let text = self.scanner.string("a text, in quotes")?;
                let mut values = Vec::new();
                while self.scanner.take(",") {
                    values.push(self.value()?);
                }
                Ok(Stmt::Say(Box::new(Say {
                    fails: verb == "fail",
                    text,
                    values,
                })))
            }
            "line" => Ok(Stmt::Line(self.scanner.number("a line of the file")?)),
            found => Err(self.scanner.expected("a statement or `}`", found)),
        }
    }

    fn value(&mut self) -> Result<ValueId, TextError> {
        self.scanner.expect("%")?;
        self.number()
    }

    fn number(&mut self) -> Result<ValueId, TextError> {
        let value = self.scanner.number("the number of a value")?;
        if value < VALUES_MAX {
            return Ok(value);
        }
        let why = format!("the number of a value must be below {VALUES_MAX}");
        Err(self.scanner.error(why))
    }

    /// Parses `f32` or `f32x4`.
    fn of(&mut self) -> Result<Type, TextError> {
        let token = self.scanner.take_next();
        let (name, lanes) = token.split_once('x').unwrap_or((token, "1"));
        match (DType::from_name(name), lanes.parse()) {
            (Some(dtype), Ok(lanes)) => Ok(Type { dtype, lanes }),
            _ => Err(self.scanner.expected("a type", token)),
        }
    }

    /// Parses `name` or `name[%index]`.
    fn element(&mut self) -> Result<(Memory, Option<ValueId>), TextError> {
        let name = self.scanner.word("a buffer or an array")?;
        let place = |index: usize| index.min(usize::from(u16::MAX)) as u16;
        let array = |arrays: &[Array]| arrays.iter().position(|array| array.name == name);
        let function = &self.function;
        let param = function.params.iter().position(|param| param.name == name);
        let memory = param
            .map(|index| Memory::Param(place(index)))
            .or_else(|| array(&function.shared).map(|index| Memory::Shared(place(index))))
            .or_else(|| array(&function.locals).map(|index| Memory::Local(place(index))))
            .or_else(|| {
                let tables = &function.tables;
                let index = tables.iter().position(|table| table.name == name);
                index.map(|index| Memory::Table(place(index)))
            });
        let Some(memory) = memory else {
            return Err(self.scanner.error(format!(
                "there is no `{name}`: declare it in the head of the function"
            )));
        };
        if !self.scanner.take("[") {
            return Ok((memory, None));
        }
        let at = self.value()?;
        self.scanner.expect("]")?;
        Ok((memory, Some(at)))
    }

    fn op(&mut self, of: Type) -> Result<Op, TextError> {
        let word = self.scanner.word("an operation")?;
        if let Some(position) = Position::from_name(word) {
            let axis = self.named("`x`, `y` or `z`", Axis::from_name)?;
            return Ok(Op::Position(position, axis));
        }
        if let Some(op) = UnaryOp::from_name(word) {
            return Ok(Op::Unary(op, self.value()?));
        }
        if let Some(op) = BinaryOp::from_name(word) {
            return Ok(Op::Binary(op, self.value()?, self.value()?));
        }
        if let Some(op) = CompareOp::from_name(word) {
            return Ok(Op::Compare(op, self.value()?, self.value()?));
        }
        Ok(match word {
            "const" => Op::Const(self.bits(of.dtype)?),
            "scalar" => {
                let name = self.scanner.word("the name of a scalar")?;
                Op::Scalar(self.scalar(name)?)
            }
            "load" => {
                let (memory, at) = self.element()?;
                Op::Load(memory, at)
            }
            "lane" => Op::Lane(self.value()?, self.scanner.number("a lane")?),
            "splat" => Op::Splat(self.value()?),
            "pack" => {
                let lanes = (0..of.lanes).map(|_| self.value());
                Op::Pack(lanes.collect::<Result<_, _>>()?)
            }
            "select" => Op::Select(self.value()?, self.value()?, self.value()?),
            "cast" => Op::Cast(self.value()?),
            "bits" => Op::Bits(self.value()?),
            "fma" => Op::Fma(self.value()?, self.value()?, self.value()?),
            "random" => Op::Random(self.value()?, self.value()?),
            "reduce" => {
                let scope = match self.scanner.take("subgroup") {
                    true => Scope::Subgroup(self.scanner.number("the threads of a subgroup")?),
                    false => {
                        self.scanner.expect("cube")?;
                        Scope::Cube
                    }
                };
                let op = self.named("a reduction", ReduceOp::from_name)?;
                Op::Reduce(scope, op, self.value()?)
            }
            "atomic" => self.atomic()?,
            "shuffle" => {
                let from = self.named("`lane`, `xor`, `down` or `up`", Shuffle::from_name)?;
                let width = self.scanner.number("the threads of a subgroup")?;
                Op::Shuffle(from, width, self.value()?, self.value()?)
            }
            word => return Err(self.scanner.expected("an operation", word)),
        })
    }

    /// Parses `add x[%0] %1`, and other atomic operations.
    fn atomic(&mut self) -> Result<Op, TextError> {
        let word = self.scanner.word("an atomic operation")?;
        let (memory, at) = self.element()?;
        let Some(at) = at else {
            return Err(self
                .scanner
                .error("an atomic operation needs an index: `atomic add a[%0] %1`"));
        };
        let op = match (word, BinaryOp::from_name(word)) {
            ("load", _) => AtomicOp::Load,
            ("swap", _) => AtomicOp::Swap(self.value()?),
            ("compare_exchange", _) => AtomicOp::CompareExchange(self.value()?, self.value()?),
            (_, Some(op)) => AtomicOp::Update(op, self.value()?),
            (word, None) => return Err(self.scanner.expected("an atomic operation", word)),
        };
        Ok(Op::Atomic(op, memory, at))
    }

    /// Parses a name.
    fn named<T>(&mut self, what: &str, of: fn(&str) -> Option<T>) -> Result<T, TextError> {
        let token = self.scanner.take_next();
        of(token).ok_or_else(|| self.scanner.expected(what, token))
    }

    /// Parses a constant: a number of the type, or its bits as `0x..`.
    fn bits(&mut self, dtype: DType) -> Result<u64, TextError> {
        let token = self.scanner.take_next();
        if let Some(digits) = token.strip_prefix("0x") {
            let bits = u64::from_str_radix(digits, 16);
            return bits.map_err(|_| self.scanner.expected("a constant", token));
        }
        let bits = match dtype {
            DType::F64 => token.parse().ok().map(f64::to_bits),
            DType::F32 => token.parse().ok().map(|x: f32| u64::from(x.to_bits())),
            DType::F16 | DType::Bf16 => None,
            DType::Bool => token.parse::<bool>().ok().map(u64::from),
            dtype => {
                let whole = token.parse().ok().map(Number::Whole);
                whole.and_then(|whole| whole.exact_bits(dtype))
            }
        };
        let what = match dtype {
            DType::F16 | DType::Bf16 => format!("the bits of a {dtype}, `0x..`"),
            dtype => format!("a constant of type {dtype}"),
        };
        bits.ok_or_else(|| self.scanner.expected(&what, token))
    }
}
