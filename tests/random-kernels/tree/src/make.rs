//! A kernel of each seed.

mod atomic;
mod control;
mod expression;
mod place;
mod shape;
mod statement;
mod together;
mod value;

use crate::dice::Dice;
use crate::number::Ty;
use crate::tree::{
    Buffer, Helper, Kernel, LoopId, Mode, Place, Root, Shape, Statement, Struct, Table, Var,
    Variable,
};

/// The most expressions of a function: enough for nests of all statements, and few enough that thousands compile.
const EXPRESSIONS_MAX: usize = 90;

/// What is made of a function so far.
struct Maker<'a> {
    dice: &'a mut Dice,
    structs: &'a [Struct],
    tables: &'a [Table],
    helpers: &'a [Helper],
    /// The buffers that it may read, and the thread's own elements.
    buffers: &'a [Buffer],
    variables: Vec<Variable>,
    /// Those that have the same value in all threads of a cube: scalars, results of reductions, counters.
    uniform: Vec<Var>,
    /// The threads of a cube, if they work together.
    cube: Option<usize>,
    /// The elements of the shared arrays, and the arrays that all threads have stored.
    shared: &'a [Shape],
    stored: Vec<usize>,
    /// The types of the shared arrays of atomics.
    tallies: Vec<Ty>,
    /// The visible variables.
    scope: Vec<Var>,
    /// The open loops, innermost last.
    loops: Vec<LoopId>,
    loops_made: usize,
    /// What it returns, nothing if it is a kernel; `None` where no jump may be, such as in the condition of a loop.
    returns: Option<Option<Shape>>,
    is_kernel: bool,
    /// The expressions that may still be added.
    left: usize,
}

/// What all functions of a kernel may use.
struct Items {
    structs: Vec<Struct>,
    tables: Vec<Table>,
    helpers: Vec<Helper>,
    /// Those of the kernel.
    buffers: Vec<Buffer>,
}

/// Returns the kernel of a seed.
pub fn kernel(seed: u64) -> Kernel {
    let mut dice = Dice::new(seed);
    let structs = shape::structs(&mut dice);
    let tables = shape::tables(&mut dice, &structs);
    let buffers = shape::buffers(&mut dice, &structs);
    let mut items = Items {
        structs,
        tables,
        helpers: Vec::new(),
        buffers,
    };
    for _ in 0..dice.below(3) {
        let helper = helper(&mut dice, &items);
        items.helpers.push(helper);
    }
    let scalars = 1 + dice.below(3);
    let scalars: Vec<Shape> = (0..scalars)
        .map(|_| shape::passed(&mut dice, &items.structs))
        .collect();
    let cube = dice.percent(15).then(|| dice.of(&[8, 16, 32, 64]));
    let shared = match cube {
        Some(_) => 1 + dice.below(2),
        None => 0,
    };
    let shared: Vec<Shape> = (0..shared)
        .map(|_| shape::of_buffer(&mut dice, &items.structs))
        .collect();
    let mut maker = Maker::new(&mut dice, &items, &items.buffers, &scalars, "s");
    maker.is_kernel = true;
    (maker.cube, maker.shared) = (cube, &shared);
    maker.returns = Some(None);
    let mut body = Vec::new();
    let assign = |maker: &mut Maker<'_>, index: usize| {
        let value = maker.value(&items.buffers[index].of, 2);
        let (root, steps) = (Root::Own(index), Vec::new());
        Statement::Assign(Place { root, steps }, value)
    };
    for (index, buffer) in items.buffers.iter().enumerate() {
        if buffer.mode == Mode::Whole {
            // Each thread has to store.
            body.push(maker.without_jumps(|it| assign(it, index)));
        }
    }
    if cube.is_some() {
        let phases = maker.without_jumps(Maker::phases);
        body.extend(phases);
    }
    body.extend(maker.statements(4, 3));
    maker.left = maker.left.max(12);
    for (index, buffer) in items.buffers.iter().enumerate() {
        if matches!(buffer.mode, Mode::Own | Mode::Reversed) {
            body.push(assign(&mut maker, index));
        }
    }
    let (variables, tallies) = (maker.variables, maker.tallies);
    let Items {
        structs,
        tables,
        helpers,
        buffers,
    } = items;
    Kernel {
        seed,
        cube,
        shared,
        tallies,
        structs,
        tables,
        helpers,
        variables,
        scalars,
        buffers,
        body,
    }
}

