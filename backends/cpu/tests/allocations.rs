//! Launches of prepared kernels allocate nothing in the steady state, on either side (I9).
//!
//! Alone in its binary, because the allocator counts for the whole process.

#[path = "rig/mod.rs"]
mod rig;

use millstream_cpu::Cpu;
use millstream_heap_count::{Counting, allocations, frees};
use millstream_protocol::{BoundCount, Kernel};
use rig::{Q0, Q1, Rig, SOFTMAX, Slice};

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn launch_in_the_steady_state_neither_allocates_nor_frees() {
    let mut rig = Rig::new(Cpu::default().queues(2).threads(3));
    let slices: Vec<_> = (0..8).map(|_| rig.slice_of(&[0; 256])).collect();
    let count = rig.slice_of(&[4, 1, 1]);
    let mut kernel = Kernel::new("eight");
    for _ in 0..8 {
        kernel = kernel
            .updates::<u32>("slice")
            .scalar::<u64>("a")
            .scalar::<u64>("b");
    }
    let kernel = rig.prepare(kernel.native(|_, args| {
        for index in 0..8 {
            args.chunk::<u32>(index)
                .iter_mut()
                .for_each(|value| *value = value.wrapping_add(1));
        }
    }));
    let nest = rig.nest(SOFTMAX);
    let nest_bindings = [slices[0].read(), slices[1].write()];
    let bindings: Vec<_> = slices.iter().map(Slice::update).collect();
    let mut round = |launches: u32| {
        let mut last = rig.launch(Q0, &kernel, 1, &bindings, &[7; 16]);
        for launch in 0..launches {
            // Small launches, large ones that the team shares, dynamic ones, and waits between queues.
            let cubes = if launch % 10 == 0 { 64 } else { 1 };
            let queue = if launch % 7 == 0 { Q1 } else { Q0 };
            if queue != last.queue {
                millstream_protocol::Backend::queue_wait(&mut rig.device, queue, last).unwrap();
            }
            last = rig.launch(queue, &kernel, cubes, &bindings, &[7; 16]);
            let dynamic = BoundCount::Dynamic(count.read());
            last = rig
                .try_launch(last.queue, &kernel, dynamic, &bindings, &[7; 16])
                .unwrap();
            last = rig.launch(last.queue, &nest, 1, &nest_bindings, &[16, 16, 16]);
            if launch % 100 == 0 {
                rig.wait(last).unwrap();
            }
        }
        rig.wait(last).unwrap();
    };
    round(1000);
    // Parking and waking may still allocate per thread: run another round before counting.
    round(1000);
    let before = (allocations(), frees());
    round(1000);
    assert_eq!((allocations(), frees()), before);
}
