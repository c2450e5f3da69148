//! Algorithms of threads that work on the same elements by atomic operations.
//!
//! | algorithm | after |
//! | --- | --- |
//! | a queue whose places are the results of `fetch_add`, by threads alone and one addition for each cube | A. Adinets, "CUDA Pro Tip: Optimized Filtering with Warp-Aggregated Atomics" |
//! | connected components by union and find, without locks | J. Jaiganesh and M. Burtscher, "A High-Performance Connected Components Implementation for GPUs" (ECL-CC) |
//! | extrema of integers | |

use millstream::prelude::*;

use crate::{Checked, equal, uniform};

/// Appends the multiples of three to a queue.
#[kernel]
pub fn enqueue(x: &[u32], queue: &mut [u32], len: &[Atomic<u32>]) {
    let value = x[thread()];
    if value % 3 == 0 {
        queue[len[0].fetch_add(1)] = value;
    }
}

/// The same with one addition to the length for each cube.
#[kernel(cube = 64)]
pub fn enqueue_by_cubes(x: &[u32], queue: &mut [u32], len: &[Atomic<u32>]) {
    // The number of values of the cube, and their first place in the queue.
    let (count, first) = (shared::<u32, 1>(), shared::<u32, 1>());
    let (i, mine) = (thread(), thread_in_cube());
    if mine == 0 {
        count[0] = 0;
    }
    barrier();
    let mut value = 1;
    if i < x.len() {
        value = x[i];
    }
    let mut place = 0;
    if value % 3 == 0 {
        place = count[0].fetch_add(1);
    }
    barrier();
    if mine == 0 {
        first[0] = len[0].fetch_add(count[0]);
    }
    barrier();
    if value % 3 == 0 {
        queue[first[0] + place] = value;
    }
}

/// Compares queues with plain Rust, as sets.
///
/// # Errors
/// They differ.
pub fn queues_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    for len in [1, 63, 1000, 3001] {
        let x: Vec<u32> = uniform(1, len).iter().map(|it| (it * 1e6) as u32).collect();
        let mut expected: Vec<u32> = x.iter().copied().filter(|it| it % 3 == 0).collect();
        expected.sort_unstable();
        let x = stream.create(&x)?;
        for by_cubes in [false, true] {
            let (mut queue, filled) = (stream.create(&vec![0; len])?, stream.create(&[0])?);
            match by_cubes {
                true => enqueue_by_cubes(&x, &mut queue, &filled).launch(&stream, len)?,
                false => enqueue(&x, &mut queue, &filled).launch(&stream, len)?,
            }
            let filled = stream.read(&filled).wait()?[0] as usize;
            let mut queue = stream.read(&queue).wait()?;
            queue.truncate(filled);
            queue.sort_unstable();
            equal("queue", &queue, &expected)?;
        }
    }
    Ok(())
}

/// Returns the representative of a node, and shortens the way to it. A node that is no representative never becomes one
/// again, so a store of a node on its way loses no union.
#[kernel]
pub fn representative(node: u32, parents: &[Atomic<u32>]) -> u32 {
    let mut before = node;
    let mut now = parents[node].load();
    let mut next = parents[now].load();
    while next != now {
        parents[before].store(next);
        before = now;
        now = next;
        next = parents[now].load();
    }
    now
}

/// Unites the sets of the two nodes of each edge: the greater representative gets the smaller one as its parent.
#[kernel]
pub fn unite(edges: &[u32], parents: &[Atomic<u32>]) {
    let i = 2 * thread();
    let mut a = representative(edges[i], parents);
    let mut b = representative(edges[i + 1], parents);
    while a != b {
        if a < b {
            (a, b) = (b, a);
        }
        let before = parents[a].compare_exchange(a, b);
        if before == a {
            break;
        }
        a = representative(before, parents);
    }
}

/// Gives each node its representative: the least node of its component.
#[kernel]
pub fn flatten(parents: &[Atomic<u32>], components: &mut [u32]) {
    let i = thread();
    components[i] = representative(i as u32, parents);
}

/// Lowers the labels of the nodes of each edge to the smaller one: propagation, the other way to find components.
#[kernel]
pub fn lower(edges: &[u32], labels: &[Atomic<u32>], changes: &[Atomic<u32>]) {
    let i = 2 * thread();
    let (a, b) = (edges[i], edges[i + 1]);
    let least = labels[a].load().min(labels[b].load());
    if labels[a].fetch_min(least) > least || labels[b].fetch_min(least) > least {
        changes[0].fetch_or(1);
    }
}

/// Returns the least node of each component by search, in ordinary Rust.
fn least_nodes(nodes: usize, edges: &[u32]) -> Vec<u32> {
    let mut neighbours = vec![Vec::new(); nodes];
    for edge in edges.chunks(2) {
        neighbours[edge[0] as usize].push(edge[1]);
        neighbours[edge[1] as usize].push(edge[0]);
    }
    let mut least = vec![u32::MAX; nodes];
    for start in 0..nodes as u32 {
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            if least[node as usize] == u32::MAX {
                least[node as usize] = start;
                open.extend(&neighbours[node as usize]);
            }
        }
    }
    least
}

