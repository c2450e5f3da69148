#![allow(missing_docs, clippy::unwrap_used)]
#[path = "../tests/rig/mod.rs"]
mod rig;
use millstream_core::backend::*;
use millstream_core::kernel::Kernel;
use millstream_cpu::Cpu;
use rig::*;
use std::time::Instant;
fn main() {
    let s = Instant::now();
    for _ in 0..1_000_000 {
        std::hint::black_box(Instant::now());
    }
    println!("clock {:.1} ns", s.elapsed().as_nanos() as f64 / 1e6);

    let reps: usize = std::env::args().nth(2).map_or(200, |a| a.parse().unwrap());
    let threads = std::env::args().nth(1).map_or(2, |a| a.parse().unwrap());
    let mut rig = Rig::new(Cpu::default().queues(2).threads(threads));
    let nop0 = rig.prepare(Kernel::new("nop").native(|_, _| ()));
    let nop3 = rig.prepare(
        Kernel::new("nop3")
            .reads::<f32>("a")
            .reads::<f32>("b")
            .writes::<f32>("c")
            .scalar::<u64>("0")
            .scalar::<u64>("1")
            .scalar::<u64>("2")
            .scalar::<u64>("3")
            .scalar::<u64>("4")
            .scalar::<u64>("5")
            .scalar::<u64>("6")
            .scalar::<u64>("7")
            .native(|_, _| ()),
    );
    let slices: Vec<_> = (0..3).map(|_| rig.slice(4096)).collect();
    let b3 = [slices[0].read(), slices[1].read(), slices[2].write()];
    for (name, k, b, s) in [
        ("0 args", &nop0, &b3[..0], &[][..]),
        ("3 bindings 8 words", &nop3, &b3[..], &[7u64; 8][..]),
    ] {
        let mut best = (f64::MAX, f64::MAX);
        let mut all = Vec::new();
        let mut cur = rig.completed(Q0);
        for _ in 0..reps {
            const N: u32 = 400;
            let start = Instant::now();
            let mut last = millstream_core::id::Point::new(Q0, cur + 1);
            rig.device.mark(Q0, last.cursor);
            for _ in 0..N {
                let p = millstream_core::id::Point::new(Q0, last.cursor + 1);
                let launch = Launch {
                    name: k.kernel.name(),
                    kernel: &k.code,
                    count: BoundCount::Static([1, 1, 1]),
                    bindings: b,
                    scalars: s,
                    metadata: &[],
                    tensor_maps: &[],
                };
                rig.device.launch(Q0, p.cursor, &launch).unwrap();
                last = p;
            }
            let t = start.elapsed().as_nanos() as f64 / N as f64;
            rig.wait(last).unwrap();
            let u = start.elapsed().as_nanos() as f64 / N as f64;
            cur = last.cursor;
            best = (best.0.min(t), best.1.min(u));
            all.push((t, u));
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        println!(
            "{name}: issue best {:.1} median {:.1} ns; end to end best {:.1} ns median {:.1}",
            best.0,
            all[all.len() / 2].0,
            best.1,
            all[all.len() / 2].1
        );
    }
    // driven: issue only, then pump
    let mut d = Rig::driven();
    let k = d.prepare(Kernel::new("nop").native(|_, _| ()));
    let mut t_issue = 0.0;
    let mut t_run = 0.0;
    let mut cc = 0;
    for _ in 0..reps {
        let s = Instant::now();
        for _ in 0..400 {
            cc += 1;
            let p = millstream_core::id::Point::new(Q0, cc);
            d.device
                .launch(
                    Q0,
                    p.cursor,
                    &Launch {
                        name: k.kernel.name(),
                        kernel: &k.code,
                        count: BoundCount::Static([1, 1, 1]),
                        bindings: &[],
                        scalars: &[],
                        metadata: &[],
                        tensor_maps: &[],
                    },
                )
                .unwrap();
        }
        t_issue += s.elapsed().as_nanos() as f64;
        let s = Instant::now();
        while d.device.pump(std::time::Duration::from_secs(1)) {}
        t_run += s.elapsed().as_nanos() as f64;
    }
    println!(
        "driven: issue {:.1} ns, run {:.1} ns",
        t_issue / 80000.0,
        t_run / 80000.0
    );
    let at = rig.completed(Q0);
    while rig.next(Q0).cursor < at {}
    if reps > 200 {
        return;
    }
    // memory bound
    for n in [1usize << 10, 1 << 14, 1 << 16, 1 << 20, 1 << 24] {
        let (a, b, c) = (
            rig.slice(4 * n as u64),
            rig.slice(4 * n as u64),
            rig.slice(4 * n as u64),
        );
        let add = rig.prepare(
            Kernel::new("add")
                .reads::<f32>("a")
                .reads::<f32>("b")
                .writes::<f32>("c")
                .native(|_, args| {
                    let start = args.chunk_start(2);
                    let out = args.chunk::<f32>(2);
                    let (a, b) = (
                        &args.read::<f32>(0)[start..start + out.len()],
                        &args.read::<f32>(1)[start..start + out.len()],
                    );
                    for i in 0..out.len() {
                        out[i] = a[i] + b[i];
                    }
                }),
        );
        let cubes = n.div_ceil(4096) as u32;
        let bindings = [a.read(), b.read(), c.write()];
        let mut times = Vec::new();
        for _ in 0..(1 << 27) / n / 16 + 5 {
            let s = Instant::now();
            let p = rig.launch(Q0, &add, cubes, &bindings, &[]);
            rig.wait(p).unwrap();
            times.push(s.elapsed().as_nanos() as f64);
            if times.len() > 3000 {
                break;
            }
        }
        times.sort_by(f64::total_cmp);
        println!(
            "add {n}: median {:.1} us, best {:.1}",
            times[times.len() / 2] / 1e3,
            times[0] / 1e3
        );
    }
}
