//! Bytes arrive: copies, cubes and dynamic counts.

use millstream_cpu::Cpu;
use millstream_protocol::{Access, Backend, BoundCount, Kernel};
use proptest::prelude::*;

use crate::rig::{Prepared, Q0, Rig, Slice};

fn indices(rig: &Rig) -> Prepared {
    let kernel = Kernel::new("indices")
        .updates::<u32>("out")
        .native(|_, args| {
            let start = args.chunk_start(0) as u32;
            for (index, value) in args.chunk::<u32>(0).iter_mut().enumerate() {
                *value += start + index as u32;
            }
        });
    rig.prepare(kernel)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn each_cube_of_a_launch_runs_exactly_once(len in 1_u32..5000, cubes in 1_u32..3000, threads in 1_usize..5) {
        let mut rig = Rig::new(Cpu::default().queues(1).threads(threads));
        let out = rig.slice_of(&vec![0; len as usize]);
        let kernel = indices(&rig);
        // Several times: the kernel's cost is unknown first, and known later.
        for _ in 0..3 {
            rig.launch(Q0, &kernel, cubes, &[out.update()], &[]);
        }
        let expected: Vec<u32> = (0..len).map(|index| 3 * index).collect();
        prop_assert_eq!(rig.read(Q0, &out).unwrap(), expected);
    }
}

#[test]
fn cubes_more_expensive_than_expected_are_shared_midway() {
    let mut rig = Rig::new(Cpu::default().queues(1).threads(3));
    let out = rig.slice_of(&[0; 64]);
    let kernel = rig.prepare(
        Kernel::new("work")
            .scalar::<u64>("rounds")
            .updates::<u32>("out")
            .native(|_, args| {
                let mut value = 1_u64;
                for round in 0..args.scalar::<u64>(0) {
                    value = std::hint::black_box(value.wrapping_mul(31) ^ round);
                }
                args.chunk::<u32>(0)[0] += 1 + (value == 0) as u32;
            }),
    );
    for rounds in [1, 1, 1, 50_000, 50_000, 1] {
        rig.launch(Q0, &kernel, 64, &[out.update()], &[rounds]);
    }
    assert_eq!(rig.read(Q0, &out).unwrap(), [6; 64]);
}

#[test]
fn dynamic_count_is_read_when_the_launch_starts() {
    let mut rig = Rig::new(Cpu::default().queues(1));
    let (count, out) = (rig.slice_of(&[0; 3]), rig.slice_of(&[0]));
    let kernel = rig.prepare(
        Kernel::new("count")
            .updates_atomically::<u32>("out")
            .native(|cube, args| {
                assert_eq!(cube.counts(), [3, 2, 2]);
                args.atomics::<u32>(0)[0].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }),
    );
    rig.copy_in(Q0, &count.write(), &[3, 2, 2]);
    let dynamic = BoundCount::Dynamic(count.read());
    rig.try_launch(Q0, &kernel, dynamic, &[out.update()], &[])
        .unwrap();
    assert_eq!(rig.read(Q0, &out).unwrap(), [12]);
    let short = BoundCount::Dynamic(count.part(0, 8, Access::Read));
    assert!(
        rig.try_launch(Q0, &kernel, short, &[out.update()], &[])
            .is_err()
    );
}

#[test]
fn copy_with_unequal_lengths_fails_and_touches_nothing() {
    let mut rig = Rig::new(Cpu::default().queues(1));
    let (slice, other) = (rig.slice_of(&[1; 4]), rig.slice_of(&[2; 4]));
    rig.copy_in(Q0, &slice.part(0, 8, Access::Write), &[7; 3]);
    let failure = rig.read(Q0, &slice).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "`copy in` (of `create` or `write`) failed: the device refused it, expected 8 bytes on the host, got 12"
    );
    let (point, landing) = rig.copy_out(Q0, &slice.part(8, 8, Access::Read));
    rig.wait(point).unwrap();
    assert_eq!(landing.take().unwrap(), [1, 1]);
    let name = "copy".into();
    let place = millstream_protocol::TaskPoint {
        queue: Q0,
        cursor: 1000,
        name: &name,
    };
    assert!(
        rig.device
            .copy(place, &slice.part(0, 4, Access::Read), &other.write())
            .is_err()
    );
    assert!(
        rig.device
            .copy(
                place,
                &slice.part(12, 8, Access::Read),
                &other.part(0, 8, Access::Write)
            )
            .is_err()
    );
}

#[test]
fn more_bindings_and_scalars_than_fit_inline_arrive() {
    const BINDINGS: usize = 20;
    let mut rig = Rig::new(Cpu::default().queues(1));
    let mut kernel = Kernel::new("many");
    for _ in 0..BINDINGS {
        kernel = kernel.updates::<u32>("slice").scalar::<u64>("added");
    }
    let kernel = rig.prepare(kernel.native(|_, args| {
        for index in 0..BINDINGS {
            args.chunk::<u32>(index)[0] += args.scalar::<u64>(index) as u32;
        }
    }));
    let slices: Vec<_> = (0..BINDINGS as u32)
        .map(|index| rig.slice_of(&[index]))
        .collect();
    let bindings: Vec<_> = slices.iter().map(Slice::update).collect();
    let scalars: Vec<u64> = (100..100 + BINDINGS as u64).collect();
    let count = rig.slice_of(&[1, 1, 1]);
    rig.try_launch(
        Q0,
        &kernel,
        BoundCount::Dynamic(count.read()),
        &bindings,
        &scalars,
    )
    .unwrap();
    for (index, slice) in slices.iter().enumerate() {
        assert_eq!(rig.read(Q0, slice).unwrap(), [100 + 2 * index as u32]);
    }
    assert!(
        rig.try_launch(
            Q0,
            &kernel,
            BoundCount::Static([1; 3]),
            &bindings[1..],
            &scalars
        )
        .is_err()
    );
    assert!(
        rig.try_launch(
            Q0,
            &kernel,
            BoundCount::Static([1; 3]),
            &bindings,
            &scalars[1..]
        )
        .is_err()
    );
}