/// Compares connected components with plain Rust: of random graphs, a path, a star, and nodes without edges.
///
/// # Errors
/// They differ.
pub fn components_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let random = |nodes: usize, edges: usize| -> Vec<u32> {
        let all = uniform(nodes as u64, 2 * edges);
        all.iter().map(|it| (it * nodes as f32) as u32).collect()
    };
    let path = (0..300_u32).rev().flat_map(|i| [i + 1, i]).collect();
    let star = (0..300).flat_map(|i| [i, 150]).collect();
    let graphs: [(usize, Vec<u32>); 5] = [
        (500, random(500, 150)),
        (400, random(400, 900)),
        (301, path),
        (300, star),
        (5, vec![3, 3]),
    ];
    for (nodes, edges) in graphs {
        let expected = least_nodes(nodes, &edges);
        let (count, own) = (edges.len() / 2, (0..nodes as u32).collect::<Vec<_>>());
        let edges = stream.create(&edges)?;
        let (parents, mut components) = (stream.create(&own)?, stream.create(&own)?);
        unite(&edges, &parents).launch(&stream, count)?;
        flatten(&parents, &mut components).launch(&stream, nodes)?;
        equal("components", &stream.read(&components).wait()?, &expected)?;
        let labels = stream.create(&own)?;
        loop {
            let changes = stream.create(&[0])?;
            lower(&edges, &labels, &changes).launch(&stream, count)?;
            if stream.read(&changes).wait()?[0] == 0 {
                break;
            }
        }
        equal("labels", &stream.read(&labels).wait()?, &expected)?;
    }
    Ok(())
}

/// The least and the greatest number: of each cube in shared memory, then of all.
#[kernel(cube = 64)]
pub fn extrema<T: Int>(first: T, x: &[T], found: &[Atomic<T>]) {
    let own = shared::<T, 2>();
    if thread_in_cube() < 2 {
        own[thread_in_cube()].store(first);
    }
    barrier();
    if thread() < x.len() {
        own[0].fetch_min(x[thread()]);
        own[1].fetch_max(x[thread()]);
    }
    barrier();
    if thread_in_cube() == 0 {
        found[0].fetch_min(own[0].load());
        found[1].fetch_max(own[1].load());
    }
}

/// The same by threads alone.
#[kernel]
pub fn extrema_alone<T: Int>(x: &[T], found: &[Atomic<T>]) {
    found[0].fetch_min(x[thread()]);
    found[1].fetch_max(x[thread()]);
}

/// Compares extrema with plain Rust: of negative numbers, and of the ends of the range.
///
/// # Errors
/// They differ.
pub fn extrema_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    macro_rules! types {
        ($($t:ident),*) => {$(
            let spread: Vec<$t> = (0..500_u32)
                .map(|i| ($t::MAX / 500).wrapping_mul((i * 7919 % 500) as $t).wrapping_sub($t::MAX / 2))
                .collect();
            let few = vec![(0 as $t).wrapping_sub(3), (0 as $t).wrapping_sub(70), (0 as $t).wrapping_sub(5)];
            for x in [spread, few, vec![$t::MIN, 0, $t::MAX], vec![5], vec![$t::MIN; 70]] {
                let expected = [*x.iter().min().ok_or("none")?, *x.iter().max().ok_or("none")?];
                let (first, len, x) = (x[0], x.len(), stream.create(&x)?);
                let found = stream.create(&[first; 2])?;
                extrema(first, &x, &found).launch(&stream, len)?;
                equal(stringify!($t), &stream.read(&found).wait()?, &expected)?;
                let found = stream.create(&[first; 2])?;
                extrema_alone(&x, &found).launch(&stream, len)?;
                equal(stringify!($t), &stream.read(&found).wait()?, &expected)?;
            }
        )*};
    }
    types!(i32, u32, i64, u64);
    Ok(())
}

/// Each operation on an element of the thread's own, and what it returns.
#[kernel]
pub fn operations<T: Int>(x: &[T], y: &[Atomic<T>], before: &mut [T]) {
    let (i, n) = (thread(), x.len());
    let value = x[i];
    before[i] = y[i].fetch_add(value);
    before[n + i] = y[i].fetch_sub(x[(i + 1) % n]);
    before[2 * n + i] = y[i].fetch_min(x[(i + 2) % n]);
    before[3 * n + i] = y[i].fetch_xor(value);
    before[4 * n + i] = y[i].fetch_max(x[(i + 3) % n]);
    before[5 * n + i] = y[i].fetch_or(value);
    before[6 * n + i] = y[i].fetch_and(x[(i + 4) % n]);
    before[7 * n + i] = y[i].compare_exchange(value, value + 1 as T);
    before[8 * n + i] = y[i].swap(value);
    before[9 * n + i] = y[i].compare_exchange(value, x[(i + 5) % n]);
    before[10 * n + i] = y[i].load();
    if i % 2 == 0 {
        y[i].store(value);
    }
}

