//! A seed determines the run; undefined memory; virtual time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use millstream_client::arguments::{CubeCount, update, write};
use millstream_ir::ssa::Builder;
use millstream_ir::{DType, Program};
use millstream_protocol::{DeviceOptions, Kernel, MemoryOptions, QueueId};
use millstream_sim::{CostModel, Figures, Sim, Violation};

use crate::rig::{Rig, add_one, program};

fn run(seed: u64) -> (Vec<u32>, Figures) {
    let rig = Rig::new(Sim::seed(seed));
    let answer = program(&rig.device).unwrap();
    let findings = rig.close();
    findings.assert_clean();
    (answer, findings.figures())
}

/// Also through the actors: everything between a call and its answer repeats.
#[test]
fn same_seed_gives_the_same_run() {
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

#[test]
fn different_seeds_give_different_orders_and_equal_results() {
    let runs: Vec<_> = (0..20).map(run).collect();
    assert!(runs.iter().all(|(answer, _)| *answer == runs[0].0));
    let orders: BTreeSet<u64> = runs
        .iter()
        .map(|(_, figures)| figures.fingerprint)
        .collect();
    assert_eq!(orders.len(), runs.len());
    assert!(
        runs.iter()
            .all(|(_, figures)| figures.waits.issued > 0 && figures.waits.implied == 0)
    );
}

/// I7: a declared write heals, so a program that does not store every element is reported, whatever the elements
/// held.
#[test]
fn program_that_does_not_store_every_element_is_reported() {
    for (threads, stored) in [(64_u32, 64_u64), (64, 63), (64, 0)] {
        let k = Builder::new("ramp", [threads, 1, 1]);
        let (x, y) = (k.update("x", DType::U32), k.write("y", DType::U32));
        let n = k.scalar("n", DType::I64);
        k.range(k.index(), n, k.count(), |i| {
            y.set(i, x.get(i));
            x.set(i, x.get(i) + 1_u32);
        });
        let program = Arc::new(Program::Ssa(k.build().unwrap()));
        let rig = Rig::new(Sim::seed(3));
        let client = rig.device.new_client();
        let stream = client.new_stream();
        let kernel = Kernel::from_program("ramp", program).unwrap();
        let kernel = client.kernel(kernel).unwrap();
        // The input is the check's fill pattern, which must count as data like any other value.
        let x = stream.create(&[0xA5A5_A5A5_u32; 64]).unwrap();
        let y = stream.empty::<u32>(64).unwrap();
        let bindings = [update(x.as_bytes()), write(y.as_bytes())];
        stream
            .launch_words(&kernel, CubeCount::single(), &bindings, &[stored])
            .unwrap();
        let (x, y) = (
            stream.read(&x).wait().unwrap(),
            stream.read(&y).wait().unwrap(),
        );
        for at in 0..stored as usize {
            assert_eq!((x[at], y[at]), (0xA5A5_A5A6, 0xA5A5_A5A5));
        }
        let findings = rig.close();
        let found = findings.violations();
        if stored == 64 {
            assert_eq!(found, []);
            continue;
        }
        let [Violation::Unwritten { task, bytes }] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(&*task.task, "ramp");
        assert_eq!(bytes.range.end - bytes.range.start, 4 * (64 - stored));
    }
}

/// I4, with every slice in a page of its own.
#[test]
fn isolated_slices_compute_the_same() {
    let memory = MemoryOptions::default().isolate(true);
    let rig = Rig::with(Sim::seed(5), DeviceOptions::default().memory(memory));
    assert_eq!(program(&rig.device).unwrap(), run(5).0);
    rig.close().assert_clean();
}

/// I4: a range is freed while its last uses are queued, and another queue uses it next.
#[test]
fn range_is_reused_by_another_queue_in_order() {
    let mut waits = 0;
    for seed in 0..10 {
        let rig = Rig::with(
            Sim::seed(seed),
            DeviceOptions::default().mailbox_capacity(4),
        );
        let client = rig.device.new_client();
        let (owner, other) = (client.new_stream(), client.new_stream());
        let mut answers = Vec::new();
        for round in 0..60_u32 {
            drop(owner.create(&[round; 64]).unwrap());
            let fresh = owner.empty::<u32>(64).unwrap();
            other.fill(&fresh, round).unwrap();
            answers.push(other.read(&fresh));
        }
        for (round, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.wait().unwrap(), [round as u32; 64]);
        }
        drop((owner, other));
        let findings = rig.close();
        findings.assert_clean();
        waits += findings.figures().waits.issued;
    }
    assert!(
        waits > 0,
        "some range was reused before its uses had passed"
    );
}

