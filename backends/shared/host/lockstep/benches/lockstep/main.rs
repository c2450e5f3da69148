//! Functions of threads compared with the same loops in plain Rust, in one run, on one thread and on two:
//! `cargo bench -p millstream-lockstep --bench lockstep [-- ROW]`.
//!
//! Each row is measured in rounds, the two alternating, so that other load on the machine affects both. The output has
//! medians and, in brackets, minima.

#![allow(missing_docs, reason = "a bench has no users")]

mod functions;
mod hand;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use functions::Row;
use millstream_ir::Program;
use millstream_lockstep::Columns;
use millstream_protocol::{Cube, Kernel, NativeArgs, NativeView};

/// Cubes that a thread takes at once.
const BLOCK: u64 = 16;
const ROUNDS: usize = 9;
/// The least milliseconds of a measurement.
const MS_MIN: f64 = 5.0;

/// The memory of a launch.
struct Launch<'a> {
    columns: &'a Columns,
    kernel: &'a Kernel,
    views: &'a [NativeView],
    words: &'a [u64],
    counts: [u32; 3],
}

// SAFETY: the memory of views is accessed as `NativeArgs` allows, which cubes may do concurrently.
unsafe impl Sync for Launch<'_> {}

impl Launch<'_> {
    fn run(&self, cubes: Range<u64>) {
        let cube = Cube::new(cubes.start, self.counts);
        let signature = self.kernel.signature();
        // SAFETY: the buffers live, are aligned, and nothing else touches them; each cube runs once in a launch.
        let arguments = unsafe { NativeArgs::new(signature, self.views, self.words, &[], cube) };
        self.columns.run(cubes, self.counts, &arguments);
    }
}

/// Shares pieces among threads, some at once.
fn share(threads: usize, pieces: u64, block: u64, work: &(dyn Fn(Range<u64>) + Sync)) {
    if threads == 1 {
        return work(0..pieces);
    }
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    // Only distinct numbers; the end of the scope orders all accesses.
                    let start = next.fetch_add(block, Ordering::Relaxed);
                    if start >= pieces {
                        return;
                    }
                    work(start..pieces.min(start + block));
                }
            });
        }
    });
}

fn measure(row: &Row, threads: usize) {
    let columns = Columns::new(&row.function).expect("the function is valid");
    let program = Arc::new(Program::Ssa(row.function.clone()));
    let kernel = Kernel::from_program("measured", program).expect("the function is valid");
    let mut memory = row.buffers.clone();
    let views: Vec<NativeView> = memory
        .iter_mut()
        .map(|buffer| NativeView {
            pointer: buffer.as_mut_ptr().cast(),
            bytes: 4 * buffer.len() as u64,
        })
        .collect();
    let launch = Launch {
        columns: &columns,
        kernel: &kernel,
        views: &views,
        words: &row.words,
        counts: row.cubes,
    };
    let cubes = row.cubes.iter().map(|count| u64::from(*count)).product();
    let mut by_hand = row.buffers.clone();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut run_ours = || {
        share(threads, cubes, BLOCK, &|cubes| launch.run(cubes));
    };
    let mut run_theirs = || {
        let parts = hand::Parts::new(&mut by_hand);
        share(threads, row.pieces, 1, &|pieces| {
            pieces.for_each(|piece| (row.hand)(&parts, piece, row.pieces));
        });
    };
    let timed = |run: &mut dyn FnMut(), times: u32| {
        let start = Instant::now();
        (0..times).for_each(|_| run());
        start.elapsed().as_secs_f64() * 1e3 / f64::from(times)
    };
    let first = timed(&mut run_ours, 1);
    run_theirs();
    let times = (MS_MIN / first) as u32 + 1;
    for _ in 0..ROUNDS {
        ours.push(timed(&mut run_ours, times));
        theirs.push(timed(&mut run_theirs, times));
    }
    row.assert_close(&memory, &by_hand);
    ours.sort_by(f64::total_cmp);
    theirs.sort_by(f64::total_cmp);
    let ms = |all: &[f64]| format!("{:9.3} ({:9.3})", all[all.len() / 2], all[0]);
    let name = row.name;
    let ratio = ours[ours.len() / 2] / theirs[theirs.len() / 2];
    println!(
        "{name:32} {threads} threads: ours {} ms   plain Rust {} ms   ratio {ratio:.2} ({:.2})",
        ms(&ours),
        ms(&theirs),
        ours[0] / theirs[0]
    );
}

fn main() {
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    for (name, row) in functions::ROWS {
        if filter.as_ref().is_none_or(|filter| name.contains(filter)) {
            let row = row(name);
            [1, 2]
                .into_iter()
                .for_each(|threads| measure(&row, threads));
        }
    }
}
