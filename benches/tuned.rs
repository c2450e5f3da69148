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
        "product 64 x 4096 x 1024",
        [&[64, 1024], &[1024, 4096]],
        product,
    );
    rows.row(
        "product 200 x 2048 x 512",
        [&[200, 512], &[512, 2048]],
        product,
    );
    rows.row(
        "product 1 x 4096 x 4096",
        [&[1, 4096], &[4096, 4096]],
        product,
    );
    rows.row("product 2048 x 64 x 64", [&[2048, 64], &[64, 64]], product);
    rows.row(
        "product 8192 x 64 x 1024",
        [&[8192, 1024], &[1024, 64]],
        product,
    );
    rows.row(
        "product 512 x 512 x 8192",
        [&[512, 8192], &[8192, 512]],
        product,
    );
    rows.row(
        "layer 64 x 2048 x 2048, relu",
        [&[64, 2048], &[2048, 2048]],
        |[a, b]| a.matmul(&b).relu(),
    );
    rows.row("sum of rows, 4096 x 1024", [&[4096, 1024]], |[x]| x.sum(1));
    rows.row("sum of columns, 4096 x 1024", [&[4096, 1024]], |[x]| {
        x.sum(0)
    });
    rows.row("sum of columns, 100000 x 24", [&[100_000, 24]], |[x]| {
        x.sum(0)
    });
    rows.row("mean of columns, 20000 x 100", [&[20_000, 100]], |[x]| {
        x.mean(0)
    });
    rows.row("greatest of columns, 50000 x 64", [&[50_000, 64]], |[x]| {
        x.max(0)
    });
    rows.row("sum of short rows, 400000 x 6", [&[400_000, 6]], |[x]| {
        x.sum(1)
    });
    rows.row("mean of middles, 64 x 512 x 48", [&[64, 512, 48]], |[x]| {
        x.mean(1)
    });
    rows.row("softmax, 1024 x 1024", [&[1024, 1024]], |[x]| x.softmax(-1));
    rows.row("softmax, 65536 x 20", [&[65_536, 20]], |[x]| x.softmax(-1));
    rows.row("softmax of columns, 512 x 2048", [&[512, 2048]], |[x]| {
        x.softmax(0)
    });
    rows.row("softmax, 4 x 400000", [&[4, 400_000]], |[x]| x.softmax(-1));
    rows.row(
        "exp(a b + c), 1 M",
        [&[1 << 20], &[1 << 20], &[1 << 20]],
        |[a, b, c]| (&a * &b + &c).exp(),
    );
    rows.row("gelu, 1 M", [&[1 << 20]], |[x]| {
        let inner = (&x + &(&(&(&x * &x) * &x) * 0.044_715_f32)) * 0.797_884_6_f32;
        &(&x * 0.5_f32) * &(inner.tanh() + 1.0_f32)
    });
    rows.row("a + b, 4 M", [&[1 << 22], &[1 << 22]], |[a, b]| &a + &b);
    for row in &rows.rows {
        if program.wants(row.name) {
            row.measure(&client, &stream, &mut program);
        }
    }
    program.report().unwrap();
}
