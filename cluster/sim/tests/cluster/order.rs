//! The order of virtual time: between hosts that wait, devices, threads and links.

use millstream::sim::{Faults, KernelCost, Sim};
use millstream::{CubeCount, DeviceOptions, Handle, Kernel, Stream, update};
use millstream_cluster::Group;
use millstream_cluster_sim::{Machine, SimCluster};

use crate::{Rig, free_cost, round_machine};

/// The time of a launch of [`kernels`].
pub(crate) const KERNEL_NS: u64 = 50_000;
/// The time of a launch of the kernel `long`.
const LONG_NS: u64 = 1_000_000_000;

/// Devices whose launches take [`KERNEL_NS`], or [`LONG_NS`], and whose other tasks take no time.
pub(crate) fn kernels(rank: usize) -> Sim {
    let mut cost = free_cost();
    cost.launch_ns = KERNEL_NS;
    let long = KernelCost {
        launch_ns: LONG_NS,
        cube_ns: 0,
    };
    cost.kernels.insert("long".to_owned(), long);
    Sim::seed(rank as u64).cost(cost)
}

pub(crate) fn launch(stream: &Stream, value: &Handle<u8>) {
    launch_named("nothing", stream, value);
}

fn launch_long(stream: &Stream, value: &Handle<u8>) {
    launch_named("long", stream, value);
}

fn launch_named(name: &str, stream: &Stream, value: &Handle<u8>) {
    let kernel = Kernel::new(name).updates::<u8>("v").native(|_, _| {});
    let kernel = stream.client().kernel(kernel).unwrap();
    let launched = stream.launch(&kernel, CubeCount::single(), (update(value),));
    launched.unwrap();
}

/// A kernel and then a short transfer of what it wrote.
fn kernel_then_transfer(groups: &[Group], buffers: &[Handle<u8>]) {
    launch(groups[0].stream(0), &buffers[0]);
    groups[0].send(1, &buffers[0]).unwrap();
    groups[1].receive(0, &buffers[1]).unwrap();
}

/// What `kernel_then_transfer` takes with 500 bytes.
const BOTH_NS: u64 = KERNEL_NS + 1_000 + 10 + 200 + 500 + 10 + 1_000;

/// A device goes on at the time at which its message is there.
#[test]
fn a_kernel_begins_once_the_message_that_it_needs_is_there() {
    let mut rig = Rig::with(2, &round_machine(), kernels);
    let (groups, buffers) = rig.ranks(500);
    kernel_then_transfer(&groups, &buffers);
    launch_long(groups[1].stream(0), &buffers[1]);
    assert_eq!(rig.cluster.settle().unwrap(), BOTH_NS + LONG_NS);
}

/// A rank whose host waits for its own device: its message must not leave before the kernel that wrote it has ended.
#[test]
fn a_host_that_waits_for_its_device_sends_after_it() {
    let mut rig = Rig::with(2, &round_machine(), kernels);
    let (groups, buffers) = rig.ranks(500);
    kernel_then_transfer(&groups, &buffers);
    groups[0].stream(0).read(&buffers[0]).wait().unwrap();
    assert_eq!(rig.cluster.now_ns(), 0, "the other ranks have not run");
    assert_eq!(rig.cluster.settle().unwrap(), BOTH_NS);
}

/// Virtual time does not go back.
#[test]
fn time_does_not_go_back() {
    let mut rig = Rig::with(2, &round_machine(), kernels);
    let (groups, buffers) = rig.ranks(500);
    let other = groups[0].stream(0).create(&[1_u8; 4]).unwrap();
    groups[0].send(1, &buffers[0]).unwrap();
    groups[1].receive(0, &buffers[1]).unwrap();
    let stream = groups[0].stream(0).client().new_stream();
    launch(&stream, &other);
    stream.read(&other).wait().unwrap();
    let now_ns = rig.cluster.settle().unwrap();
    assert!(now_ns >= KERNEL_NS, "{now_ns} ns");
}

/// What is submitted before a `settle` is there at the time of the one before, however much it is: 3,000 launches of rank 0
/// do not delay the launch of rank 1.
#[test]
fn many_submissions_of_a_rank_do_not_delay_another() {
    let mut rig = Rig::with(2, &round_machine(), kernels);
    let (groups, buffers) = rig.ranks(4);
    assert_eq!(rig.cluster.settle().unwrap(), 0);
    for _ in 0..3_000 {
        launch(groups[0].stream(0), &buffers[0]);
    }
    launch_long(groups[1].stream(0), &buffers[1]);
    // 3,000 kernels of rank 0 take 0.15 s.
    assert_eq!(rig.cluster.settle().unwrap(), LONG_NS);
}

