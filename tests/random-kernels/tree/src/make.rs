//! A kernel of each seed.

mod expression;
mod statement;

use crate::dice::Dice;
use crate::number::{ALL, ELEMENTS, Ty};
use crate::tree::{Buffer, Helper, Kernel, LoopId, Mode, Place, Shape, Statement, Var, Variable};

/// The most expressions of a function: enough for nests of all statements, and few enough that thousands compile.
const EXPRESSIONS_MAX: usize = 90;

/// What is made of a function so far.
struct Maker<'a> {
    dice: &'a mut Dice,
    helpers: &'a [Helper],
    /// The buffers that it may read, and the thread's own elements.
    buffers: &'a [Buffer],
    variables: Vec<Variable>,
    /// The visible variables.
    scope: Vec<Var>,
    /// The open loops, innermost last.
    loops: Vec<LoopId>,
    loops_made: usize,
    /// What it returns; `None` where no jump may be, such as in the condition of a loop.
    returns: Option<Vec<Ty>>,
    is_kernel: bool,
    /// The expressions that may still be added.
    left: usize,
}

/// Returns the kernel of a seed.
pub fn kernel(seed: u64) -> Kernel {
    let mut dice = Dice::new(seed);
    let buffers = buffers(&mut dice);
    let mut helpers = Vec::new();
    for _ in 0..dice.below(3) {
        let helper = helper(&mut dice, &helpers);
        helpers.push(helper);
    }
    let scalars: Vec<Ty> = (0..1 + dice.below(3)).map(|_| dice.of(ALL)).collect();
    let mut maker = Maker::new(&mut dice, &helpers, &buffers, &scalars, "s");
    maker.is_kernel = true;
    maker.returns = Some(Vec::new());
    let mut body = Vec::new();
    for (index, buffer) in buffers.iter().enumerate() {
        if buffer.mode == Mode::Whole {
            // Each thread has to store.
            let value = maker.without_jumps(|it| it.expr(buffer.of, 2));
            body.push(Statement::Assign(Place::Own(index), None, value));
        }
    }
    body.extend(maker.statements(4, 3));
    maker.left = maker.left.max(12);
    for (index, buffer) in buffers.iter().enumerate() {
        if matches!(buffer.mode, Mode::Own | Mode::Reversed) {
            let value = maker.expr(buffer.of, 2);
            body.push(Statement::Assign(Place::Own(index), None, value));
        }
    }
    let variables = maker.variables;
    Kernel {
        seed,
        helpers,
        variables,
        scalars,
        buffers,
        body,
    }
}

fn buffers(dice: &mut Dice) -> Vec<Buffer> {
    let read = 1 + dice.below(2);
    let changed = 1 + dice.below(2);
    let mut of = |modes: &[Mode]| Buffer {
        of: dice.of(ELEMENTS),
        mode: dice.of(modes),
    };
    let reads: Vec<_> = (0..read).map(|_| of(&[Mode::Read, Mode::Along])).collect();
    let changes = (0..changed).map(|_| of(&[Mode::Own, Mode::Own, Mode::Reversed, Mode::Whole]));
    reads.into_iter().chain(changes).collect()
}

fn helper(dice: &mut Dice, helpers: &[Helper]) -> Helper {
    let params: Vec<Ty> = (0..1 + dice.below(3)).map(|_| dice.of(ALL)).collect();
    let returns: Vec<Ty> = (0..1 + dice.below(4) / 3).map(|_| dice.of(ALL)).collect();
    let buffer = dice.percent(30).then(|| dice.of(ELEMENTS));
    let buffers: Vec<Buffer> = buffer
        .map(|of| Buffer {
            of,
            mode: Mode::Read,
        })
        .into_iter()
        .collect();
    let mut maker = Maker::new(dice, helpers, &buffers, &params, "p");
    maker.left = EXPRESSIONS_MAX / 3;
    maker.returns = Some(returns.clone());
    let body = maker.statements(3, 2);
    maker.left = maker.left.max(8);
    let values = returns.iter().map(|of| maker.expr(*of, 2)).collect();
    let variables = maker.variables;
    Helper {
        variables,
        params: params.len(),
        buffer,
        returns,
        body,
        values,
    }
}

impl<'a> Maker<'a> {
    fn new(
        dice: &'a mut Dice,
        helpers: &'a [Helper],
        buffers: &'a [Buffer],
        params: &[Ty],
        name: &str,
    ) -> Self {
        let variables = params.iter().enumerate().map(|(index, of)| Variable {
            name: format!("{name}{index}"),
            shape: Shape::One(*of),
            is_mut: false,
            is_typed: true,
        });
        Self {
            dice,
            helpers,
            buffers,
            variables: variables.collect(),
            scope: (0..params.len()).collect(),
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
        let scope = self.scope.clone();
        let made = make(self);
        self.scope = scope;
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
