//! Places of columns: columns that are in use at different times share memory.
//!
//! The first and the last mention of each column are found by a walk over all steps; a column that a loop mentions, and
//! that exists before it, is in use until its end. The second walk writes the places.

use crate::code::{Condition, Operand, Place, Step, Steps, Turns, UNPLACED};

use super::Column;

/// The places of columns.
pub(super) struct Placed {
    /// The bytes of an element of each place.
    pub(super) sizes: Vec<u32>,
    /// The number of places of direct loads.
    pub(super) direct: usize,
    places: Vec<Option<Place>>,
}

impl Placed {
    /// Returns an operand with its place. `None` if no step mentions it.
    pub(super) fn operand(&self, operand: Operand) -> Option<Operand> {
        match number(operand) {
            None => Some(operand),
            Some(column) => self.places[column].map(|place| Operand { place, ..operand }),
        }
    }
}

/// Returns the number of a column without a place.
fn number(operand: Operand) -> Option<usize> {
    let is_column = operand.place & UNPLACED != 0;
    is_column.then_some((operand.place & !UNPLACED) as usize)
}

/// Visits steps in the order of their execution.
trait Visitor {
    /// The next step begins.
    fn step(&mut self);
    fn operand(&mut self, operand: &mut Operand);
    /// The column of a direct load, which is used where the memory itself cannot be.
    fn indirect(&mut self, operand: &mut Operand) {
        self.operand(operand);
    }
    /// A copy whose value may be exchanged for its target.
    fn set(&mut self, _value: Operand, _swaps: &mut bool) {}
    fn loop_begins(&mut self) {}
    fn loop_ends(&mut self) {}
}

fn walk(steps: &mut Steps, visitor: &mut impl Visitor) {
    let mut afters: Vec<Operand> = Vec::new();
    for step in &mut *steps {
        visitor.step();
        match step {
            Step::Scalar { .. } | Step::Leave(_) => {}
            Step::Map { to, of, .. } | Step::Each { to, of, .. } => {
                of.iter_mut().for_each(|of| visitor.operand(of));
                visitor.operand(to);
            }
            Step::MulAdd(it) => walk(&mut it.steps, visitor),
            Step::Ramp { to, .. } | Step::Tested { to, .. } => visitor.operand(to),
            Step::Set {
                to, value, swaps, ..
            } => {
                visitor.set(*value, swaps);
                visitor.operand(value);
                visitor.operand(to);
            }
            Step::Load { access, to, direct } => {
                if let crate::code::At::Column(at) = &mut access.at {
                    visitor.operand(at);
                }
                to.iter_mut().for_each(|to| visitor.operand(to));
                direct
                    .iter_mut()
                    .for_each(|direct| visitor.indirect(direct));
            }
            Step::Store { access, value } => {
                if let crate::code::At::Column(at) = &mut access.at {
                    visitor.operand(at);
                }
                value.iter_mut().for_each(|value| visitor.operand(value));
            }
            Step::Atomic {
                access,
                operands,
                to,
                ..
            } => {
                if let crate::code::At::Column(at) = &mut access.at {
                    visitor.operand(at);
                }
                operands.iter_mut().for_each(|of| visitor.operand(of));
                to.iter_mut().for_each(|to| visitor.operand(to));
            }
            Step::Shuffle { to, of, by, .. } => {
                visitor.operand(to);
                visitor.operand(of);
                visitor.operand(by);
            }
            Step::Say(said) => {
                let values = said.values.iter_mut();
                values.for_each(|(_, value)| visitor.operand(value));
            }
            Step::Reduce { to, of, .. } => {
                visitor.operand(of);
                visitor.operand(to);
            }
            Step::If {
                condition,
                then,
                otherwise,
                mask,
                after,
            } => {
                let (mut again, mut mask_again) = (None, *mask);
                if let Condition::Column(condition) = condition {
                    again = Some(*condition);
                    visitor.operand(condition);
                }
                visitor.operand(mask);
                walk(then, visitor);
                visitor.step();
                // The other block reads the condition, too.
                again
                    .iter_mut()
                    .for_each(|condition| visitor.operand(condition));
                walk(otherwise, visitor);
                visitor.step();
                visitor.operand(&mut mask_again);
                if let Some(after) = after {
                    afters.push(*after);
                    visitor.operand(after);
                }
            }
            Step::Repeat {
                turns,
                body,
                mask,
                after,
            } => {
                let mut mask_again = *mask;
                visitor.operand(mask);
                if let Some(after) = after {
                    afters.push(*after);
                    visitor.operand(after);
                }
                if let Turns::Column {
                    begins: Condition::Column(begins),
                    ..
                } = turns
                {
                    visitor.operand(begins);
                }
                visitor.loop_begins();
                if let Turns::Column { test, goes_on, .. } = turns {
                    walk(test, visitor);
                    visitor.step();
                    visitor.operand(goes_on);
                }
                walk(body, visitor);
                if let Turns::Column { advance, .. } = turns {
                    walk(advance, visitor);
                }
                visitor.step();
                visitor.operand(&mut mask_again);
                visitor.loop_ends();
            }
        }
    }
    visitor.step();
    // The threads that go on need it until the end of the block.
    afters.iter_mut().for_each(|after| visitor.operand(after));
}

