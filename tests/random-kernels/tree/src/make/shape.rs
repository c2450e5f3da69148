//! Random structs, shapes, tables and buffers.

use crate::dice::Dice;
use crate::number::{ALL, ELEMENTS, Ty};
use crate::tree::{Buffer, Commuting, Mode, Operation, Shape, Struct, Table};

/// The most numbers of a value: few, so that thousands of kernels compile.
const NUMBERS_MAX: usize = 12;

fn one(dice: &mut Dice, of: &[Ty]) -> Shape {
    Shape::One(dice.of(of))
}

fn array(of: Shape, len: usize) -> Shape {
    Shape::Array(Box::new(of), len)
}

/// Returns a shape of few numbers.
fn small(structs: &[Struct], make: impl FnOnce() -> Shape, otherwise: Ty) -> Shape {
    let shape = make();
    match shape.size(structs) <= NUMBERS_MAX {
        true => shape,
        false => Shape::One(otherwise),
    }
}

/// Returns the structs of a kernel.
pub(super) fn structs(dice: &mut Dice) -> Vec<Struct> {
    let mut structs: Vec<Struct> = Vec::new();
    if dice.percent(50) {
        for _ in 0..1 + dice.below(2) {
            let made = match dice.percent(65) {
                true => element(dice, &structs),
                false => value(dice, &structs),
            };
            structs.push(made);
        }
    }
    structs
}

/// Returns one of the structs.
fn structure(dice: &mut Dice, structs: &[Struct], must_be_element: bool) -> Option<Shape> {
    let fits = (0..structs.len()).filter(|it| structs[*it].is_element || !must_be_element);
    let fits: Vec<_> = fits.collect();
    fits.get(dice.below(fits.len()))
        .map(|it| Shape::Struct(*it))
}

/// Returns a struct that a buffer may have as elements.
fn element(dice: &mut Dice, structs: &[Struct]) -> Struct {
    // Often all fields have one size: then they are words.
    let of = dice.of(ELEMENTS);
    let same: Vec<Ty> = ELEMENTS
        .iter()
        .copied()
        .filter(|it| it.bytes() == of.bytes())
        .collect();
    let types = if dice.percent(45) { &same } else { ELEMENTS };
    let mut fields = Vec::new();
    for _ in 0..1 + dice.below(4) {
        let otherwise = dice.of(types);
        fields.push(small(
            structs,
            || match dice.below(10) {
                0 | 1 => array(one(dice, types), 2 + dice.below(3)),
                2 => structure(dice, structs, true).unwrap_or(Shape::One(otherwise)),
                3 => {
                    let of = structure(dice, structs, true).unwrap_or(one(dice, types));
                    array(of, 2)
                }
                4 => array(array(one(dice, types), 2), 2),
                _ => one(dice, types),
            },
            otherwise,
        ));
    }
    let align = |of: &Shape| {
        let numbers = of.numbers(structs).into_iter();
        numbers.map(Ty::bytes).max().unwrap_or(1)
    };
    // The largest first leave no padding between them.
    fields.sort_by_key(|of| std::cmp::Reverse(align(of)));
    let (most, least) = (align(&fields[0]), align(&fields[fields.len() - 1]));
    let numbers = fields.iter().flat_map(|of| of.numbers(structs));
    let bytes: usize = numbers.map(Ty::bytes).sum();
    let missing = bytes.next_multiple_of(most) - bytes;
    if missing > 0 {
        let fits = ELEMENTS.iter().copied().filter(|it| it.bytes() == least);
        let of = one(dice, &fits.collect::<Vec<_>>());
        fields.push(match missing / least {
            1 => of,
            len => array(of, len),
        });
    }
    Struct {
        fields,
        is_element: true,
    }
}

/// Returns a struct of any fields.
fn value(dice: &mut Dice, structs: &[Struct]) -> Struct {
    let fields = (0..1 + dice.below(4)).map(|_| {
        let otherwise = dice.of(ALL);
        small(
            structs,
            || match dice.below(10) {
                0 => array(one(dice, ALL), 1 + dice.below(4)),
                1 => Shape::Tuple(vec![one(dice, ALL), one(dice, ALL)]),
                2 => structure(dice, structs, false).unwrap_or(Shape::One(otherwise)),
                _ => one(dice, ALL),
            },
            otherwise,
        )
    });
    Struct {
        fields: fields.collect(),
        is_element: false,
    }
}

