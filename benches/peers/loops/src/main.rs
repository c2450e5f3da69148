//! Kernels in Rust on the CPU beside the same loops with rayon, with as many threads:
//! `THREADS=2 cargo run --release --manifest-path benches/peers/loops/Cargo.toml [-- ROW] [--json=FILE]`.
//!
//! With `--features vulkan` and `DEVICE=vulkan` the kernels run on a Vulkan device, such as lavapipe (`.ci/vulkan-run` starts
//! a program with it).
//!
//! Each row compares both results. The loops are as one would write them with rayon: slices and iterators.

mod cubes;
mod plain;

use std::error::Error;
use std::time::Instant;

use millstream::{Cpu, Device, Element, Handle, Stream};
use millstream_algorithms::near;
use millstream_harness::{Program, alternate};

type Done = Result<(), Box<dyn Error>>;

const ROUNDS: usize = 9;

/// What the rows need.
struct Bench {
    stream: Stream,
    program: Program,
}

impl Bench {
    /// Times `ours`, which submits tasks, beside `theirs`, unless the row is not asked for.
    fn row(
        &mut self,
        name: &str,
        mut ours: impl FnMut(&Stream) -> Result<(), millstream::Error>,
        mut theirs: impl FnMut(),
    ) -> Done {
        if !self.program.wants(name) {
            return Ok(());
        }
        let milliseconds = |begun: Instant| begun.elapsed().as_secs_f64() * 1e3;
        let stream = &self.stream;
        let samples = alternate::<2, Box<dyn Error>>(
            ROUNDS,
            [
                &mut || {
                    let begun = Instant::now();
                    ours(stream)?;
                    stream.sync().wait()?;
                    Ok(milliseconds(begun))
                },
                &mut || {
                    let begun = Instant::now();
                    theirs();
                    Ok(milliseconds(begun))
                },
            ],
        )?;
        self.program.row(name, "ms", samples.into());
        Ok(())
    }

    /// Compares the results of the last row.
    fn same<T: Element + Into<f64>>(&self, name: &str, ours: &Handle<T>, theirs: &[T]) -> Done {
        if !self.program.wants(name) {
            return Ok(());
        }
        let floats = |it: &[T]| it.iter().map(|it| (*it).into() as f32).collect::<Vec<_>>();
        near(
            name,
            &floats(&self.stream.read(ours).wait()?),
            &floats(theirs),
            1e-3,
        )
    }
}

fn main() -> Done {
    let threads = std::env::var("THREADS").map_or(Ok(2), |it| it.parse())?;
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()?;
    let device = match std::env::var("DEVICE").as_deref() {
        #[cfg(feature = "vulkan")]
        Ok("vulkan") => Device::open(millstream::Vulkan::default())?,
        Ok(other) => return Err(format!("DEVICE={other}: not in this build").into()),
        Err(_) => Device::open(Cpu::default().threads(threads))?,
    };
    let command = "cargo run --release --manifest-path benches/peers/loops/Cargo.toml --";
    let mut bench = Bench {
        stream: device.new_stream(),
        program: Program::new(command, &["kernel", "rayon"]),
    };
    plain::rows(&mut bench)?;
    cubes::rows(&mut bench)?;
    bench.program.report()?;
    Ok(())
}
