//! Every operation on every type, and random functions of all types, whose results the reference defines.

use std::cell::RefCell;

use millstream_ir::ssa::{Axis, Builder, Function, MemoryRef, Position, Type, Val, Var};
use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp, scalar};
use millstream_ir_text::threads;
use millstream_kernel_cases::data::elements;
use millstream_kernel_cases::operations::{Case, distance};

use crate::run;

/// The number of random functions if `MILLSTREAM_SEEDS` is not set.
const FUNCTIONS: u64 = 100;
/// The elements of a buffer that is read, besides eight for each thread.
const READ_LEN: i64 = 64;
/// The elements of a thread in a buffer that is written.
const OWN_LEN: i64 = 8;
/// The elements to which all threads add.
const SUMS_LEN: i64 = 4;
const LOCAL_LEN: i64 = 4;
const DEPTH_MAX: usize = 3;
/// The statements of the outermost block.
const STATEMENTS: u64 = 18;
/// Shapes of cubes: along one axis, also with a part of a chunk, and along several.
const SHAPES: [[u32; 3]; 7] = [
    [64, 1, 1],
    [40, 1, 1],
    [8, 4, 1],
    [3, 5, 2],
    [1, 16, 1],
    [200, 1, 1],
    [16, 4, 1],
];

/// Returns the elements of a type as bits.
fn bits_of(dtype: DType, bytes: &[u8]) -> Vec<u64> {
    let elements = bytes.chunks(dtype.size());
    elements.map(|bytes| scalar::load(dtype, bytes)).collect()
}

#[test]
fn every_operation_on_every_type_is_within_its_units() {
    const COUNT: usize = 300;
    for case in Case::all() {
        let inputs = case.inputs(COUNT);
        let column = |nth: usize, dtype: DType| -> Vec<u8> {
            let bits = inputs.iter().map(|tuple| tuple[nth].to_le_bytes());
            bits.flat_map(|bytes| bytes[..dtype.size()].to_vec())
                .collect()
        };
        let operands = case.operands().into_iter().enumerate();
        let mut buffers: Vec<Vec<u8>> = operands.map(|(nth, dtype)| column(nth, dtype)).collect();
        buffers.push(vec![0; COUNT * case.result().size()]);
        let after = run(&case.function(), [3, 1, 1], &buffers, &[COUNT as u64]);
        let found = after.last().map(|bytes| bits_of(case.result(), bytes));
        for (found, operands) in found.into_iter().flatten().zip(&inputs) {
            let expected = case.reference(operands);
            assert!(
                case.distance(found, expected) <= case.units(),
                "{case:?} of {operands:x?} is {found:#x}, expected {expected:#x}"
            );
        }
    }
}

#[test]
fn random_functions_of_all_types_have_the_results_of_the_reference() {
    let given = std::env::var("MILLSTREAM_SEEDS").ok();
    let seeds = given.and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(FUNCTIONS) {
        let random = Writer::new(seed).write();
        let cubes = 2;
        let mut expected = random.buffers.clone();
        let strays = threads::run(&random.function, cubes, &mut expected, &random.words);
        assert!(!strays, "{seed}:\n{}", random.function);
        let after = run(
            &random.function,
            [cubes, 1, 1],
            &random.buffers,
            &random.words,
        );
        let params = random.function.params.iter();
        for ((param, found), expected) in params.zip(&after).zip(&expected) {
            let [found, expected] = [found, expected].map(|bytes| bits_of(param.dtype, bytes));
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!(
                    distance(param.dtype, *found, *expected) == 0,
                    "{seed}: `{}[{index}]` is {found:#x}, expected {expected:#x}\n{}",
                    param.name,
                    random.function
                );
            }
        }
    }
}

/// A random function, and a launch of it.
struct Random {
    function: Function,
    buffers: Vec<Vec<u8>>,
    words: Vec<u64>,
}

/// Writes random statements.
struct Writer {
    state: u64,
}

