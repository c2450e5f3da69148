//! millstream: lazy graphs on a CPU device with one queue, whose worker computes alone unless more threads are
//! requested.
//!
//! Inputs and the output are bound once. A run is one message; waiting is a sync after it.

use std::time::Instant;

use millstream::graph::{CompiledSchedule, DType, Graph, GraphCache, LazyBuffer, Schedule};
use millstream::{ComputeClient, Cpu, Device, Handle, Stream};

use crate::contenders::{Contender, Fault, Job, Offer, What};
use crate::work::{EPSILON, Input, WIDTHS, Work};

pub(crate) struct Ours {
    /// Held because dropping it closes the device.
    _device: Device,
    client: ComputeClient,
}

impl Ours {
    /// Opens a device for all works, on which `threads` threads compute.
    pub(crate) fn open(threads: usize) -> Result<Self, Fault> {
        let device = Device::open(Cpu::default().queues(1).threads(threads))?;
        let client = device.new_client();
        Ok(Self {
            _device: device,
            client,
        })
    }
}

impl Contender for Ours {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn job<'a>(&'a self, work: Work, what: What, inputs: &'a [Input]) -> Offer<'a> {
        let stream = self.client.new_stream();
        let put = |input: &Input| stream.create(&input.numbers);
        let handles: Vec<Handle<f32>> = inputs.iter().map(put).collect::<Result<_, _>>()?;
        let out = stream.empty::<f32>(work.output().iter().product())?;
        if what == What::Run {
            let root = written(work, inputs, &handles);
            let compiled = Schedule::create_one(&root)?.compile(&self.client)?;
            return Ok(Some(Box::new(Run {
                compiled,
                stream,
                out,
            })));
        }
        let known = (what == What::CompileAgain).then(GraphCache::default);
        let (client, last) = (&self.client, None);
        let compile = Compile {
            work,
            inputs,
            handles,
            client,
            stream,
            out,
            known,
            last,
        };
        Ok(Some(Box::new(compile)))
    }
}

/// Returns a work as a new graph.
fn written(work: Work, inputs: &[Input], handles: &[Handle<f32>]) -> LazyBuffer {
    let graph = Graph::new();
    let all = inputs.iter().zip(handles);
    let buffer =
        |(input, handle): (&Input, &Handle<f32>)| graph.buffer(handle, input.shape.clone());
    let x: Vec<LazyBuffer> = all.map(buffer).collect();
    match work {
        Work::Exp(_) => (&x[0] * &x[1] + &x[2]).exp(),
        Work::Ten(_) => {
            let [a, b, c] = [&x[0], &x[1], &x[2]];
            let held = ((a * b + c) * 0.5 - a).maximum(-4.0).minimum(4.0);
            (held.exp() * b + c) * a
        }
        Work::Gelu(_) => x[0].gelu_tanh(),
        Work::Sum(_) => x[0].sum(0),
        Work::Softmax(_) => x[0].softmax(-1),
        Work::Norm(_) => x[0].normalize(-1, f64::from(EPSILON)) * &x[1] + &x[2],
        Work::Product(_) => x[0].matmul(&x[1]),
        Work::Layers => {
            let layer = |from: &LazyBuffer, layer: usize| {
                from.matmul(&x[1 + 2 * layer]) + &x[2 + 2 * layer]
            };
            let last = WIDTHS.len() - 2;
            let hidden = (0..last).fold(x[0].clone(), |from, index| layer(&from, index).relu());
            layer(&hidden, last)
        }
    }
}

struct Run {
    compiled: CompiledSchedule,
    stream: Stream,
    out: Handle<f32>,
}

impl Job for Run {
    fn run(&mut self) -> Result<(), Fault> {
        self.compiled
            .run()
            .output(0, &self.out)
            .submit(&self.stream)?;
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Fault> {
        Ok(self.stream.sync().wait()?)
    }

    fn output(&mut self) -> Result<Option<Vec<f32>>, Fault> {
        Ok(Some(self.stream.read(&self.out).wait()?))
    }
}

struct Compile<'a> {
    work: Work,
    inputs: &'a [Input],
    handles: Vec<Handle<f32>>,
    client: &'a ComputeClient,
    stream: Stream,
    out: Handle<f32>,
    known: Option<GraphCache>,
    last: Option<CompiledSchedule>,
}

impl Job for Compile<'_> {
    fn run(&mut self) -> Result<(), Fault> {
        let root = written(self.work, self.inputs, &self.handles);
        let schedule = Schedule::create_one(&root)?;
        let compiled = match &self.known {
            Some(known) => schedule.compile_with_cache(self.client, known)?,
            None => schedule.compile(self.client)?,
        };
        self.last = Some(compiled);
        Ok(())
    }

    fn output(&mut self) -> Result<Option<Vec<f32>>, Fault> {
        if let Some(compiled) = &self.last {
            compiled.run().output(0, &self.out).submit(&self.stream)?;
        }
        Ok(Some(self.stream.read(&self.out).wait()?))
    }
}

/// The form of a graph whose scheduling is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// One operation after the other.
    Chain,
    /// Each operation has the two before it as operands.
    Ladder,
    /// Blocks of matrix product, bias, rectifier and softmax, one after the other.
    Blocks,
}

/// Builds, schedules and drops a graph of about `nodes` operations, and returns the seconds of each of the three.
pub(crate) fn schedule(form: Form, nodes: usize) -> Result<[f64; 3], Fault> {
    let start = Instant::now();
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [8, 8]);
    let mut last = x.clone();
    match form {
        Form::Chain => {
            for _ in 0..nodes {
                last = last.exp();
            }
        }
        Form::Ladder => {
            let mut before = x;
            for _ in 0..nodes {
                (before, last) = (last.clone(), last + before);
            }
        }
        Form::Blocks => {
            // Eight operations: product, sum, maximum, and the five of a softmax.
            for _ in 0..nodes / 8 {
                last = (last.matmul(&x) + &x).relu().softmax(-1);
            }
        }
    }
    let written = start.elapsed();
    let schedule = Schedule::create_one(&last)?;
    let scheduled = start.elapsed();
    drop((schedule, last, graph));
    let dropped = start.elapsed();
    Ok([written, scheduled - written, dropped - scheduled].map(|time| time.as_secs_f64()))
}
