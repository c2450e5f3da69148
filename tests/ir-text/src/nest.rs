//! Parses nests, one line for each value.
//!
//! ```text
//! nest outer 1 inner 1 words 4
//!   buffer 0 f32 read
//!   buffer 1 f32 write
//!   access 0 = buffer 0 [w2 1]
//!   access 1 = buffer 1 [w2 1]
//!   %0 f32 = load 0
//!   %1 f32 = reduce max %0
//!   %2 f32 = sub %0 %1
//!   store inner 1 %2
//! ```

use millstream_ir::nest::{
    Access, Buffer, BufferMode, Level, Op, Scatter, Store, Stride, Value, Word,
};
use millstream_ir::{BinaryOp, CompareOp, Nest, ReduceOp, UnaryOp};

use millstream_ir::text::{Scanner, TextError};

/// Parses a nest.
///
/// # Errors
/// The place where the text is no nest, and what was expected there.
pub fn nest(text: &str) -> Result<Nest, TextError> {
    let scanner = &mut Scanner::new(text);
    scanner.expect("nest")?;
    let mut nest = Nest::default();
    for (name, count) in [
        ("outer", &mut nest.outer),
        ("inner", &mut nest.inner),
        ("words", &mut nest.words),
    ] {
        scanner.expect(name)?;
        // At most what an index of 16 bits can name.
        *count = usize::from(scanner.number::<u16>("a number up to 65535")?);
    }
    while scanner.take("buffer") {
        in_order(scanner, nest.buffers.len())?;
        let dtype = scanner.dtype()?;
        let word = scanner.take_next();
        let mode = BufferMode::from_name(word);
        let mode = mode.ok_or_else(|| scanner.expected("`read`, `write` or `update`", word))?;
        nest.buffers.push(Buffer { dtype, mode });
    }
    while scanner.take("access") {
        in_order(scanner, nest.accesses.len())?;
        scanner.expect("=")?;
        nest.accesses.push(access(scanner)?);
    }
    while scanner.take("%") {
        in_order(scanner, nest.values.len())?;
        let dtype = scanner.dtype()?;
        scanner.expect("=")?;
        let op = op(scanner)?;
        nest.values.push(Value { dtype, op });
    }
    while scanner.take("store") {
        nest.stores.push(store(scanner)?);
    }
    scanner.end()?;
    Ok(nest)
}

/// Checks that list items are numbered from 0.
fn in_order(scanner: &mut Scanner<'_>, expected: usize) -> Result<(), TextError> {
    match scanner.number::<usize>("a number")? {
        index if index == expected => Ok(()),
        index => Err(scanner.error(format!("{index} is out of order, expected {expected}"))),
    }
}

fn word(scanner: &mut Scanner<'_>) -> Result<Word, TextError> {
    let token = scanner.take_next();
    let index = token.strip_prefix('w').and_then(|index| index.parse().ok());
    index.ok_or_else(|| scanner.expected("a word such as `w0`", token))
}

fn stride(scanner: &mut Scanner<'_>) -> Result<Stride, TextError> {
    if scanner.take("0") {
        return Ok(Stride::Zero);
    }
    if scanner.take("1") {
        return Ok(Stride::One);
    }
    word(scanner).map(Stride::Word)
}

fn access(scanner: &mut Scanner<'_>) -> Result<Access, TextError> {
    scanner.expect("buffer")?;
    let buffer = scanner.number("the number of a buffer")?;
    let mut offset = None;
    if scanner.take("+") {
        offset = Some(word(scanner)?);
    }
    scanner.expect("[")?;
    let mut strides = Vec::new();
    while !scanner.take("]") {
        strides.push(stride(scanner)?);
    }
    Ok(Access {
        buffer,
        offset,
        strides,
    })
}

fn op(scanner: &mut Scanner<'_>) -> Result<Op, TextError> {
    let name = scanner.word("an operation")?;
    if let Some(op) = UnaryOp::from_name(name) {
        return Ok(Op::Unary(op, scanner.value()?));
    }
    if let Some(op) = BinaryOp::from_name(name) {
        return Ok(Op::Binary(op, scanner.value()?, scanner.value()?));
    }
    if let Some(op) = CompareOp::from_name(name) {
        return Ok(Op::Compare(op, scanner.value()?, scanner.value()?));
    }
    Ok(match name {
        "const" => {
            let token = scanner.take_next();
            let bits = token.strip_prefix("0x");
            let bits = bits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            Op::Const(bits.ok_or_else(|| scanner.expected("bits, `0x..`", token))?)
        }
        "word" => Op::Word(word(scanner)?),
        "index" => Op::Index(scanner.number("the number of an axis")?),
        "load" => Op::Load(scanner.number("the number of an access")?),
        "gather" => Op::Gather {
            access: scanner.number("the number of an access")?,
            index: scanner.value()?,
            stride: stride(scanner)?,
            len: word(scanner)?,
        },
        "select" => Op::Select(scanner.value()?, scanner.value()?, scanner.value()?),
        "cast" => Op::Cast(scanner.value()?),
        "random" => {
            let seed = word(scanner)?;
            let counter = scanner.value()?;
            Op::Random { seed, counter }
        }
        "reduce" => {
            let name = scanner.take_next();
            let op = ReduceOp::from_name(name);
            let op = op.ok_or_else(|| scanner.expected("a reduction", name))?;
            Op::Reduce(op, scanner.value()?)
        }
        name => return Err(scanner.expected("an operation", name)),
    })
}

fn store(scanner: &mut Scanner<'_>) -> Result<Store, TextError> {
    let level = match scanner.take_next() {
        "outer" => Level::Outer,
        "inner" => Level::Inner,
        found => return Err(scanner.expected("`outer` or `inner`", found)),
    };
    let access = scanner.number("the number of an access")?;
    let value = scanner.value()?;
    let mut scatter = None;
    if scanner.take("scatter") {
        let adds = match scanner.take_next() {
            "add" => true,
            "set" => false,
            found => return Err(scanner.expected("`add` or `set`", found)),
        };
        scatter = Some(Scatter {
            adds,
            index: scanner.value()?,
            stride: stride(scanner)?,
            len: word(scanner)?,
        });
    }
    Ok(Store {
        access,
        value,
        level,
        scatter,
    })
}
