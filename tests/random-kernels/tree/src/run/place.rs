//! Places that hold values.

use super::{Frame, Jump};
use crate::number::Ty;
use crate::tree::{Index, Mode, Place, Root, Shape, Step, Var};

/// A place whose indices are known.
pub(super) struct Found<'a> {
    holder: Holder,
    /// Its first number.
    first: usize,
    pub(super) shape: &'a Shape,
}

#[derive(Clone, Copy)]
enum Holder {
    Variable(Var),
    Buffer(usize),
    Table(usize),
    Shared(usize),
}

impl<'a> Frame<'a> {
    /// Returns the number of elements of a buffer of the kernel.
    pub(super) fn len(&self, buffer: usize) -> usize {
        let of = &self.kernel.buffers[buffer].of;
        self.buffers[buffer].len() / of.size(&self.kernel.structs)
    }

    pub(super) fn index(&mut self, index: &Index, len: usize) -> Result<usize, Jump> {
        let (value, bits) = match index {
            Index::Thread => return Ok(self.thread),
            Index::Usize(value, _) | Index::Rest(value, _) | Index::Masked(value, _) => {
                (value, self.expr(value)?)
            }
        };
        Ok(match index {
            Index::Rest(_, m) => (bits % m) as usize,
            Index::Masked(_, m) => (bits & m) as usize,
            _ => (value.ty.cast(bits, Ty::Usize) % len as u64) as usize,
        })
    }

    pub(super) fn own(&self, buffer: usize) -> usize {
        match self.kernel.buffers[buffer].mode {
            Mode::Reversed => self.len(buffer) - 1 - self.thread,
            _ => self.thread,
        }
    }

    pub(super) fn place(&mut self, it: &Place) -> Result<Found<'a>, Jump> {
        let (kernel, structs) = (self.kernel, &self.kernel.structs[..]);
        let element = |buffer: usize, at: usize| Found {
            holder: Holder::Buffer(buffer),
            first: at * kernel.buffers[buffer].of.size(structs),
            shape: &kernel.buffers[buffer].of,
        };
        let mut found = match &it.root {
            Root::Variable(var) => Found {
                holder: Holder::Variable(*var),
                first: 0,
                shape: &self.variables[*var].shape,
            },
            Root::Load(buffer, index) => {
                let buffer = self.buffer(*buffer);
                element(buffer, self.index(index, self.len(buffer))?)
            }
            Root::Own(buffer) => element(*buffer, self.own(*buffer)),
            Root::Table(table) => Found {
                holder: Holder::Table(*table),
                first: 0,
                shape: &kernel.tables[*table].shape,
            },
            Root::Shared(array, index) => {
                let at = self.index(index, self.cube())?;
                let shape = &kernel.shared[*array];
                Found {
                    holder: Holder::Shared(*array),
                    first: at * shape.size(structs),
                    shape,
                }
            }
        };
        for step in &it.steps {
            match (step, found.shape) {
                (Step::Part(part) | Step::Field(part), of) => {
                    let parts: &[Shape] = match of {
                        Shape::Tuple(parts) => parts,
                        Shape::Struct(id) => &structs[*id].fields,
                        _ => unreachable!("it has parts"),
                    };
                    let before = parts[..*part].iter().map(|it| it.size(structs));
                    found.first += before.sum::<usize>();
                    found.shape = &parts[*part];
                }
                (Step::At(index), Shape::Array(of, len)) => {
                    found.first += self.index(index, *len)? * of.size(structs);
                    found.shape = of;
                }
                _ => unreachable!("an array"),
            }
        }
        Ok(found)
    }

    /// Returns the numbers of a place.
    pub(super) fn held(&self, place: &Found<'_>) -> &[u64] {
        let numbers = match place.holder {
            Holder::Variable(var) => &self.values[var],
            Holder::Buffer(buffer) => &self.buffers[buffer],
            Holder::Table(table) => &self.kernel.tables[table].bits,
            Holder::Shared(array) => &self.shared[array],
        };
        &numbers[place.first..][..place.shape.size(&self.kernel.structs)]
    }

    /// Returns the numbers of a place, to change them.
    pub(super) fn held_mut(&mut self, place: &Found<'_>) -> &mut [u64] {
        let numbers = match place.holder {
            Holder::Variable(var) => &mut self.values[var],
            Holder::Buffer(buffer) => &mut self.buffers[buffer],
            Holder::Table(_) | Holder::Shared(_) => unreachable!("it is only read"),
        };
        &mut numbers[place.first..][..place.shape.size(&self.kernel.structs)]
    }
}