/// What statements use.
#[derive(Clone)]
struct Scope<'k> {
    known: Vec<Val<'k>>,
    reads: Vec<MemoryRef<'k>>,
    writes: Vec<MemoryRef<'k>>,
    sums: Vec<MemoryRef<'k>>,
    vars: Vec<Var<'k>>,
    locals: Vec<MemoryRef<'k>>,
    /// The axes of the thread, the thread in its cube, and in the launch.
    axes: [Val<'k>; 3],
    threads: i64,
    me: Val<'k>,
    own: Val<'k>,
    depth: usize,
    loops: usize,
}

impl Writer {
    fn new(seed: u64) -> Self {
        Self {
            state: seed.wrapping_mul(0xd129_0d3a_7f4a_7c15),
        }
    }

    /// SplitMix64.
    fn draw(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.draw(all.len() as u64) as usize]
    }

    fn write(mut self) -> Random {
        let shape = self.one_of(&SHAPES);
        let count: u32 = shape.iter().product();
        let k = Builder::new("random", shape);
        let all = i64::from(count) * 2;
        let types: Vec<DType> = (0..3).map(|_| self.one_of(&DType::ALL)).collect();
        let adds = [DType::I32, DType::U64, DType::U32, DType::I64];
        let mut buffers = Vec::new();
        let mut buffer = |dtype: DType, len: i64, seed: u64| {
            buffers.push(elements(dtype, len as usize, seed, true));
        };
        let named = |name: &str, nth: usize| format!("{name}{nth}");
        let indexed = || types.iter().copied().enumerate();
        let reads = indexed().map(|(nth, of)| k.read(named("r", nth), of));
        let reads: Vec<_> = reads.collect();
        indexed().for_each(|(nth, of)| buffer(of, READ_LEN + 8 * all, nth as u64 + self.state));
        let writes: Vec<_> = indexed()
            .map(|(nth, of)| k.update(named("w", nth), of))
            .collect();
        indexed().for_each(|(nth, of)| buffer(of, all * OWN_LEN, nth as u64 + 7));
        let sum = self.one_of(&adds);
        let sums = vec![k.update("sums", sum)];
        buffer(sum, SUMS_LEN, 3);
        let word = k.scalar("word", DType::I64);
        let other = k.scalar("other", types[0]);
        let [x, y, z] = Axis::ALL.map(|axis| k.position(Position::Thread, axis));
        let [width, height, _] = shape.map(i64::from);
        let me = x + (y + z * height) * width;
        let own = me + k.cube() * i64::from(count);
        // Rows and columns of threads of one axis.
        let by = self.one_of(&[4, 8, 10]);
        let mut known = vec![word, other, me, own, k.cube(), x, k.constant(5)];
        known.extend([me % by, me / by]);
        known.extend(types.iter().map(|of| k.bits(*of, 1)));
        let vars = types.iter().enumerate();
        let vars = vars.map(|(nth, of)| k.var(named("v", nth), k.bits(*of, 0)));
        let scope = Scope {
            known,
            vars: vars.collect(),
            locals: indexed()
                .map(|(nth, of)| k.local(named("l", nth), of, LOCAL_LEN as u32))
                .collect(),
            reads,
            writes,
            sums,
            axes: [x, y, z],
            threads: count.into(),
            me,
            own,
            depth: 0,
            loops: 0,
        };
        let words = vec![self.draw(9), scalar::of_word(types[0], self.draw(200))];
        // Threads exchange values at the outermost level, where all of them meet.
        let shared: Vec<_> = types.iter().map(|of| k.shared("s", *of, count)).collect();
        let meets = self.draw(2) == 0;
        let mut scope = scope;
        for _ in 0..3 {
            self.block(&k, &mut scope, STATEMENTS / 3, !meets);
            if meets {
                self.meet(&k, &mut scope, &shared, count);
            }
        }
        for (nth, var) in scope.vars.iter().enumerate() {
            scope.writes[nth].set(own * OWN_LEN, var.get());
        }
        drop((scope, shared));
        let function = k.build();
        Random {
            function: function.unwrap_or_else(|error| panic!("{error}")),
            buffers,
            words,
        }
    }

    /// Exchanges values among threads.
    fn meet<'k>(
        &mut self,
        k: &'k Builder,
        scope: &mut Scope<'k>,
        shared: &[MemoryRef<'k>],
        count: u32,
    ) {
        let nth = self.draw(3) as usize;
        let value = self.of_type(k, scope, Type::one(shared[nth].dtype()));
        shared[nth].set(scope.me, value);
        k.barrier();
        let at = match self.draw(4) {
            0 => -scope.me + i64::from(count - 1),
            2 => scope.axes[1],
            1 => k.constant(0),
            _ => self.index(k, scope, count.into(), 1),
        };
        scope.known.push(shared[nth].get(at));
        k.barrier();
        let value = self.pick(scope, |of| of.lanes == 1 && of.dtype.computed() == of.dtype);
        let dtype = value.of().dtype;
        let ops: &[ReduceOp] = match dtype.is_float() || dtype == DType::Bool {
            true => &[ReduceOp::Min, ReduceOp::Max],
            false => &[ReduceOp::Min, ReduceOp::Max, ReduceOp::Sum, ReduceOp::Prod],
        };
        let reduced = value.reduce(self.one_of(ops));
        scope.known.push(plain(reduced));
    }

    fn pick<'k>(&mut self, scope: &Scope<'k>, fits: impl Fn(Type) -> bool) -> Val<'k> {
        let fitting: Vec<Val<'k>> = scope
            .known
            .iter()
            .copied()
            .filter(|value| fits(value.of()))
            .collect();
        self.one_of(&fitting)
    }

    /// Returns a value of a type: a known one, or a cast.
    fn of_type<'k>(&mut self, k: &'k Builder, scope: &Scope<'k>, of: Type) -> Val<'k> {
        if scope.known.iter().any(|value| value.of() == of) && self.draw(3) != 0 {
            return self.pick(scope, |found| found == of);
        }
        if scope.known.iter().any(|value| value.of().lanes == of.lanes) {
            return self
                .pick(scope, |found| found.lanes == of.lanes)
                .cast(of.dtype);
        }
        let lanes: Vec<Val<'k>> = (0..of.lanes)
            .map(|_| self.pick(scope, |found| found.lanes == 1).cast(of.dtype))
            .collect();
        match self.draw(2) {
            0 => lanes[0].splat(of.lanes),
            _ => k.pack(&lanes),
        }
    }

    /// Returns an index below `len`, a multiple of `lanes`: the same for all threads, of neighbours, at a distance, or any.
    fn index<'k>(&mut self, k: &'k Builder, scope: &Scope<'k>, len: i64, lanes: i64) -> Val<'k> {
        let whole = len / lanes;
        let value = match self.draw(5) {
            0 => k.constant(self.draw(whole as u64) as i64),
            1 => scope.me + self.draw(3) as i64,
            2 => scope.me * 3 + 1,
            3 => self.pick(scope, |of| of == Type::one(DType::I64)),
            _ => self.pick(scope, |of| of.lanes == 1).cast(DType::I64),
        };
        // Without the sign: the remainder of `i64::MIN` would be negative.
        let value = value.binary(BinaryOp::And, i64::MAX) % whole;
        value * lanes
    }

    /// Returns an affine index, whose product with 4 is in bounds of every buffer that is read.
    fn affine<'k>(&mut self, scope: &Scope<'k>) -> Val<'k> {
        let [x, y, z] = scope.axes;
        match self.draw(7) {
            0 => scope.own,
            1 => scope.own + self.draw(16) as i64,
            2 => scope.own * 2,
            3 => -scope.me + scope.threads,
            4 => x + y * 3 + z * 2,
            5 => x * 2 + y,
            _ => y + 1,
        }
    }

    fn condition<'k>(&mut self, k: &'k Builder, scope: &Scope<'k>) -> Val<'k> {
        let op = self.one_of(&CompareOp::ALL);
        let variables = scope.vars.iter().map(|var| var.get());
        let mut flags = variables.filter(|value| value.of() == Type::one(DType::Bool));
        match self.draw(5) {
            0 => scope.me.compare(op, self.draw(20) as i64),
            // The block may store to it.
            4 if let Some(flag) = flags.next() => flag,
            1 => scope.known[0].compare(op, self.draw(9) as i64),
            2 => self.of_type(k, scope, Type::one(DType::Bool)),
            _ => {
                let a = self.pick(scope, |of| of.lanes == 1);
                let b = self.of_type(k, scope, a.of());
                a.compare(op, b)
            }
        }
    }

    /// `leaves`: whether threads may return before others.
    fn block<'k>(&mut self, k: &'k Builder, scope: &mut Scope<'k>, count: u64, leaves: bool) {
        for _ in 0..count {
            match self.draw(12) {
                0..5 => {
                    let made = self.compute(k, scope);
                    scope.known.push(made);
                }
                5 => self.load(k, scope),
                6 => self.store(k, scope),
                7 | 8 => {
                    let var = self.draw(3) as usize;
                    let of = scope.vars[var].get().of();
                    let value = self.of_type(k, scope, of);
                    scope.vars[var].set(value);
                    scope.known.push(scope.vars[self.draw(3) as usize].get());
                }
                9 if scope.depth < DEPTH_MAX => self.branch(k, scope, leaves),
                10 if scope.depth < DEPTH_MAX => self.repeat(k, scope, leaves),
                11 if scope.depth > 0 && self.draw(3) == 0 => match self.draw(3) {
                    0 if scope.loops > 0 => k.break_(),
                    1 if scope.loops > 0 => k.continue_(),
                    _ if leaves => k.return_(),
                    _ => {}
                },
                _ => {}
            }
        }
    }

    fn compute<'k>(&mut self, k: &'k Builder, scope: &Scope<'k>) -> Val<'k> {
        let a = self.pick(scope, |_| true);
        let (of, dtype) = (a.of(), a.of().dtype);
        match self.draw(9) {
            0 => {
                let exact = |op: &UnaryOp| op.takes(dtype) && op.units() == 0;
                let ops: Vec<UnaryOp> = UnaryOp::ALL.into_iter().filter(exact).collect();
                match ops.is_empty() {
                    true => a,
                    false => a.unary(self.one_of(&ops)),
                }
            }
            1..4 => {
                let exact = |op: &BinaryOp| op.takes(dtype) && op.units() == 0;
                let ops: Vec<BinaryOp> = BinaryOp::ALL.into_iter().filter(exact).collect();
                match ops.is_empty() {
                    true => a,
                    false => {
                        let b = self.of_type(k, scope, of);
                        plain(a.binary(self.one_of(&ops), b))
                    }
                }
            }
            4 => {
                let b = self.of_type(k, scope, of);
                a.compare(self.one_of(&CompareOp::ALL), b)
            }
            5 => {
                let b = self.of_type(k, scope, of);
                let condition = self.of_type(k, scope, of.with(DType::Bool));
                condition.select(a, b)
            }
            6 => a.cast(self.one_of(&DType::ALL)),
            7 if dtype == DType::F32 || dtype == DType::F64 => {
                let [b, c] = [(); 2].map(|()| self.of_type(k, scope, of));
                a.fma(b, c)
            }
            7 if of.lanes > 1 => a.lane(self.draw(of.lanes.into()) as u8),
            7 => {
                let seed = self.of_type(k, scope, of.with(DType::U64));
                let counter = self.of_type(k, scope, of.with(DType::I64));
                k.random(seed, counter)
            }
            // Not of floats, whose NaNs have any bits.
            _ if !dtype.is_float() && dtype != DType::Bool => {
                let fits = |to: &DType| to.size() == dtype.size() && *to != DType::Bool;
                let types: Vec<DType> = DType::ALL.into_iter().filter(fits).collect();
                a.bits(self.one_of(&types))
            }
            _ => {
                let lanes = self.one_of(&[2, 4]);
                self.of_type(k, scope, Type { dtype, lanes })
            }
        }
    }

    /// Returns the lanes of an access to elements of a type.
    fn lanes(&mut self, dtype: DType) -> u8 {
        match dtype.size() {
            8 => self.one_of(&[1, 1, 2]),
            _ => self.one_of(&[1, 1, 2, 4]),
        }
    }

    fn load<'k>(&mut self, k: &'k Builder, scope: &mut Scope<'k>) {
        let nth = self.draw(3) as usize;
        let lanes = self.lanes(scope.reads[nth].dtype());
        let made = match self.draw(6) {
            0 => {
                let at = self.index(k, scope, OWN_LEN, lanes.into());
                scope.writes[nth].get_wide(scope.own * OWN_LEN + at, lanes)
            }
            2 => {
                let at = self.index(k, scope, LOCAL_LEN, lanes.into());
                scope.locals[nth].get_wide(at, lanes)
            }
            1 => {
                let at = self.index(k, scope, READ_LEN, lanes.into());
                scope.reads[nth].get_wide(at, lanes)
            }
            _ => {
                let at = self.affine(scope) * i64::from(lanes);
                scope.reads[nth].get_wide(at, lanes)
            }
        };
        scope.known.push(made);
    }

    fn store<'k>(&mut self, k: &'k Builder, scope: &Scope<'k>) {
        let nth = self.draw(3) as usize;
        let dtype = scope.writes[nth].dtype();
        let lanes = self.lanes(dtype);
        let value = self.of_type(k, scope, Type { dtype, lanes });
        match self.draw(5) {
            0 => {
                let value = self.of_type(k, scope, Type::one(scope.sums[0].dtype()));
                scope.sums[0].add(self.index(k, scope, SUMS_LEN, 1), value);
            }
            1 => {
                let at = self.index(k, scope, LOCAL_LEN, lanes.into());
                scope.locals[nth].set(at, value);
            }
            2 => scope.writes[nth].set(scope.own * OWN_LEN + i64::from(lanes), value),
            _ => {
                let at = self.index(k, scope, OWN_LEN, lanes.into());
                scope.writes[nth].set(scope.own * OWN_LEN + at, value);
            }
        }
    }

    fn branch<'k>(&mut self, k: &'k Builder, scope: &Scope<'k>, leaves: bool) {
        let condition = self.condition(k, scope);
        let inner = Scope {
            depth: scope.depth + 1,
            ..scope.clone()
        };
        let (then, otherwise) = (1 + self.draw(4), self.draw(3));
        let writer = RefCell::new(self);
        let block = |count| {
            writer
                .borrow_mut()
                .block(k, &mut inner.clone(), count, leaves);
        };
        k.either(condition, || block(then), || block(otherwise));
    }

    fn repeat<'k>(&mut self, k: &'k Builder, scope: &Scope<'k>, leaves: bool) {
        let mut inner = Scope {
            depth: scope.depth + 1,
            loops: scope.loops + 1,
            ..scope.clone()
        };
        let count = 1 + self.draw(4);
        let (end, step) = (self.draw(5) as i64, 1 + self.draw(3) as i64);
        match self.draw(4) {
            0 => k.unrolled(3, |i| {
                inner.known.push(i);
                self.block(k, &mut inner, count, leaves);
            }),
            // The index is affine.
            1 => k.range(scope.me, scope.known[0] * 5, step * 7, |i| {
                inner.known.push(i);
                self.block(k, &mut inner, count, leaves);
            }),
            2 => {
                let start = self.pick(scope, |of| of == Type::one(DType::I64)) % 4;
                k.range(start, end, step, |i| {
                    inner.known.push(i);
                    self.block(k, &mut inner, count, leaves);
                });
            }
            _ => {
                let turns = k.var("turns", scope.me % 3 + end);
                k.loop_(|| {
                    turns.set(turns.get() - 1);
                    k.when(turns.get().lt(0), || k.break_());
                    self.block(k, &mut inner, count, leaves);
                });
            }
        }
    }
}

/// Makes the two zeros of floats one: the minimum and the maximum of both are either.
fn plain(value: Val<'_>) -> Val<'_> {
    match value.of().dtype.is_float() {
        true => value + 0.0_f64 as f32,
        false => value,
    }
}