/// Whether it is a buffer of atomics that all threads change.
fn is_shared(buffer: &Buffer) -> bool {
    matches!(buffer.mode, Mode::Atomic(_))
}

fn helper(dice: &mut Dice, items: &Items) -> Helper {
    let structs = &items.structs[..];
    let params = 1 + dice.below(3);
    let mut params: Vec<Shape> = (0..params).map(|_| shape::passed(dice, structs)).collect();
    let method_of = match dice.percent(30) && !structs.is_empty() {
        true => Some(dice.below(structs.len())),
        false => None,
    };
    if let Some(id) = method_of {
        params.insert(0, Shape::Struct(id));
    }
    let returns = shape::passed(dice, structs);
    // A method takes no buffer.
    let buffer = match dice.below(20) {
        0..=5 if method_of.is_none() => Some(Buffer {
            of: shape::of_buffer(dice, structs),
            mode: Mode::Read,
        }),
        // That of the kernel, or none: others are seldom the same.
        6..=9 if method_of.is_none() => items.buffers.iter().find(|it| is_shared(it)).cloned(),
        _ => None,
    };
    let buffers: Vec<Buffer> = buffer.clone().into_iter().collect();
    let mut maker = Maker::new(dice, items, &buffers, &params, "p");
    if method_of.is_some() {
        "self".clone_into(&mut maker.variables[0].name);
    }
    maker.left = EXPRESSIONS_MAX / 3;
    maker.returns = Some(Some(returns.clone()));
    let body = maker.statements(3, 2);
    maker.left = maker.left.max(8);
    let value = maker.value(&returns, 2);
    let variables = maker.variables;
    Helper {
        method_of,
        variables,
        params: params.len(),
        buffer,
        returns,
        body,
        value,
    }
}

impl<'a> Maker<'a> {
    fn new(
        dice: &'a mut Dice,
        items: &'a Items,
        buffers: &'a [Buffer],
        params: &[Shape],
        name: &str,
    ) -> Self {
        let variables = params.iter().enumerate().map(|(index, of)| Variable {
            name: format!("{name}{index}"),
            shape: of.clone(),
            is_mut: false,
            is_typed: true,
        });
        Self {
            dice,
            structs: &items.structs,
            tables: &items.tables,
            helpers: &items.helpers,
            buffers,
            variables: variables.collect(),
            uniform: (0..params.len()).collect(),
            scope: (0..params.len()).collect(),
            cube: None,
            shared: &[],
            stored: Vec::new(),
            tallies: Vec::new(),
            loops: Vec::new(),
            loops_made: 0,
            returns: None,
            is_kernel: false,
            left: EXPRESSIONS_MAX,
        }
    }

    /// Adds a variable, which is not visible yet.
    fn variable(&mut self, shape: Shape, is_mut: bool) -> Var {
        // Some hide another one.
        let hidden = match self.scope.is_empty() || !self.dice.percent(12) {
            true => None,
            false => Some(self.variables[self.dice.of(&self.scope)].name.clone()),
        };
        let hidden = hidden.filter(|name| name != "self");
        let name = hidden.unwrap_or_else(|| format!("v{}", self.variables.len()));
        let is_typed = self.dice.percent(30);
        self.variables.push(Variable {
            name,
            shape,
            is_mut,
            is_typed,
        });
        self.variables.len() - 1
    }

    /// Makes a variable visible, and hides others of its name.
    fn bind(&mut self, var: Var) {
        let variables = &self.variables;
        self.scope
            .retain(|it| variables[*it].name != variables[var].name);
        self.scope.push(var);
    }

    /// Runs in a block of its own.
    fn inside<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let (scope, stored) = (self.scope.clone(), self.stored.clone());
        let made = make(self);
        (self.scope, self.stored) = (scope, stored);
        made
    }

    /// Runs where no jump may be.
    fn without_jumps<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let (loops, returns) = (std::mem::take(&mut self.loops), self.returns.take());
        let made = make(self);
        (self.loops, self.returns) = (loops, returns);
        made
    }
}
