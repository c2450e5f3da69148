//! The crate `ug`: lazy buffers, whose kernels are generated as C and compiled by `gcc -O3 -march=native -ffast-math`.

use ug::cache::CompilationCache;
use ug::lang::{BinaryOp, ReduceOp, UnaryOp};
use ug::schedule::CompiledSchedule;
use ug::{CpuDevice, LazyBuffer, Schedule, Slice};

use crate::contenders::{Contender, Fault, Job, Offer, What};
use crate::work::{EPSILON, GELU_CUBE, GELU_SCALE, Input, WIDTHS, Work};

type Buffer = LazyBuffer<CpuDevice>;

pub(crate) struct Ug;

impl Contender for Ug {
    fn name(&self) -> &'static str {
        "ug"
    }

    fn job<'a>(&'a self, work: Work, what: What, inputs: &'a [Input]) -> Offer<'a> {
        // Reductions of `ug` keep their length: each element is the total.
        if matches!(work, Work::Sum(_)) {
            return Ok(None);
        }
        let copied = |input: &Input| Buffer::copy(&input.numbers[..], &input.shape[..], &CpuDevice);
        let inputs: Vec<Buffer> = inputs.iter().map(copied).collect::<Result<_, _>>()?;
        if what != What::Run {
            let known = CompilationCache::default();
            let (again, last) = (what == What::CompileAgain, None);
            return Ok(Some(Box::new(Compile {
                work,
                inputs,
                known,
                again,
                last,
            })));
        }
        let root = written(work, &inputs)?;
        let schedule = Schedule::create_one(&root)?.compile()?;
        Ok(Some(Box::new(Run { root, schedule })))
    }
}

/// Returns a work as a graph.
fn written(work: Work, x: &[Buffer]) -> Result<Buffer, ug::Error> {
    use BinaryOp::{Add, Div, Max, Min, Mul, Sub};
    let full = |value: f32, like: &Buffer| Buffer::cst(value, like.shape().clone(), &CpuDevice);
    match work {
        Work::Exp(_) => x[0]
            .binary(Mul, x[1].clone())?
            .binary(Add, x[2].clone())?
            .unary(UnaryOp::Exp),
        Work::Ten(_) => {
            let [a, b, c] = [&x[0], &x[1], &x[2]];
            let sum = a.binary(Mul, b.clone())?.binary(Add, c.clone())?;
            let half = sum.binary(Mul, full(0.5, a)?)?.binary(Sub, a.clone())?;
            let held = half
                .binary(Max, full(-4.0, a)?)?
                .binary(Min, full(4.0, a)?)?;
            let power = held.unary(UnaryOp::Exp)?.binary(Mul, b.clone())?;
            power.binary(Add, c.clone())?.binary(Mul, a.clone())
        }
        Work::Gelu(_) => {
            let x = &x[0];
            let square = x.binary(Mul, x.clone())?;
            let cube = square
                .binary(Mul, x.clone())?
                .binary(Mul, full(GELU_CUBE, x)?)?;
            let power = cube
                .binary(Add, x.clone())?
                .binary(Mul, full(-GELU_SCALE, x)?)?;
            let below = power.unary(UnaryOp::Exp)?.binary(Add, full(1.0, x)?)?;
            x.binary(Div, below)
        }
        Work::Sum(_) => x[0].reduce(ReduceOp::Sum, 0),
        Work::Softmax(_) => {
            let powers = x[0]
                .binary(Sub, over_rows(&x[0], ReduceOp::Max)?)?
                .unary(UnaryOp::Exp)?;
            powers.binary(Div, over_rows(&powers, ReduceOp::Sum)?)
        }
        Work::Norm(side) => {
            // The variance is computed from the mean of squares. Relative to the mean, `ug` would nest its loops once
            // more.
            let (share, x, gain, shift) = (1.0 / side as f32, &x[0], &x[1], &x[2]);
            let mean = over_rows(x, ReduceOp::Sum)?.binary(Mul, full(share, x)?)?;
            let squares = over_rows(&x.binary(Mul, x.clone())?, ReduceOp::Sum)?;
            let squares = squares.binary(Mul, full(share, x)?)?;
            let variance = squares.binary(Sub, mean.binary(Mul, mean.clone())?)?;
            let deviation = variance
                .binary(Add, full(EPSILON, x)?)?
                .unary(UnaryOp::Sqrt)?;
            let normal = x.binary(Sub, mean)?.binary(Div, deviation)?;
            let gained = normal.binary(Mul, gain.broadcast((side, side))?)?;
            gained.binary(Add, shift.broadcast((side, side))?)
        }
        Work::Product(_) => x[0].matmul(x[1].clone()),
        Work::Layers => {
            let mut from = x[0].clone();
            for layer in 0..WIDTHS.len() - 1 {
                let product = from.matmul(x[1 + 2 * layer].clone())?;
                let bias = x[2 + 2 * layer].broadcast(product.shape().clone())?;
                from = product.binary(Add, bias)?;
                if layer < 2 {
                    from = from.binary(Max, full(0.0, &product)?)?;
                }
            }
            Ok(from)
        }
    }
}

/// Reduces rows, and broadcasts the result over them. Without the broadcast `ug` lowers it with another shape.
fn over_rows(x: &Buffer, op: ReduceOp) -> Result<Buffer, ug::Error> {
    x.reduce(op, 1)?.broadcast(x.shape().clone())
}

struct Run {
    root: Buffer,
    schedule: CompiledSchedule<CpuDevice>,
}

impl Job for Run {
    fn run(&mut self) -> Result<(), Fault> {
        Ok(self.schedule.run()?)
    }

    fn output(&mut self) -> Result<Option<Vec<f32>>, Fault> {
        let data = self.root.data().try_borrow()?;
        Ok(data.as_ref().map(Slice::to_vec).transpose()?)
    }
}

struct Compile {
    work: Work,
    inputs: Vec<Buffer>,
    known: CompilationCache<CpuDevice>,
    again: bool,
    last: Option<Run>,
}

impl Job for Compile {
    fn run(&mut self) -> Result<(), Fault> {
        if !self.again {
            self.known = CompilationCache::default();
        }
        let root = written(self.work, &self.inputs)?;
        let schedule = Schedule::create_one(&root)?.compile_with_cache(&mut self.known)?;
        self.last = Some(Run { root, schedule });
        Ok(())
    }

    fn output(&mut self) -> Result<Option<Vec<f32>>, Fault> {
        match &mut self.last {
            Some(last) => {
                last.run()?;
                last.output()
            }
            None => Ok(None),
        }
    }
}

/// Builds, schedules and drops a chain of N operations, and returns the seconds of each of the three.
pub(crate) fn chain(nodes: usize) -> Result<[f64; 3], Fault> {
    let start = std::time::Instant::now();
    let mut last = Buffer::copy(&[1.0_f32; 4][..], 4, &CpuDevice)?;
    for _ in 0..nodes {
        last = last.unary(UnaryOp::Exp)?;
    }
    let written = start.elapsed();
    let schedule = Schedule::create_one(&last)?;
    let scheduled = start.elapsed();
    drop((schedule, last));
    let dropped = start.elapsed();
    Ok([written, scheduled - written, dropped - scheduled].map(|time| time.as_secs_f64()))
}
