//! Random places and leaves.

use super::Maker;
use crate::number::{Binary, Compare, INTEGERS, Ty};
use crate::tree::{ELEMENTS_MIN, Expr, Index, Kind, Mode, Place, Root, Shape, Step, Var};

const UNSIGNED: &[Ty] = &[Ty::U8, Ty::U16, Ty::U32, Ty::U64, Ty::Usize];
const SIGNED: &[Ty] = &[Ty::I8, Ty::I16, Ty::I32, Ty::I64, Ty::Isize];

/// Where a path begins.
#[derive(Clone, Copy)]
enum Base {
    Variable(Var),
    Buffer(usize),
    Table(usize),
    Shared(usize),
}

/// A step of a path: as those of places, with the lengths of arrays in place of indices.
#[derive(Clone, Copy)]
enum Hop {
    Part(usize),
    Field(usize),
    At(usize),
}

/// A path to a part of a value, and the shape of the part.
struct Path {
    base: Base,
    hops: Vec<Hop>,
    shape: Shape,
}

fn named(var: Var) -> Kind {
    let (root, steps) = (Root::Variable(var), Vec::new());
    Kind::Place(Place { root, steps })
}

impl Maker<'_> {
    /// Adds the parts of a value that are wanted.
    fn paths(&self, path: Path, is_wanted: &dyn Fn(&Shape) -> bool, found: &mut Vec<Path>) {
        let inner = |hop: Hop, shape: &Shape| Path {
            base: path.base,
            hops: path.hops.iter().copied().chain([hop]).collect(),
            shape: shape.clone(),
        };
        match &path.shape {
            Shape::One(_) => {}
            Shape::Tuple(parts) => {
                for (at, of) in parts.iter().enumerate() {
                    self.paths(inner(Hop::Part(at), of), is_wanted, found);
                }
            }
            Shape::Struct(id) => {
                for (at, of) in self.structs[*id].fields.iter().enumerate() {
                    self.paths(inner(Hop::Field(at), of), is_wanted, found);
                }
            }
            Shape::Array(of, len) => self.paths(inner(Hop::At(*len), of), is_wanted, found),
        }
        if is_wanted(&path.shape) {
            found.push(path);
        }
    }

    /// Returns the wanted parts of a value.
    fn parts(&self, base: Base, is_wanted: &dyn Fn(&Shape) -> bool) -> Option<Vec<Path>> {
        let shape = match base {
            Base::Variable(var) => &self.variables[var].shape,
            Base::Buffer(buffer) => &self.buffers[buffer].of,
            Base::Table(table) => &self.tables[table].shape,
            Base::Shared(array) => &self.shared[array],
        };
        let path = Path {
            base,
            hops: Vec::new(),
            shape: shape.clone(),
        };
        let mut found = Vec::new();
        self.paths(path, is_wanted, &mut found);
        (!found.is_empty()).then_some(found)
    }

    /// Returns one of the paths as a place, with random indices.
    fn place_of(&mut self, paths: &[Path]) -> (Place, Shape) {
        let path = &paths[self.dice.below(paths.len())];
        let root = match path.base {
            Base::Variable(var) => Root::Variable(var),
            Base::Table(table) => Root::Table(table),
            Base::Shared(array) => Root::Shared(array, self.index_of_shared()),
            Base::Buffer(buffer) => self.readable_root(buffer).unwrap_or(Root::Own(buffer)),
        };
        let steps = path.hops.iter().map(|hop| match *hop {
            Hop::Part(part) => Step::Part(part),
            Hop::Field(field) => Step::Field(field),
            Hop::At(len) => Step::At(self.index(false, len, Some(len))),
        });
        let steps = steps.collect();
        (Place { root, steps }, path.shape.clone())
    }

    /// Returns an element of a buffer that the function only reads.
    fn readable_root(&mut self, buffer: usize) -> Option<Root> {
        let is_along = match self.buffers[buffer].mode {
            Mode::Read => false,
            Mode::Along => true,
            _ => return None,
        };
        Some(Root::Load(buffer, self.index(is_along, ELEMENTS_MIN, None)))
    }

    /// Returns where each place begins that may be read.
    fn sources(&self) -> Vec<Base> {
        let variables = self.scope.iter().map(|var| Base::Variable(*var));
        let buffers = (0..self.buffers.len())
            .filter(|it| {
                let mode = self.buffers[*it].mode;
                !matches!(mode, Mode::Whole | Mode::Atomic(_) | Mode::AtomicOwn)
            })
            .map(Base::Buffer);
        let tables = (0..self.tables.len()).map(Base::Table);
        let shared = self.stored.iter().map(|array| Base::Shared(*array));
        variables
            .chain(buffers)
            .chain(tables)
            .chain(shared)
            .collect()
    }

    /// Returns a place that has a value of this shape, if there is one.
    pub(super) fn source(&mut self, shape: &Shape) -> Option<Place> {
        let sources = self.sources().into_iter();
        let found = sources.filter_map(|base| self.parts(base, &|it| it == shape));
        let found: Vec<_> = found.collect();
        let chosen = found.get(self.dice.below(found.len()))?;
        Some(self.place_of(chosen).0)
    }

    /// Returns a place that may be assigned to, if there is one, and its shape.
    pub(super) fn target(&mut self) -> Option<(Place, Shape)> {
        let variables = self.scope.iter().filter(|it| self.variables[**it].is_mut);
        let variables = variables.map(|var| Base::Variable(*var));
        let is_own = |buffer: &usize| {
            let mode = self.buffers[*buffer].mode;
            matches!(mode, Mode::Own | Mode::Reversed | Mode::Whole)
        };
        let buffers = (0..self.buffers.len()).filter(is_own).map(Base::Buffer);
        let targets: Vec<_> = variables.chain(buffers).collect();
        let chosen = *targets.get(self.dice.below(targets.len()))?;
        let paths = self.parts(chosen, &|_| true)?;
        Some(self.place_of(&paths))
    }

    /// Returns a number of an array that the threads of the cube share, if one of them has such numbers.
    fn of_shared(&mut self, ty: Ty) -> Option<Place> {
        let stored = self.stored.iter().map(|array| Base::Shared(*array));
        let found = stored.filter_map(|base| self.parts(base, &|it| *it == Shape::One(ty)));
        let found: Vec<_> = found.collect();
        let chosen = found.get(self.dice.below(found.len()))?;
        Some(self.place_of(chosen).0)
    }

    /// Returns the index of an element of a shared array: often that of a neighbour of the thread.
    pub(super) fn index_of_shared(&mut self) -> Index {
        let len = self.cube.unwrap_or(1);
        if self.dice.percent(50) {
            return self.index(false, len, None);
        }
        let ty = Ty::Usize;
        let [thread, by] = [
            Kind::Thread(true),
            Kind::Literal(self.dice.below(len) as u64),
        ]
        .map(|kind| Box::new(Expr { ty, kind }));
        let kind = Kind::Binary(Binary::Add, thread, by);
        Index::Usize(Box::new(Expr { ty, kind }), None)
    }

    /// Returns an expression without parts.
    pub(super) fn leaf(&mut self, ty: Ty) -> Expr {
        if !self.stored.is_empty() && self.dice.percent(30) {
            let of = match self.dice.percent(50) {
                true => ty,
                false => {
                    let array = self.dice.of(&self.stored);
                    let numbers = self.shared[array].numbers(self.structs);
                    self.dice.of(&numbers)
                }
            };
            if let Some(place) = self.of_shared(of) {
                let kind = Kind::Place(place);
                if of == ty {
                    return Expr { ty, kind };
                }
                if ty != Ty::Bool {
                    let kind = Kind::Cast(Box::new(Expr { ty: of, kind }));
                    return Expr { ty, kind };
                }
            }
        }
        let sources = self.sources().into_iter();
        let found = sources.filter_map(|base| self.parts(base, &|it| *it == Shape::One(ty)));
        let found: Vec<_> = found.collect();
        let mut others = Vec::new();
        if ty == Ty::Usize {
            for index in 0..self.buffers.len() {
                if self.dice.percent(20) {
                    others.push(Kind::Len(index));
                }
            }
            if self.cube.is_some() && self.dice.percent(30) {
                others.extend([Kind::ThreadInCube, Kind::Cube]);
            }
            if self.is_kernel {
                others.push(Kind::Thread(self.dice.percent(60)));
                if self.dice.percent(20) {
                    others.push(Kind::Threads);
                }
            }
        }
        let is_literal = self.dice.percent(20);
        let kind = match found.len() + others.len() {
            _ if is_literal => Kind::Literal(ty.literal(self.dice)),
            0 => self.converted(ty),
            all => {
                let chosen = self.dice.below(all);
                match others.get(chosen) {
                    Some(kind) => kind.clone(),
                    None => Kind::Place(self.place_of(&found[chosen - others.len()]).0),
                }
            }
        };
        Expr { ty, kind }
    }

    /// Returns a value of another type in this type.
    fn converted(&mut self, ty: Ty) -> Kind {
        let mut found = Vec::new();
        for var in &self.scope {
            if let Shape::One(of) = self.variables[*var].shape {
                found.push(Expr {
                    ty: of,
                    kind: named(*var),
                });
            }
        }
        for index in 0..self.buffers.len() {
            if let Shape::One(of) = self.buffers[index].of
                && let Some(root) = self.readable_root(index)
            {
                let steps = Vec::new();
                let kind = Kind::Place(Place { root, steps });
                found.push(Expr { ty: of, kind });
            }
        }
        if found.is_empty() {
            return Kind::Literal(ty.random(self.dice));
        }
        let from = self.dice.of(&found);
        match ty == Ty::Bool {
            false => Kind::Cast(Box::new(from)),
            true => {
                let literal = Kind::Literal(from.ty.random(self.dice));
                let literal = Expr {
                    ty: from.ty,
                    kind: literal,
                };
                let op = self.dice.of(&[Compare::Lt, Compare::Ge, Compare::Ne]);
                Kind::Compare(op, Box::new(from), Box::new(literal))
            }
        }
    }

    /// Returns an index below `len`.
    pub(super) fn index(&mut self, is_along: bool, len: usize, of_array: Option<usize>) -> Index {
        if is_along && self.is_kernel && self.dice.percent(60) {
            return Index::Thread;
        }
        let depth = usize::from(self.left > 8);
        match self.dice.below(3) {
            0 => {
                let of = self.dice.of(UNSIGNED);
                Index::Rest(self.boxed_leaf(of, depth), len as u64)
            }
            1 if len.is_power_of_two() => {
                let of = self.dice.of(SIGNED);
                Index::Masked(self.boxed_leaf(of, depth), len as u64 - 1)
            }
            _ => {
                let of = self.dice.of(INTEGERS);
                Index::Usize(self.boxed_leaf(of, depth), of_array)
            }
        }
    }

    /// Returns a small expression: a name or a literal, or a sum of them.
    fn boxed_leaf(&mut self, ty: Ty, depth: usize) -> Box<Expr> {
        let name = self
            .scope
            .iter()
            .copied()
            .find(|var| self.variables[*var].shape == Shape::One(ty));
        let leaf =
            match name {
                Some(var) => named(var),
                None if ty == Ty::Usize && self.is_kernel => Kind::Thread(true),
                None => {
                    let from = self.scope.iter().copied().find_map(|var| {
                        match self.variables[var].shape {
                            Shape::One(of) if of != ty => Some(Expr {
                                ty: of,
                                kind: named(var),
                            }),
                            _ => None,
                        }
                    });
                    match from {
                        Some(from) => Kind::Cast(Box::new(from)),
                        None => Kind::Literal(ty.random(self.dice)),
                    }
                }
            };
        let leaf = Expr { ty, kind: leaf };
        if depth == 0 {
            return Box::new(leaf);
        }
        let literal = Expr {
            ty,
            kind: Kind::Literal(ty.random(self.dice)),
        };
        let kind = Kind::Binary(Binary::Add, Box::new(leaf), Box::new(literal));
        Box::new(Expr { ty, kind })
    }
}
