//! Times rows of our graphs, one sample at a time: `rows.py` writes the name of a row to standard input, and reads the
//! seconds per run.
//!
//! `rows.py` also defines each row, for the peers. Both sides use the same formula for inputs; only their kind affects
//! the times (indices are in range, and scattered).

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

use millstream::graph::{CompiledSchedule, Graph, LazyBuffer, Schedule};
use millstream::{ComputeClient, Cpu, Device, Stream};

type Fault = Box<dyn Error>;

/// The target time of a sample, in seconds, unless that takes more than `MOST_RUNS` runs.
const SAMPLE: f64 = 0.03;
const MOST_RUNS: f64 = 2000.0;

/// The inputs of a row.
struct Inputs<'a> {
    graph: Graph,
    stream: &'a Stream,
}

impl Inputs<'_> {
    fn floats(&self, shape: &[usize]) -> Result<LazyBuffer, Fault> {
        let number = |index: usize| ((index * 7919) % 2003) as f32 / 1000.0 - 1.0;
        let data: Vec<f32> = (0..shape.iter().product()).map(number).collect();
        Ok(self
            .graph
            .buffer(&self.stream.create(&data)?, shape.to_vec()))
    }

    fn indices(&self, len: usize, below: usize) -> Result<LazyBuffer, Fault> {
        let index = |index: usize| ((index * 1_000_003) % below) as i64;
        let data: Vec<i64> = (0..len).map(index).collect();
        Ok(self.graph.buffer(&self.stream.create(&data)?, [len]))
    }

    fn integers(&self, shape: &[usize]) -> Result<LazyBuffer, Fault> {
        let data: Vec<i32> = (0..shape.iter().product())
            .map(|index: usize| (index % 201) as i32 - 100)
            .collect();
        Ok(self
            .graph
            .buffer(&self.stream.create(&data)?, shape.to_vec()))
    }
}

/// Returns the graph of a row.
fn row(name: &str, inputs: &Inputs<'_>) -> Result<LazyBuffer, Fault> {
    const M: usize = 1 << 20;
    let f = |shape: &[usize]| inputs.floats(shape);
    let line = |len: usize| inputs.floats(&[len]);
    Ok(match name {
        "fused_1k" => (line(1000)? * line(1000)? + line(1000)?).exp(),
        "take_made" => {
            let index = (inputs.graph.iota(512) * 1003) % 10_000;
            f(&[10_000, 768])?.take(0, &index)
        }
        "take_bound" => f(&[10_000, 768])?.take(0, &inputs.indices(512, 10_000)?),
        "roll" => line(M)?.roll(0, 1000),
        "transpose" => f(&[2048, 2048])?.t(),
        "decode" => f(&[4, 4096])?.matmul_t(&f(&[4096, 4096])?),
        "argmax" => f(&[1024, 1024])?.argmax(-1),
        "matmul_i32" => {
            let x = |shape: &[usize]| inputs.integers(shape);
            x(&[512, 512])?.matmul(&x(&[512, 512])?)
        }
        "sum_columns" => f(&[2048, 2048])?.sum(0),
        "mlp" => {
            let mut x = f(&[64, 784])?;
            for (of, to, last) in [(784, 512, false), (512, 512, false), (512, 10, true)] {
                x = x.matmul(&f(&[of, to])?) + line(to)?;
                x = if last { x } else { x.relu() };
            }
            x
        }
        "pow" => (line(M)?.abs() + 0.1).pow(line(M)?),
        "softmax_0" => f(&[1024, 1024])?.softmax(0),
        "layer_norm" => f(&[1024, 1024])?.normalize(-1, 1e-5) * line(1024)? + line(1024)?,
        "scatter_add" => line(M)?.scatter_add(0, &inputs.indices(M, M)?, &line(M)?),
        "softmax" => f(&[1024, 1024])?.softmax(-1),
        "sum" => line(16 * M)?.sum(0),
        "chain" => (0..50).fold(line(1000)?, |x, _| x * 0.99 + 0.01),
        "attention" => {
            let [q, k, v] = [f(&[8, 512, 64])?, f(&[8, 512, 64])?, f(&[8, 512, 64])?];
            (q.matmul_t(&k) * 0.125).softmax(-1).matmul(&v)
        }
        "matmul" => f(&[1024, 1024])?.matmul(&f(&[1024, 1024])?),
        _ => return Err(format!("no row is named `{name}`").into()),
    })
}

/// Takes a sample of `runs` runs, and returns the mean seconds per run.
fn sample(compiled: &CompiledSchedule, stream: &Stream, runs: usize) -> Result<f64, Fault> {
    let start = Instant::now();
    for _ in 0..runs {
        let _outputs = compiled.run().submit(stream)?;
        stream.sync().wait()?;
    }
    Ok(start.elapsed().as_secs_f64() / runs as f64)
}

fn compiled(
    name: &str,
    client: &ComputeClient,
    stream: &Stream,
) -> Result<(CompiledSchedule, usize), Fault> {
    let inputs = Inputs {
        graph: Graph::new(),
        stream,
    };
    let compiled = Schedule::create_one(&row(name, &inputs)?)?.compile(client)?;
    sample(&compiled, stream, 3)?;
    let one = sample(&compiled, stream, 3)?;
    Ok((compiled, (SAMPLE / one).clamp(3.0, MOST_RUNS) as usize))
}

fn main() -> Result<(), Fault> {
    let threads = std::env::args().nth(1).map_or(Ok(1), |n| n.parse())?;
    let device = Device::open(Cpu::default().queues(1).threads(threads))?;
    let (client, stream) = (device.new_client(), device.new_client().new_stream());
    let mut rows = HashMap::new();
    for name in std::io::stdin().lock().lines() {
        let name = name?;
        if !rows.contains_key(&name) {
            rows.clear();
            rows.insert(name.clone(), compiled(&name, &client, &stream)?);
        }
        let (compiled, runs) = &rows[&name];
        println!("{}", sample(compiled, &stream, *runs)?);
        std::io::stdout().flush()?;
    }
    Ok(())
}