/// A message does not leave before the kernel that wrote it has ended, however much is submitted after both.
#[test]
fn a_message_does_not_leave_early_if_a_mailbox_is_full() {
    let mut rig = Rig::with(2, &round_machine(), kernels);
    let (groups, buffers) = rig.ranks(500);
    let busy = groups[0].stream(0).create(&[1_u8; 4]).unwrap();
    assert_eq!(rig.cluster.settle().unwrap(), 0);
    kernel_then_transfer(&groups, &buffers);
    launch_long(groups[1].stream(0), &buffers[1]);
    let other = groups[0].stream(0).client().new_stream();
    for _ in 0..3_000 {
        launch(&other, &busy);
    }
    assert_eq!(rig.cluster.settle().unwrap(), BOTH_NS + LONG_NS);
}

/// A closure that clones one simulator is the obvious way to open equal ranks.
#[test]
fn clones_of_one_simulator_are_ranks_of_their_own() {
    let sim = kernels(1);
    let options = DeviceOptions::default();
    let mut cluster = SimCluster::open(2, &round_machine(), &options, |_| sim.clone()).unwrap();
    let groups = cluster.group().unwrap();
    let create = |group: &Group| group.stream(0).create(&[1_u8; 500]).unwrap();
    let buffers: Vec<_> = groups.iter().map(create).collect();
    kernel_then_transfer(&groups, &buffers);
    assert_eq!(cluster.settle().unwrap(), BOTH_NS);
}

/// `message_ns` occupies the thread that sends: the last receiver waits for all messages before its own.
#[test]
fn the_last_receiver_waits_for_the_senders_thread() {
    const OVERHEAD_NS: u64 = 100_000;
    let machine = Machine {
        message_ns: OVERHEAD_NS,
        ..round_machine()
    };
    let mut rig = Rig::with(9, &machine, kernels);
    let (groups, buffers) = rig.ranks(1);
    let start_ns = rig.cluster.settle().unwrap();
    for to in 1..9 {
        groups[0].send(to, &buffers[0]).unwrap();
        groups[to].receive(0, &buffers[to]).unwrap();
    }
    // The last receiver has long kernels; it begins them with its message.
    for _ in 0..20 {
        launch(groups[8].stream(0), &buffers[8]);
    }
    let took = rig.cluster.settle().unwrap() - start_ns;
    let begins_ns = 7 * OVERHEAD_NS + OVERHEAD_NS + 201 + 2_000;
    assert!(took >= begins_ns + 20 * KERNEL_NS, "{took} ns");
}

/// A callback of one rank that submits to another.
#[test]
fn a_callback_may_submit_to_another_rank() {
    let mut rig = Rig::with(2, &round_machine(), kernels);
    let (groups, buffers) = rig.ranks(4);
    launch(groups[1].stream(0), &buffers[1]);
    let stream = groups[0].stream(0).clone();
    let buffer = buffers[0].clone();
    let read = groups[1].stream(0).read(&buffers[1]);
    let callback = move |_| launch(&stream, &buffer);
    assert!(read.on_ready(callback).is_ok());
    assert_eq!(rig.cluster.settle().unwrap(), 2 * KERNEL_NS);
}

/// A device that was lost and opened again goes on at the time of the cluster.
#[test]
fn a_device_that_is_reopened_goes_on_at_the_time_of_the_cluster() {
    let sim = |rank: usize| match rank {
        0 => kernels(rank).faults(Faults::none().lost_at_run(3)),
        _ => kernels(rank),
    };
    let mut rig = Rig::with(2, &round_machine(), sim);
    let (groups, buffers) = rig.ranks(4);
    for (group, buffer) in groups.iter().zip(&buffers) {
        (0..5).for_each(|_| launch(group.stream(0), buffer));
    }
    let lost_ns = rig.cluster.settle().unwrap();
    assert_eq!(lost_ns, 5 * KERNEL_NS);
    drop((groups, buffers));
    rig.cluster.fleet(0).devices()[0].reopen().unwrap();
    let (groups, buffers) = rig.ranks(500);
    kernel_then_transfer(&groups, &buffers);
    assert_eq!(rig.cluster.settle().unwrap(), lost_ns + BOTH_NS);
}

/// A device runs no further than the others, so a long kernel of one queue does not hold back what a message brings to
/// another: rank 0 has its answer long before the kernel of rank 1 has ended.
#[test]
fn a_long_kernel_does_not_hold_back_an_answer() {
    let mut rig = Rig::with(2, &round_machine(), kernels);
    let (groups, buffers) = rig.ranks(500);
    let other = groups[1].stream(0).create(&[1_u8; 4]).unwrap();
    let start_ns = rig.cluster.settle().unwrap();
    launch_long(&groups[1].stream(0).client().new_stream(), &other);
    kernel_then_transfer(&groups, &buffers);
    groups[1].send(0, &buffers[1]).unwrap();
    groups[0].receive(1, &buffers[0]).unwrap();
    launch_long(groups[0].stream(0), &buffers[0]);
    let answer_ns = BOTH_NS - KERNEL_NS;
    let took_ns = rig.cluster.settle().unwrap() - start_ns;
    assert_eq!(took_ns, BOTH_NS + answer_ns + LONG_NS);
}
