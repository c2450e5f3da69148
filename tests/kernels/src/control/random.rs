//! Random functions: statements of every kind at random places, in loops that end.

use std::cell::RefCell;

use millstream_ir::ssa::{Axis, Builder, Function, MemoryRef, Position, Shuffle, Val, Var};
use millstream_ir::{BinaryOp, CompareOp, DType, ProgramError, ReduceOp, UnaryOp};

use super::case;
use crate::data::elements;
use crate::functions::Case;

/// The threads of a cube, along two axes.
const THREADS: [u32; 3] = [4, 2, 1];
const CUBES: u32 = 2;
/// The elements of the buffer that random functions read: odd, so that the last pair is out of bounds in part.
const X_LEN: i64 = 33;
/// The elements of a thread in the buffer that it writes.
const OWN_LEN: i64 = 8;
/// The elements behind those of the threads, to which all threads add.
const SUMS_LEN: i64 = 4;
const SHARED_LEN: i64 = 8;
const LOCAL_LEN: i64 = 4;
/// The iterations of a thread in all loops without bounds together.
const FUEL: i64 = 24;
/// The greatest depth of random blocks.
const DEPTH_MAX: usize = 4;

/// A random function.
pub struct Random {
    /// A launch of it.
    pub case: Case,
    /// Whether it accesses something out of bounds, which the CPU refuses.
    pub is_out_of_bounds: bool,
    /// Whether it has barriers or reductions.
    pub meets: bool,
}

/// Returns the random function of a seed. Half of them have accesses out of bounds.
pub fn random(seed: u64) -> Random {
    let write = |meets| Writer::new(seed, meets).write();
    // Most barriers at random places are refused, as only some threads may get there.
    let (meets, function) = match write(true) {
        Ok(function) => (true, function),
        Err(_) => (false, write(false).unwrap()),
    };
    let y_len = i64::from(THREADS.iter().product::<u32>() * CUBES) * OWN_LEN + SUMS_LEN;
    let buffers = [(X_LEN, 1), (y_len, 2)];
    let buffers = buffers.map(|(len, nth)| elements(DType::I64, len as usize, seed + nth, true));
    let words = vec![seed % 5, X_LEN as u64, y_len as u64];
    let meets = meets && function.to_string().contains("barrier");
    let (case, is_out_of_bounds) = case(function, CUBES, buffers.to_vec(), words);
    Random {
        case,
        is_out_of_bounds,
        meets,
    }
}

/// Writes a random function.
struct Writer {
    k: Builder,
    seed: u64,
    /// Whether there are barriers and reductions.
    meets: bool,
    /// Whether there are accesses out of bounds.
    strays: bool,
}

/// What the statements of a random function use.
#[derive(Clone)]
struct Scope<'k> {
    known: Vec<Val<'k>>,
    vars: Vec<Var<'k>>,
    x: MemoryRef<'k>,
    y: MemoryRef<'k>,
    shared: MemoryRef<'k>,
    local: MemoryRef<'k>,
    /// The thread in its cube.
    me: Val<'k>,
    /// The first element of the thread in `y`, and that of the sums.
    own: Val<'k>,
    sums: Val<'k>,
    fuel: Var<'k>,
    /// The numbers of blocks and of loops around.
    depth: usize,
    loops: usize,
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Writer {
    fn new(seed: u64, meets: bool) -> Self {
        Self {
            k: Builder::new("random", THREADS),
            seed,
            meets,
            strays: seed % 2 == 1,
        }
    }

    fn write(self) -> Result<Function, ProgramError> {
        let Self {
            k,
            seed,
            meets,
            strays,
        } = self;
        k.file("random.rs");
        k.check_bounds();
        let word = k.scalar("word", DType::I64);
        let (x, y) = (k.read("x", DType::I64), k.update("y", DType::I64));
        let y_len = (k.len(x), k.len(y)).1.cast(DType::I64);
        let me = k.position(Position::Thread, Axis::Y) * 4 + k.thread();
        let threads = i64::from(THREADS.iter().product::<u32>());
        let scope = Scope {
            known: vec![word, me, k.cube(), k.constant(3)],
            vars: ["a", "b", "c"].map(|name| k.var(name, word)).to_vec(),
            x,
            y,
            shared: k.shared("shared", DType::I64, SHARED_LEN as u32),
            local: k.local("local", DType::I64, LOCAL_LEN as u32),
            me,
            own: (k.cube() * threads + me) * OWN_LEN,
            sums: y_len - SUMS_LEN,
            fuel: k.var("fuel", FUEL),
            depth: 0,
            loops: 0,
        };
        scope.shared.set(me, me);
        let mut of = Statements {
            k: &k,
            state: seed,
            meets,
            strays,
        };
        of.block(&mut scope.clone(), 14);
        // What the variables have at the end, for all threads that get here.
        for (nth, var) in (0..).zip(&scope.vars) {
            y.set(scope.own + nth, var.get() + scope.local.get(nth));
        }
        k.build()
    }
}

