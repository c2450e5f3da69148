//! Buffers of all members of a group in one process, and a program of threads, for the tests of every kind of device.

use std::sync::Barrier;

use millstream::{Element, Handle};
use millstream_cluster::{Fleet, Group, Reduction};

/// Creates a buffer of each member.
pub(crate) fn create<T: Element>(group: &Group, values: &[Vec<T>]) -> Vec<Handle<T>> {
    let create = |(member, values): (usize, &Vec<T>)| group.stream(member).create(values).unwrap();
    values.iter().enumerate().map(create).collect()
}

/// Creates a zeroed buffer of each member.
pub(crate) fn zeros<T: Element>(group: &Group, len: usize) -> Vec<Handle<T>> {
    create(
        group,
        &vec![vec![T::zeroed(); len]; group.local_ranks().len()],
    )
}

pub(crate) fn refs<T: Element>(handles: &[Handle<T>]) -> Vec<&Handle<T>> {
    handles.iter().collect()
}

/// Reads the buffer of each member.
pub(crate) fn read<T: Element>(group: &Group, handles: &[Handle<T>]) -> Vec<Vec<T>> {
    let read =
        |(member, handle): (usize, &Handle<T>)| group.stream(member).read(handle).wait().unwrap();
    handles.iter().enumerate().map(read).collect()
}

/// Four threads make some calls each of overlapping groups of three devices, on the same data.
pub(crate) fn interleave(fleet: &Fleet, calls: usize) {
    let orders: [[usize; 3]; 4] = [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]];
    let groups = orders.map(|order| fleet.group_of(&order).unwrap());
    let buffers = create(&groups[0], &vec![vec![1_u32; 50]; 3]);
    let start = Barrier::new(groups.len());
    std::thread::scope(|scope| {
        for (thread, group) in groups.iter().enumerate() {
            let (start, buffers) = (&start, &buffers);
            scope.spawn(move || {
                let members = orders[thread].map(|device| &buffers[device]);
                start.wait();
                for call in 0..calls {
                    match (call + thread).is_multiple_of(2) {
                        true => group.all_reduce(Reduction::Max, &members).unwrap(),
                        false => group.broadcast(call % 3, &members).unwrap(),
                    }
                }
            });
        }
    });
    assert_eq!(read(&groups[0], &buffers), vec![vec![1; 50]; 3]);
}
