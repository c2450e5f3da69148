//! Programs as expressions that people can read.

use millstream_ir::nest::{Level, Op, ValueId};
use millstream_ir::{BinaryOp, Matmul, Nest};

use crate::literal;
use crate::schedule::item::WordValue;

/// The greatest length of an expression, in bytes.
const MAX_CHARACTERS: usize = 240;

/// Returns a nest as an expression over its buffers `b0`, `b1` and so on.
pub(crate) fn nest(nest: &Nest, words: &[WordValue]) -> String {
    named(nest, words, &|buffer| format!("b{buffer}"))
}

/// As [`nest`], with other names for the buffers.
fn named(nest: &Nest, words: &[WordValue], name: &impl Fn(u16) -> String) -> String {
    let texts = values(nest, words, name);
    let stores = nest.stores.iter().map(|store| {
        let buffer = name(nest.accesses[usize::from(store.access)].buffer);
        let value = &texts[usize::from(store.value)];
        match (&store.scatter, store.level) {
            (Some(scatter), _) => {
                let index = &texts[usize::from(scatter.index)];
                let set = if scatter.adds { "+=" } else { "=" };
                format!("{buffer}[{index}] {set} {value}")
            }
            (None, Level::Outer | Level::Inner) => format!("{buffer} = {value}"),
        }
    });
    let text: Vec<String> = stores.collect();
    cut(text.join("; "))
}

/// Returns a product as an expression.
pub(crate) fn product(matmul: &Matmul, words: &[WordValue]) -> String {
    match &matmul.epilogue {
        None => "b2 = b0 @ b1".to_owned(),
        Some(epilogue) => {
            let words = words.get(matmul.epilogue_words()..).unwrap_or(&[]);
            // The first buffer of the epilogue is the product; the others are bound after the product's three.
            let name = |buffer| match buffer {
                0 => "(b0 @ b1)".to_owned(),
                other => format!("b{}", other + 2),
            };
            let text = named(epilogue, words, &name);
            cut(format!("b2 = {}", text.trim_start_matches("(b0 @ b1) = ")))
        }
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_CHARACTERS {
        let end = (0..=MAX_CHARACTERS)
            .rev()
            .find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push_str(" ..");
    }
    text
}

/// Returns the text of each value.
fn values(nest: &Nest, words: &[WordValue], name: &impl Fn(u16) -> String) -> Vec<String> {
    let mut texts: Vec<String> = Vec::with_capacity(nest.values.len());
    for value in &nest.values {
        let of = |id: &ValueId| texts[usize::from(*id)].clone();
        let text = match &value.op {
            Op::Const(bits) => literal::text(*bits, value.dtype),
            Op::Word(word) => match words.get(usize::from(*word)) {
                Some(WordValue::Bits(bits)) => literal::text(*bits, value.dtype),
                Some(WordValue::Size(size)) => size.to_string(),
                Some(WordValue::Scalar(scalar)) => scalar.name().to_owned(),
                None => format!("w{word}"),
            },
            Op::Index(axis) => format!("i{axis}"),
            Op::Load(access) => name(nest.accesses[usize::from(*access)].buffer),
            Op::Gather { access, index, .. } => {
                let buffer = name(nest.accesses[usize::from(*access)].buffer);
                format!("{buffer}[{}]", of(index))
            }
            Op::Unary(op, a) => format!("{op}({})", of(a)),
            Op::Binary(op, a, b) => match infix(*op) {
                Some(sign) => format!("({} {sign} {})", of(a), of(b)),
                None => format!("{op}({}, {})", of(a), of(b)),
            },
            Op::Compare(op, a, b) => format!("{op}({}, {})", of(a), of(b)),
            Op::Select(condition, a, b) => {
                format!("select({}, {}, {})", of(condition), of(a), of(b))
            }
            Op::Cast(a) => format!("{}({})", value.dtype, of(a)),
            Op::Random { counter, .. } => format!("random({})", of(counter)),
            Op::Reduce(op, a) => format!("{op}({})", of(a)),
            _ => "?".to_owned(),
        };
        // Cut each text: a text that is used twice would double with every value.
        texts.push(cut(text));
    }
    texts
}

fn infix(op: BinaryOp) -> Option<&'static str> {
    Some(match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Rem => "%",
        BinaryOp::And => "&",
        BinaryOp::Or => "|",
        BinaryOp::Xor => "^",
        BinaryOp::Shl => "<<",
        BinaryOp::Shr => ">>",
        _ => return None,
    })
}