/// Writes random statements.
struct Statements<'k> {
    k: &'k Builder,
    state: u64,
    meets: bool,
    strays: bool,
}

impl<'k> Statements<'k> {
    fn draw(&mut self, below: u64) -> u64 {
        next(&mut self.state) % below
    }

    fn pick(&mut self, scope: &Scope<'k>) -> Val<'k> {
        scope.known[self.draw(scope.known.len() as u64) as usize]
    }

    fn condition(&mut self, scope: &Scope<'k>) -> Val<'k> {
        let (a, b) = (self.pick(scope), self.pick(scope));
        let op = CompareOp::ALL[self.draw(6) as usize];
        match self.draw(3) {
            0 => (a % 3).compare(op, b % 3),
            // The same for all threads of a cube.
            1 => scope.known[0].compare(op, self.draw(4) as i64),
            _ => scope.me.compare(op, self.draw(8) as i64),
        }
    }

    /// Returns an index of `lanes` elements, a multiple of `lanes`: below `len` from `first` on; of functions that stray
    /// sometimes out of bounds.
    fn index(&mut self, scope: &Scope<'k>, first: Val<'k>, len: i64, lanes: i64) -> Val<'k> {
        let value = self.pick(scope);
        let below = value.binary(BinaryOp::And, len / lanes - 1) * lanes;
        let within = first + below;
        if !self.strays || self.draw(4) != 0 {
            return within;
        }
        let out = match self.draw(4) {
            0 => below * -1 - lanes,
            // Behind the end of every memory. Of `x`, the first pair is out of bounds in part.
            1 if lanes == 2 && len == 32 => self.k.constant(X_LEN - 1),
            1 => below + (1 << 20),
            2 => self.k.constant(i64::MAX & !1),
            _ => self.k.constant(i64::MIN),
        };
        // A compiler that knows which thread is within its one shared element may load that for all threads, whatever
        // they do with it. The fake GPU would report a race.
        let strays = match len {
            1 => scope.known[0].compare(CompareOp::Ne, self.draw(4) as i64),
            _ => self.condition(scope),
        };
        strays.select(out, within)
    }

    fn block(&mut self, scope: &mut Scope<'k>, statements: u64) {
        for _ in 0..statements {
            if self.draw(6) == 0 {
                self.k.line(self.state as u32 % 1000);
            }
            if self.draw(12) == 0 {
                self.assert(scope);
            }
            match self.draw(14) {
                0 | 1 => self.compute(scope),
                2 | 3 => self.load(scope),
                4 | 5 => self.store(scope),
                6 => {
                    let var = scope.vars[self.draw(3) as usize];
                    let value = self.pick(scope);
                    var.set(value);
                }
                7 if self.meets => {
                    self.k.barrier();
                    let value = self.pick(scope);
                    let op = [ReduceOp::Sum, ReduceOp::Max][self.draw(2) as usize];
                    let width = [4, 2][self.draw(2) as usize];
                    let met = match self.draw(3) {
                        0 => value.reduce(op),
                        1 => value.reduce_subgroup(width, op),
                        _ => {
                            let from = Shuffle::ALL[self.draw(4) as usize];
                            let by = self.pick(scope);
                            value.shuffle(from, width, by % 5)
                        }
                    };
                    scope.known.push(met);
                }
                8 | 9 if scope.depth < DEPTH_MAX => self.branch(scope),
                10 | 11 if scope.depth < DEPTH_MAX => self.repeat(scope),
                12 | 13 if scope.depth > 0 && self.draw(2) == 0 => self.leave(scope),
                _ => {
                    let var = scope.vars[self.draw(3) as usize];
                    scope.known.push(var.get());
                }
            }
        }
    }

    /// Adds an assertion that holds for all threads.
    fn assert(&mut self, scope: &Scope<'k>) {
        let (a, b) = (self.pick(scope), self.pick(scope));
        let fails = scope.me.compare(CompareOp::Ge, 8);
        let k = self.k;
        k.when(fails, || k.fail("{}: {:?} and {:>8}", &[scope.me, a, b]));
    }

    fn compute(&mut self, scope: &mut Scope<'k>) {
        let (a, b) = (self.pick(scope), self.pick(scope));
        let made = match self.draw(6) {
            0 => a.unary(UnaryOp::Neg),
            1 => a * b,
            2 => a - b,
            3 => a / b,
            4 => self.condition(scope).select(a, b),
            _ => a + b + self.draw(100) as i64,
        };
        scope.known.push(made);
    }

    fn load(&mut self, scope: &mut Scope<'k>) {
        let zero = self.k.constant(0);
        let made = match self.draw(8) {
            // Of elements that only this thread accesses.
            6 => {
                let (at, value) = (self.index(scope, scope.me, 1, 1), self.pick(scope));
                scope.shared.fetch(BinaryOp::Max, at, value)
            }
            7 => {
                let at = self.index(scope, scope.own, OWN_LEN, 1);
                let (expected, new) = (scope.y.get(at), self.pick(scope));
                scope.y.compare_exchange(at, expected, new)
            }
            0 => {
                let pair = scope.x.get_wide(self.index(scope, zero, 32, 2), 2);
                pair.lane(0) - pair.lane(1)
            }
            1 => scope.y.get(self.index(scope, scope.own, OWN_LEN, 1)),
            2 => {
                let pair = scope
                    .local
                    .get_wide(self.index(scope, zero, LOCAL_LEN, 2), 2);
                pair.lane(0) * pair.lane(1)
            }
            3 => scope.shared.get(self.index(scope, scope.me, 1, 1)),
            4 => scope.local.get(self.index(scope, zero, LOCAL_LEN, 1)),
            _ => scope.x.get(self.index(scope, zero, 32, 1)),
        };
        scope.known.push(made);
    }

    fn store(&mut self, scope: &Scope<'k>) {
        let (a, b) = (self.pick(scope), self.pick(scope));
        let zero = self.k.constant(0);
        match self.draw(6) {
            0 => scope.y.set(
                self.index(scope, scope.own, OWN_LEN, 2),
                self.k.pack(&[a, b]),
            ),
            1 => {
                scope.y.add(self.index(scope, scope.sums, SUMS_LEN, 1), a);
            }
            2 => scope
                .local
                .set(self.index(scope, zero, LOCAL_LEN, 2), self.k.pack(&[a, b])),
            3 => scope.shared.set(self.index(scope, scope.me, 1, 1), a),
            4 => scope.local.set(self.index(scope, zero, LOCAL_LEN, 1), a),
            _ => scope.y.set(self.index(scope, scope.own, OWN_LEN, 1), a),
        }
    }

    fn branch(&mut self, scope: &Scope<'k>) {
        let condition = self.condition(scope);
        let inner = Scope {
            depth: scope.depth + 1,
            ..scope.clone()
        };
        let (then, otherwise) = (self.draw(4), self.draw(3));
        let k = self.k;
        let state = RefCell::new(self);
        k.either(
            condition,
            || state.borrow_mut().block(&mut inner.clone(), then),
            || state.borrow_mut().block(&mut inner.clone(), otherwise),
        );
    }

    fn repeat(&mut self, scope: &Scope<'k>) {
        let mut inner = Scope {
            depth: scope.depth + 1,
            loops: scope.loops + 1,
            ..scope.clone()
        };
        let (kind, statements, step) = (self.draw(4), self.draw(6), 1 + self.draw(3) as i64);
        let (start, end) = (self.pick(scope) % 3, self.draw(5) as i64);
        let (k, fuel) = (self.k, scope.fuel);
        match kind {
            0 => k.unrolled(3, |i| {
                inner.known.push(i);
                self.block(&mut inner, statements);
            }),
            1 => k.range(start, end, step, |i| {
                inner.known.push(i);
                self.block(&mut inner, statements);
            }),
            // Not the same number of iterations for all threads, and one that is.
            2 => k.while_(
                || fuel.get().compare(CompareOp::Gt, 0),
                || {
                    fuel.set(fuel.get() - 1);
                    self.block(&mut inner, statements);
                },
            ),
            _ => {
                let turns = k.var("turns", end);
                k.loop_(|| {
                    turns.set(turns.get() - 1);
                    k.when(turns.get().lt(0), || k.break_());
                    self.block(&mut inner, statements);
                });
            }
        }
    }

    fn leave(&mut self, scope: &Scope<'k>) {
        match self.draw(5) {
            0 | 1 if scope.loops > 0 => self.k.break_(),
            2 | 3 if scope.loops > 0 => self.k.continue_(),
            _ => self.k.return_(),
        }
    }
}
