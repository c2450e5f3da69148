//! Collectives on the devices of one process, beside `memcpy` of the bytes that they must move:
//! `cargo bench -p millstream-cluster`.
//!
//! Each row times a call with the wait for its result, in turn with copies between plain vectors that read and write as
//! many bytes together as the call must. All memory was touched before.
#![allow(clippy::unwrap_used, reason = "a bench that cannot run has no result")]

use std::hint::black_box;
use std::time::Instant;

use millstream::{Cpu, Device, Handle};
use millstream_cluster::{Fleet, Group, Reduction};
use millstream_harness::{Table, median};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const ROUNDS: usize = 15;

fn main() {
    let mut table = Table::new(
        ["call", "KiB copied beside", "call us", "memcpy us", "ratio"],
        1..5,
    );
    for members in [2, 4] {
        let fleet = Fleet::new((0..members).map(|_| Device::open(Cpu::default()).unwrap()));
        let fleet = fleet.unwrap();
        for bytes in [64 * KIB, MIB, 64 * MIB] {
            let rows = Rows::new(&fleet, bytes);
            for (name, moved, call) in rows.calls() {
                let (ours, theirs) = beside_memcpy(&fleet, moved, bytes, call);
                table.row([
                    format!("{name}, {members} devices, {} KiB each", bytes / KIB),
                    format!("{}", moved / KIB),
                    format!("{ours:.1}"),
                    format!("{theirs:.1}"),
                    format!("{:.2}", ours / theirs),
                ]);
            }
        }
    }
    println!("{}", table.text());
}

/// The buffers of one size, and the calls on them.
struct Rows<'a> {
    fleet: &'a Fleet,
    group: Group,
    whole: Vec<Handle<f32>>,
    parts: Vec<Handle<f32>>,
}

/// A call: its name, half of the bytes that it must read and write, and itself.
type Row<'a> = (&'static str, usize, Box<dyn Fn() + 'a>);

impl<'a> Rows<'a> {
    fn new(fleet: &'a Fleet, bytes: usize) -> Self {
        let group = fleet.group();
        let create = |len: usize| -> Vec<Handle<f32>> {
            let streams = (0..group.len()).map(|member| group.stream(member));
            streams
                .map(|stream| stream.create(&vec![1.0; len]).unwrap())
                .collect()
        };
        let len = bytes / size_of::<f32>();
        Self {
            fleet,
            whole: create(len),
            parts: create(len / group.len()),
            group,
        }
    }

    fn calls(&self) -> [Row<'_>; 5] {
        let (whole, parts) = (&self.whole, &self.parts);
        let bytes = whole[0].size() as usize;
        let (all, each): (Vec<&Handle<f32>>, Vec<&Handle<f32>>) =
            (whole.iter().collect(), parts.iter().collect());
        let group = &self.group;
        let members = group.len();
        [
            (
                "copy",
                bytes,
                Box::new(|| self.fleet.copy(&whole[0], &whole[1]).unwrap()),
            ),
            ("broadcast", bytes * members / 2, {
                let all = all.clone();
                Box::new(move || group.broadcast(0, &all).unwrap())
            }),
            ("all_gather", bytes * (members + 1) / 2, {
                let (all, each) = (all.clone(), each.clone());
                Box::new(move || group.all_gather(&each, &all).unwrap())
            }),
            ("reduce_scatter", bytes * (members + 1) / 2, {
                let all = all.clone();
                Box::new(move || group.reduce_scatter(Reduction::Sum, &all, &each).unwrap())
            }),
            ("all_reduce", bytes * members, {
                Box::new(move || group.all_reduce(Reduction::Max, &all).unwrap())
            }),
        ]
    }
}

/// Returns the median microseconds of the call with its wait, and of copies of `moved` bytes in pieces of `bytes`.
fn beside_memcpy(
    fleet: &Fleet,
    moved: usize,
    bytes: usize,
    call: Box<dyn Fn() + '_>,
) -> (f64, f64) {
    let lengths = (0..moved)
        .step_by(bytes)
        .map(|start| bytes.min(moved - start));
    let sources: Vec<Vec<u8>> = lengths.map(|len| vec![1; len]).collect();
    let mut targets: Vec<Vec<u8>> = sources.iter().map(|source| vec![2; source.len()]).collect();
    let repeats = (8 * MIB / moved).max(1);
    let mut sample = |which: usize| -> f64 {
        let start = Instant::now();
        for _ in 0..repeats {
            match which {
                0 => {
                    call();
                    for device in fleet.devices() {
                        device.sync().wait().unwrap();
                    }
                }
                _ => {
                    for (source, target) in sources.iter().zip(&mut targets) {
                        black_box(target).copy_from_slice(black_box(source));
                    }
                }
            }
        }
        start.elapsed().as_secs_f64() * 1e6 / repeats as f64
    };
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (which, samples) in samples.iter_mut().enumerate() {
            samples.push(sample(which));
        }
    }
    (median(&samples[0]), median(&samples[1]))
}
