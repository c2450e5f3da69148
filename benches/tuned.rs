//! Compares graphs with the default blockings and with the tuner's choices: `cargo bench --bench tuned [-- ROW] [--json=FILE]`.
//!
//! Each row is tuned, and then run in rounds, the default (`usual`) and the tuned schedule in turn, so that other load
//! affects both. The tuner's own samples do
//! not show the gain: they chose the winner, so they overestimate it.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a bench has no users, and panics on an unexpected error"
)]

use std::sync::Arc;
use std::time::Instant;

use millstream::graph::{
    CompiledSchedule, DType, Graph, GraphCache, GraphTuner, LazyBuffer, Schedule,
};
use millstream::{ComputeClient, Cpu, Device, Error, Handle, Stream};
use millstream_harness::{Program, Turn, ns_each, take_turns};

/// A row of the table: its inputs, and the root that is computed from them.
struct Row {
    name: &'static str,
    inputs: Vec<(LazyBuffer, Handle<f32>)>,
    root: LazyBuffer,
}

/// Builds rows, and uploads their inputs on a stream.
struct Rows<'a> {
    stream: &'a Stream,
    rows: Vec<Row>,
}

impl Rows<'_> {
    fn row<const N: usize>(
        &mut self,
        name: &'static str,
        shapes: [&[usize]; N],
        make: impl FnOnce([LazyBuffer; N]) -> LazyBuffer,
    ) {
        let graph = Graph::new();
        let mut inputs = Vec::new();
        let lazy = shapes.map(|shape| {
            let number = |index: usize| ((index * 7919) % 2003) as f32 / 1000.0 - 1.0;
            let data: Vec<f32> = (0..shape.iter().product()).map(number).collect();
            let lazy = graph.input(format!("x{}", inputs.len()), DType::F32, shape.to_vec());
            let handle = self.stream.create(&data).unwrap();
            inputs.push((lazy.clone(), handle));
            lazy
        });
        let root = make(lazy);
        self.rows.push(Row { name, inputs, root });
    }
}

const ROUNDS: usize = 41;

impl Row {
    /// Runs a schedule once, and returns the milliseconds.
    fn run(&self, compiled: &CompiledSchedule, stream: &Stream) -> Result<f64, Error> {
        let start = Instant::now();
        let run = self
            .inputs
            .iter()
            .fold(compiled.run(), |run, (lazy, handle)| {
                run.input(lazy, handle)
            });
        let _outs = run.submit(stream).unwrap();
        stream.sync().wait()?;
        Ok(ns_each(start, 1) / 1e6)
    }

    fn measure(&self, client: &ComputeClient, stream: &Stream, program: &mut Program) {
        let usual = Schedule::create_one(&self.root).unwrap();
        let cache = Arc::new(GraphCache::default().tuned_by(GraphTuner::new()));
        let tuned = Schedule::create_tuned(&[&self.root], client, &cache).unwrap();
        let known = tuned.tune(client, &cache).unwrap();
        let items = [&usual, &tuned].map(|schedule| schedule.items().len());
        let usual = usual.compile(client).unwrap();
        let tuned = tuned.compile_with_cache(client, &cache).unwrap();
        let sides = [&tuned, &usual];
        let sample = |turn: Turn| self.run(sides[turn.index], stream);
        let samples = take_turns(2, 0..=ROUNDS, sample).unwrap();
        program.row(self.name, "ms", samples);
        if items[0] != items[1] {
            println!("    {} items, usual {}", items[1], items[0]);
        }
        for item in known {
            println!("    {item}");
        }
    }
}

fn main() {
    let mut program = Program::new("cargo bench --bench tuned --", &["tuned", "usual"]);
    let device = Device::open(Cpu::default()).unwrap();
    let client = device.new_client();
    let stream = client.new_stream();
    let mut rows = Rows {
        stream: &stream,
        rows: Vec::new(),
    };
    let product = |[a, b]: [LazyBuffer; 2]| a.matmul(&b);
    rows.row(
        "product 1024 x 1024 x 1024",
        [&[1024, 1024], &[1024, 1024]],
        product,
    );
    rows.row(
        "product 1 x 4096 x 4096",
        [&[1, 4096], &[4096, 4096]],
        product,
    );
    rows.row("sum of columns, 100000 x 24", [&[100_000, 24]], |[x]| {
        x.sum(0)
    });
    rows.row("softmax of columns, 512 x 2048", [&[512, 2048]], |[x]| {
        x.softmax(0)
    });
    rows.row(
        "exp(a b + c), 1 M",
        [&[1 << 20], &[1 << 20], &[1 << 20]],
        |[a, b, c]| (&a * &b + &c).exp(),
    );
    for row in &rows.rows {
        if program.wants(row.name) {
            row.measure(&client, &stream, &mut program);
        }
    }
    program.report().unwrap();
}