/// Returns a shape of several numbers.
pub(super) fn composite(dice: &mut Dice, structs: &[Struct]) -> Shape {
    let len = 1 + dice.below(5);
    let shape = match dice.below(11) {
        0 | 1 => {
            let parts = (0..2 + dice.below(2)).map(|_| one(dice, ALL));
            Shape::Tuple(parts.collect())
        }
        2 => array(array(one(dice, ALL), 1 + dice.below(3)), len),
        3 => array(Shape::Tuple(vec![one(dice, ALL), one(dice, ALL)]), len),
        4 => match structure(dice, structs, false) {
            Some(of) => array(of, len),
            None => array(one(dice, ALL), len),
        },
        5 => match structure(dice, structs, false) {
            Some(of) => Shape::Tuple(vec![of, one(dice, ALL)]),
            None => array(one(dice, ALL), len),
        },
        6..=8 => structure(dice, structs, false).unwrap_or(array(one(dice, ALL), len)),
        _ => array(one(dice, ALL), len),
    };
    match shape.size(structs) <= 2 * NUMBERS_MAX {
        true => shape,
        false => array(one(dice, ALL), len),
    }
}

/// Returns the shape of a parameter or a result.
pub(super) fn passed(dice: &mut Dice, structs: &[Struct]) -> Shape {
    match dice.below(10) {
        0 | 1 => structure(dice, structs, false).unwrap_or(one(dice, ALL)),
        2 => Shape::Tuple(vec![one(dice, ALL), one(dice, ALL)]),
        3 => array(one(dice, ALL), 2 + dice.below(3)),
        _ => one(dice, ALL),
    }
}

/// Returns the shape of the elements of a buffer.
pub(super) fn of_buffer(dice: &mut Dice, structs: &[Struct]) -> Shape {
    match dice.below(10) {
        0..=4 => structure(dice, structs, true).unwrap_or(one(dice, ELEMENTS)),
        5 => array(one(dice, ELEMENTS), 2 + dice.below(3)),
        _ => one(dice, ELEMENTS),
    }
}

/// Returns the buffers of a kernel.
pub(super) fn buffers(dice: &mut Dice, structs: &[Struct]) -> Vec<Buffer> {
    let read = 1 + dice.below(2);
    let changed = 1 + dice.below(2);
    let mut of = |modes: &[Mode]| Buffer {
        of: of_buffer(dice, structs),
        mode: dice.of(modes),
    };
    let reads: Vec<_> = (0..read).map(|_| of(&[Mode::Read, Mode::Along])).collect();
    let changes = (0..changed).map(|_| of(&[Mode::Own, Mode::Own, Mode::Reversed, Mode::Whole]));
    let mut buffers: Vec<_> = reads.into_iter().chain(changes).collect();
    if dice.percent(35) {
        buffers.push(atomics(dice));
    }
    buffers
}

/// Returns a buffer of atomics.
pub(super) fn atomics(dice: &mut Dice) -> Buffer {
    let only = [
        Operation::Min,
        Operation::Max,
        Operation::And,
        Operation::Or,
        Operation::Xor,
    ];
    let mode = match dice.below(10) {
        0..=2 => Mode::Atomic(Commuting::Sum),
        3..=6 => Mode::Atomic(Commuting::Only(dice.of(&only))),
        _ => Mode::AtomicOwn,
    };
    let of = one(dice, &[Ty::I32, Ty::U32, Ty::I64, Ty::U64]);
    Buffer { of, mode }
}

/// Returns the constants of a kernel.
pub(super) fn tables(dice: &mut Dice, structs: &[Struct]) -> Vec<Table> {
    let mut tables = Vec::new();
    while dice.percent(25) {
        let len = 2 + dice.below(15);
        let shape = match dice.below(8) {
            0 => array(array(one(dice, ALL), 3), 1 + len / 4),
            1 => array(Shape::Tuple(vec![one(dice, ALL), one(dice, ALL)]), len / 2),
            2 => structure(dice, structs, false).unwrap_or(one(dice, ALL)),
            _ => array(one(dice, ALL), len),
        };
        let numbers = shape.numbers(structs).into_iter();
        let bits = numbers.map(|of| of.literal(dice)).collect();
        tables.push(Table { shape, bits });
    }
    tables
}