/// Those of floats.
#[kernel]
pub fn operations_of_floats<T: Float>(x: &[T], y: &[Atomic<T>], before: &mut [T]) {
    let (i, n) = (thread(), x.len());
    before[i] = y[i].fetch_add(x[i]);
    before[n + i] = y[i].swap(x[(i + 1) % n]);
    before[2 * n + i] = y[i].load();
    y[i].store(x[i] + before[i]);
    y[i].fetch_add(x[i]);
}

/// Floats in shared memory: sums, and a load and a swap, which devices have by other instructions.
#[kernel(cube = 32)]
pub fn sums_of_floats<T: Float>(x: &[T], sums: &[Atomic<T>]) {
    let own = shared::<T, 2>();
    let mine = thread_in_cube();
    if mine < 2 {
        own[mine] = 0 as T;
    }
    barrier();
    own[0].fetch_add(x[thread()]);
    barrier();
    if mine == 0 {
        own[1].swap(own[0].load());
        sums[cube() % 2].fetch_add(own[1].load());
    }
}

/// Compares operations with those of Rust's atomics.
///
/// # Errors
/// They differ.
pub fn operations_match(device: &Device) -> Checked {
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64};
    let stream = device.new_stream();
    macro_rules! integers {
        ($($t:ident $atomic:ident),*) => {$(
            let x: Vec<$t> = [0, 1, 2, 7, $t::MAX, $t::MIN, $t::MAX / 3, $t::MAX - 4, 1 << 30]
                .into_iter()
                .flat_map(|it: $t| [it, !it, it.wrapping_mul(5)])
                .collect();
            let y: Vec<$t> = x.iter().rev().copied().collect();
            let n = x.len();
            let mut expected = vec![0; 11 * n];
            let mut last = Vec::new();
            for i in 0..n {
                let (it, value) = ($atomic::new(y[i]), x[i]);
                let exchanged = |new| it.compare_exchange(value, new, Relaxed, Relaxed).unwrap_or_else(|it| it);
                let all = [
                    it.fetch_add(value, Relaxed),
                    it.fetch_sub(x[(i + 1) % n], Relaxed),
                    it.fetch_min(x[(i + 2) % n], Relaxed),
                    it.fetch_xor(value, Relaxed),
                    it.fetch_max(x[(i + 3) % n], Relaxed),
                    it.fetch_or(value, Relaxed),
                    it.fetch_and(x[(i + 4) % n], Relaxed),
                    exchanged(value.wrapping_add(1)),
                    it.swap(value, Relaxed),
                    exchanged(x[(i + 5) % n]),
                    it.load(Relaxed),
                ];
                all.into_iter().enumerate().for_each(|(part, it)| expected[part * n + i] = it);
                last.push(if i % 2 == 0 { value } else { it.load(Relaxed) });
            }
            let (x, y, mut before) = (stream.create(&x)?, stream.create(&y)?, stream.create(&expected)?);
            operations(&x, &y, &mut before).launch(&stream, n)?;
            equal(stringify!($t), &stream.read(&before).wait()?, &expected)?;
            equal(stringify!($t), &stream.read(&y).wait()?, &last)?;
        )*};
    }
    integers!(i32 AtomicI32, u32 AtomicU32, i64 AtomicI64, u64 AtomicU64);
    macro_rules! floats {
        ($($t:ident),*) => {$(
            let x: Vec<$t> = [0.0, -1.5, 1e30, 3.25, -7.0].to_vec();
            let (n, y) = (x.len(), vec![2.5; 5]);
            let before: Vec<$t> = y.iter().copied()
                .chain((0..n).map(|i| y[i] + x[i]))
                .chain((0..n).map(|i| x[(i + 1) % n]))
                .collect();
            let last: Vec<$t> = (0..n).map(|i| x[i] + y[i] + x[i]).collect();
            let (handle, y, mut found) = (stream.create(&x)?, stream.create(&y)?, stream.create(&before)?);
            operations_of_floats(&handle, &y, &mut found).launch(&stream, n)?;
            equal(stringify!($t), &stream.read(&found).wait()?, &before)?;
            equal(stringify!($t), &stream.read(&y).wait()?, &last)?;
            let sums = stream.create(&[0 as $t; 2])?;
            let many = stream.create(&vec![0.5 as $t; 256])?;
            sums_of_floats(&many, &sums).launch(&stream, 256)?;
            equal(stringify!($t), &stream.read(&sums).wait()?, &[64.0, 64.0])?;
        )*};
    }
    floats!(f32, f64);
    Ok(())
}
