//! The memory pools against an oracle that knows no classes, insides of pages or heaps: only bytes, their holders, and
//! the points that still use them.

mod oracle;

use millstream_protocol::{AllocationMode, MemoryOptions};
use oracle::{Oracle, QUEUES, Step};
use proptest::collection::vec;
use proptest::prelude::*;

fn bytes() -> impl Strategy<Value = u64> {
    // Few distinct sizes, so that ranges are reused; some sizes of every place; any size now and then.
    prop_oneof![
        6 => prop_oneof![Just(1), Just(256), Just(1000), Just(4096), Just(30_000)],
        4 => prop_oneof![Just(70_000), Just(100_000), Just(200_000)],
        2 => prop_oneof![Just(300_000), Just(310_000), Just(900_000)],
        2 => 1..1_500_000u64,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![
        8 => Just(AllocationMode::Automatic),
        2 => Just(AllocationMode::Persistent),
        1 => Just(AllocationMode::Dedicated),
    ];
    let queue = 0..QUEUES;
    prop_oneof![
        10 => (bytes(), mode, queue.clone()).prop_map(|(bytes, mode, queue)| Step::Reserve { bytes, mode, queue }),
        8 => (any::<usize>(), queue.clone()).prop_map(|(nth, queue)| Step::Use { nth, queue }),
        8 => any::<usize>().prop_map(|nth| Step::Release { nth }),
        4 => (queue.clone(), 1..6u64).prop_map(|(queue, tasks)| Step::Pass { queue, tasks }),
        1 => (queue.clone(), queue).prop_map(|(queue, other)| Step::Wait { queue, other }),
        1 => Just(Step::Trim),
        1 => Just(Step::Cleanup),
    ]
}

fn options() -> impl Strategy<Value = MemoryOptions> {
    let page_bytes = prop_oneof![
        Just(64 << 10),
        Just(1 << 20),
        Just((1 << 20) + 300),
        Just(4 << 20)
    ];
    let small_max = prop_oneof![Just(0), Just(1024), Just(32 << 10)];
    (page_bytes, small_max, prop::bool::weighted(0.1), 0..4usize).prop_map(
        |(page, small, isolate, cached)| {
            MemoryOptions::default()
                .page_bytes(page)
                .small_max(small)
                .isolate(isolate)
                .max_pages_cached(cached)
        },
    )
}

proptest! {
    /// I4: no byte is handed out while a point of it has neither passed nor is covered. The figures add up after every
    /// step. I10: nothing is left at the end.
    #[test]
    fn byte_is_handed_out_only_after_its_points_i4_i10(
        options in options(),
        limit in prop_oneof![Just(1u64 << 40), Just(8 << 20), Just(2_000_128), 300_000..3_000_000u64],
        steps in vec(step(), 1..200),
    ) {
        let mut oracle = Oracle::new(options, limit);
        for step in steps {
            oracle.step(step);
        }
        oracle.finish();
    }
}
