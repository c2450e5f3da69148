//! Types and literals.

use super::list;
use crate::number::Ty;
use crate::tree::{Kernel, Shape};

/// Returns the name of a type.
pub(super) fn shape(kernel: &Kernel, of: &Shape) -> String {
    match of {
        Shape::One(of) => of.name().to_owned(),
        Shape::Tuple(parts) => format!("({})", list(parts, |of| shape(kernel, of))),
        Shape::Array(of, len) => format!("[{}; {len}]", shape(kernel, of)),
        Shape::Struct(id) => format!("S{}_{id}", kernel.seed),
    }
}

/// Returns the text of a constant, whose numbers are the next ones.
pub(super) fn constant(
    kernel: &Kernel,
    of: &Shape,
    bits: &mut impl Iterator<Item = u64>,
) -> String {
    match of {
        Shape::One(of) => literal(*of, bits.next().expect("a number of the constant")),
        Shape::Tuple(parts) => {
            let parts: Vec<_> = parts.iter().map(|of| constant(kernel, of, bits)).collect();
            format!("({})", parts.join(", "))
        }
        Shape::Array(of, len) => {
            let elements: Vec<_> = (0..*len).map(|_| constant(kernel, of, bits)).collect();
            format!("[{}]", elements.join(", "))
        }
        Shape::Struct(id) => {
            let fields = kernel.structs[*id].fields.iter().enumerate();
            let fields = fields.map(|(at, of)| format!("f{at}: {}", constant(kernel, of, bits)));
            let fields: Vec<_> = fields.collect();
            format!("{} {{ {} }}", shape(kernel, of), fields.join(", "))
        }
    }
}

pub(super) fn literal(of: Ty, bits: u64) -> String {
    let name = of.name();
    let text = match of {
        Ty::Bool => return (bits != 0).to_string(),
        Ty::F32 => float(
            f32::from_bits(bits as u32).into(),
            format!("{:?}", f32::from_bits(bits as u32)),
            name,
        ),
        Ty::F64 => float(
            f64::from_bits(bits),
            format!("{:?}", f64::from_bits(bits)),
            name,
        ),
        _ => format!("{}_{name}", of.int(bits)),
    };
    match text.starts_with('-') {
        true => format!("({text})"),
        false => text,
    }
}

fn float(value: f64, text: String, name: &str) -> String {
    match value {
        it if it.is_nan() => format!("{name}::NAN"),
        f64::INFINITY => format!("{name}::INFINITY"),
        f64::NEG_INFINITY => format!("{name}::NEG_INFINITY"),
        _ => format!("{text}_{name}"),
    }
}

/// Returns a literal as patterns have it.
pub(super) fn bare(of: Ty, bits: u64) -> String {
    literal(of, bits).replace(['(', ')'], "")
}