#[test]
fn undefined_bytes_read_as_a_pattern() {
    let rig = Rig::new(Sim::seed(1));
    let stream = rig.device.new_client().new_stream();
    let fresh = stream.empty::<u8>(100).unwrap();
    assert_eq!(
        stream.read(&fresh).wait().unwrap(),
        [0xC7; 100],
        "a fresh slice"
    );
    rig.close().assert_clean();
}

/// A kernel that declares `Write` and leaves bytes out cannot observe the old bytes.
#[test]
fn bytes_that_a_write_leaves_out_are_random() {
    let mut seen = BTreeSet::new();
    for seed in 0..8 {
        let rig = Rig::new(Sim::seed(seed));
        let client = rig.device.new_client();
        let lazy = Kernel::new("lazy")
            .writes::<u8>("out")
            .native(|_cube, args| {
                args.chunk::<u8>(0)[0] = 1;
            });
        let lazy = client.kernel(lazy).unwrap();
        let stream = client.new_stream();
        let out = stream.create(&[7_u8; 4]).unwrap();
        stream
            .launch(&lazy, CubeCount::single(), (write(&out),))
            .unwrap();
        let bytes = stream.read(&out).wait().unwrap();
        assert_eq!(bytes[0], 1);
        seen.insert(bytes[3]);
    }
    assert!(seen.len() > 2, "{seen:?}");
}

#[test]
fn held_queue_runs_nothing_until_it_is_released() {
    let sim = Sim::seed(3).queues(1);
    let holds = sim.holds();
    let mut rig = Rig::new(sim);
    let client = rig.device.new_client();
    let (stream, add_one) = (client.new_stream(), add_one(&client).unwrap());
    holds.hold(QueueId(0));
    let values = stream.create(&[1_u32]).unwrap();
    stream
        .launch(&add_one, CubeCount::single(), (update(&values),))
        .unwrap();
    let mut answer = stream.read(&values);
    while rig.driver.pump(Duration::ZERO) {}
    assert!(answer.try_take().is_none());
    assert_eq!(rig.findings.figures().tasks, 0);
    holds.release(QueueId(0));
    while rig.driver.pump(Duration::ZERO) {}
    assert_eq!(answer.try_take().unwrap().unwrap(), [2]);
    drop((values, stream));
    rig.close().assert_clean();
}

/// Two queues take half the time of one, and a slow queue takes longer.
#[test]
fn virtual_time_compares_schedules() {
    let took_ns = |sim: Sim| {
        let mut cost = CostModel::default();
        (cost.launch_ns, cost.cube_ns) = (100_000, 0);
        let rig = Rig::new(sim.cost(cost));
        let client = rig.device.new_client();
        let (add_one, streams) = (
            add_one(&client).unwrap(),
            [client.new_stream(), client.new_stream()],
        );
        let buffers = streams
            .each_ref()
            .map(|stream| stream.create(&[0_u32]).unwrap());
        for _ in 0..20 {
            for (stream, buffer) in streams.iter().zip(&buffers) {
                stream
                    .launch(&add_one, CubeCount::single(), (update(buffer),))
                    .unwrap();
            }
        }
        rig.device.sync().wait().unwrap();
        rig.findings.virtual_ns()
    };
    let one = took_ns(Sim::seed(1).queues(1));
    let two = took_ns(Sim::seed(1).queues(2));
    let slow = took_ns(Sim::seed(1).queues(2).slow(QueueId(1), 4));
    assert!(one > 40 * 100_000 && one < 45 * 100_000, "{one}");
    assert!(two > 20 * 100_000 && two < 25 * 100_000, "{two}");
    assert!(slow > 80 * 100_000, "{slow}");
}