/// The steps between which a column is in use.
#[derive(Clone, Copy)]
struct Life {
    first: usize,
    last: usize,
}

struct Lives {
    now: usize,
    lives: Vec<Option<Life>>,
    mentioned: Vec<usize>,
    /// For each open loop its first step, and the mentions before it.
    loops: Vec<(usize, usize)>,
}

impl Visitor for Lives {
    fn step(&mut self) {
        self.now += 1;
    }

    fn operand(&mut self, operand: &mut Operand) {
        let Some(column) = number(*operand) else {
            return;
        };
        let now = self.now;
        let life = self.lives[column].get_or_insert(Life {
            first: now,
            last: now,
        });
        life.last = now;
        self.mentioned.push(column);
    }

    fn loop_begins(&mut self) {
        self.loops.push((self.now, self.mentioned.len()));
    }

    fn loop_ends(&mut self) {
        let Some((begin, mentions)) = self.loops.pop() else {
            return;
        };
        for column in &self.mentioned[mentions..] {
            if let Some(life) = &mut self.lives[*column]
                && life.first <= begin
            {
                life.last = self.now;
            }
        }
    }
}

struct Writer<'a> {
    now: usize,
    columns: &'a [Column],
    lives: &'a [Option<Life>],
    /// The places of columns, and those of direct loads.
    places: &'a [Option<Place>],
    direct: &'a [Option<Place>],
}

impl Visitor for Writer<'_> {
    fn step(&mut self) {
        self.now += 1;
    }

    fn operand(&mut self, operand: &mut Operand) {
        if let Some(column) = number(*operand)
            && let Some(place) = self.direct[column].or(self.places[column])
        {
            operand.place = place;
        }
    }

    fn indirect(&mut self, operand: &mut Operand) {
        if let Some(column) = number(*operand)
            && let Some(place) = self.places[column]
        {
            operand.place = place;
        }
    }

    fn set(&mut self, value: Operand, swaps: &mut bool) {
        if let Some(column) = number(value)
            && let Some(life) = self.lives[column]
        {
            let known = self.columns[column];
            *swaps = life.last == self.now && !known.is_direct;
        }
    }
}

/// Chooses places for all columns, behind those of the scalars, and writes them.
pub(super) fn place(steps: &mut Steps, columns: &[Column], scalars: usize) -> Placed {
    let mut lives = Lives {
        now: 0,
        lives: vec![None; columns.len()],
        mentioned: Vec::new(),
        loops: Vec::new(),
    };
    walk(steps, &mut lives);
    let mut lives = lives.lives;
    for (life, column) in lives.iter_mut().zip(columns) {
        if let Some(life) = life
            && column.is_fixed
        {
            (life.first, life.last) = (0, usize::MAX);
        }
    }
    let mut order: Vec<(usize, Life)> = (0..)
        .zip(&lives)
        .filter_map(|(column, life)| Some((column, (*life)?)))
        .collect();
    order.sort_by_key(|(_, life)| life.first);
    let mut sizes: Vec<u32> = Vec::new();
    // For each place the last step that uses it.
    let mut used_until: Vec<usize> = Vec::new();
    let mut places = vec![None; columns.len()];
    for (column, life) in order {
        let size = columns[column].size;
        let free =
            (0..sizes.len()).find(|place| sizes[*place] == size && used_until[*place] < life.first);
        let place = free.unwrap_or_else(|| {
            sizes.push(size);
            used_until.push(0);
            sizes.len() - 1
        });
        used_until[place] = life.last;
        places[column] = Some((scalars + place) as Place);
    }
    let mut next = (scalars + sizes.len()) as Place;
    let direct: Vec<Option<Place>> = columns
        .iter()
        .zip(&lives)
        .map(|(column, life)| {
            (column.is_direct && life.is_some()).then(|| {
                next += 1;
                next - 1
            })
        })
        .collect();
    walk(
        steps,
        &mut Writer {
            now: 0,
            columns,
            lives: &lives,
            places: &places,
            direct: &direct,
        },
    );
    Placed {
        direct: direct.iter().flatten().count(),
        sizes,
        places,
    }
}
