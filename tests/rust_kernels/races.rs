//! Mistakes of kernels that the simulator reports, whatever its seed: races, missing barriers, and accesses out of bounds.

use millstream::prelude::*;
use millstream::sim::{AccessKind, Checks, KernelMistake, Sim, ThreadAccess, Violation};
use millstream::{Device, Error};
use rstest::rstest;

/// The seeds that each mistake is looked for with.
const SEEDS: std::ops::Range<u64> = 0..6;

/// Stores of all threads to one element.
#[kernel]
fn last(y: &mut [u32]) {
    y[0] = thread() as u32; // last: store
}

/// Stores of equal values to one element.
#[kernel]
fn any(x: &[u32], found: &mut [u32]) {
    if x[thread()] == 1 {
        found[0] = 1; // any: store
    }
}

/// A load of what the next thread stores.
#[kernel]
fn shift(x: &mut [u32]) {
    let i = thread();
    if i + 1 < x.len() {
        let next = x[i + 1]; // shift: load
        x[i] = next; // shift: store
    }
}

/// Counts without atomics.
#[kernel]
fn count(x: &[u32], bins: &mut [u32]) {
    bins[x[thread()] % 4] += 1; // count: both
}

/// A load of what other cubes store.
#[kernel(cube = 16)]
fn carry(sums: &mut [u32]) {
    if thread_in_cube() == 0 {
        sums[cube()] = 1; // carry: store
    }
    barrier();
    if thread_in_cube() == 1 && cube() > 0 {
        sums[cube() + 4] = sums[cube() - 1]; // carry: load
    }
}

/// A plain load of what others add to atomically.
#[kernel(cube = 32)]
fn progress(seen: &mut [u32]) {
    let done = shared::<u32, 2>();
    done[0].fetch_add(1); // progress: add
    seen[thread()] = done[0]; // progress: load
}

/// A plain store of what others load atomically.
#[kernel(cube = 32)]
fn watched(seen: &mut [u32]) {
    let flag = shared::<u32, 1>();
    flag[0].store(0);
    barrier();
    if thread_in_cube() == 0 {
        flag[0] = 1; // watched: store
    } else {
        seen[thread()] = flag[0].load(); // watched: load
    }
}

/// Lacks a barrier between the stores and the loads.
#[kernel(cube = 64)]
fn reverse(x: &[u32], y: &mut [u32]) {
    let part = shared::<u32, 64>();
    part[thread_in_cube()] = x[thread()]; // reverse: store
    y[thread()] = part[63 - thread_in_cube()]; // reverse: load
}

/// Lacks a barrier in each turn of a loop.
#[kernel(cube = 64)]
fn sum(x: &[u32], y: &mut [u32]) {
    let part = shared::<u32, 64>();
    let mine = thread_in_cube();
    part[mine] = x[thread()];
    barrier();
    let mut half = 32;
    while half > 0 {
        if mine < half {
            let other = part[mine + half]; // sum: load
            part[mine] += other; // sum: store
        }
        half /= 2;
    }
    if mine == 0 {
        y[cube()] = part[0];
    }
}

/// Lacks the barrier at the end of the loop: a thread stores the next tile while others load this one.
#[kernel(cube = 32)]
fn tiles(x: &[u32], y: &mut [u32]) {
    let tile = shared::<u32, 32>();
    let mut sum = 0;
    for at in 0..2 {
        tile[thread_in_cube()] = x[at * 32 + thread_in_cube()]; // tiles: store
        barrier();
        for k in 0..32 {
            sum += tile[k]; // tiles: load
        }
    }
    y[thread()] = sum;
}

/// Stores behind the end.
#[kernel]
fn beyond(y: &mut [f32]) {
    y[thread() + 1] = 1.0; // beyond: store
}

/// Loads an element that no thread has stored, behind a barrier.
#[kernel(cube = 32)]
fn unset(x: &[u32], y: &mut [u32]) {
    let part = shared::<u32, 33>();
    let counts = shared::<Atomic<u32>, 1>();
    counts[0].store(0);
    part[thread_in_cube()] = x[thread()];
    barrier();
    y[thread()] = part[thread_in_cube() + 1] + counts[0].load(); // unset: load
}

/// Returns the number of the line that ends with this comment.
fn line_of(comment: &str) -> u32 {
    let text = include_str!("races.rs");
    let found = text
        .lines()
        .zip(1..)
        .find(|(line, _)| line.ends_with(comment));
    found
        .unwrap_or_else(|| panic!("no line ends with {comment}"))
        .1
}

/// Launches a kernel with a buffer that it may read, and one that it changes.
type Launch = fn(&Stream, &Handle<u32>, &mut Handle<u32>) -> Result<(), Error>;

/// Launches a kernel. Returns what it made of its buffer, and what the simulator has found.
fn run(sim: Sim, launch: Launch) -> (Result<Vec<u32>, Error>, Vec<Violation>) {
    let findings = sim.findings();
    let device = Device::open(sim).unwrap();
    let stream = device.new_stream();
    let [x, mut y] = [[1_u32; 128]; 2].map(|ones| stream.create(&ones).unwrap());
    launch(&stream, &x, &mut y).unwrap();
    let output = stream.read(&y).wait();
    drop((stream, device));
    (output, findings.violations())
}

/// A kernel with a race.
struct Race {
    launch: Launch,
    memory: &'static str,
    /// For each of the two accesses the end of its line, and its kind.
    sites: [(&'static str, AccessKind); 2],
    /// What the report tells to do, if the threads are of one cube.
    remedy: &'static str,
}

use AccessKind::{Atomic as Adds, AtomicLoad, Load, Store};

const RACES: &[Race] = &[
    Race {
        launch: |stream, _, y| last(y).launch(stream, 100),
        memory: "y",
        sites: [("last: store", Store); 2],
        remedy: "atomics",
    },
    Race {
        launch: |stream, x, y| any(x, y).launch(stream, 100),
        memory: "found",
        sites: [("any: store", Store); 2],
        remedy: "atomics",
    },
    Race {
        launch: |stream, _, y| shift(y).launch(stream, 40),
        memory: "x",
        sites: [("shift: load", Load), ("shift: store", Store)],
        remedy: "barrier",
    },
    Race {
        launch: |stream, x, y| count(x, y).launch(stream, 100),
        memory: "bins",
        sites: [("count: both", Load), ("count: both", Store)],
        remedy: "atomics",
    },
    Race {
        launch: |stream, _, y| carry(y).launch(stream, 64),
        memory: "sums",
        sites: [("carry: load", Load), ("carry: store", Store)],
        remedy: "atomics",
    },
    Race {
        launch: |stream, _, y| progress(y).launch(stream, 32),
        memory: "done",
        sites: [("progress: load", Load), ("progress: add", Adds)],
        remedy: "barrier",
    },
    Race {
        launch: |stream, _, y| watched(y).launch(stream, 32),
        memory: "flag",
        sites: [("watched: load", AtomicLoad), ("watched: store", Store)],
        remedy: "barrier",
    },
    // Missing barriers.
    Race {
        launch: |stream, x, y| reverse(x, y).launch(stream, 64),
        memory: "part",
        sites: [("reverse: load", Load), ("reverse: store", Store)],
        remedy: "barrier",
    },
    Race {
        launch: |stream, x, y| sum(x, y).launch(stream, 64),
        memory: "part",
        sites: [("sum: load", Load), ("sum: store", Store)],
        remedy: "barrier",
    },
    Race {
        launch: |stream, x, y| tiles(x, y).launch(stream, 32),
        memory: "tile",
        sites: [("tiles: load", Load), ("tiles: store", Store)],
        remedy: "barrier",
    },
];

impl Race {
    /// Asserts that a mistake is this race.
    fn assert_is(&self, mistake: &KernelMistake) {
        let message = mistake.to_string();
        let KernelMistake::Race {
            memory,
            first,
            second,
            ..
        } = mistake
        else {
            panic!("{message}");
        };
        assert_eq!(&**memory, self.memory, "{message}");
        assert!((first.cube, first.thread) != (second.cube, second.thread));
        let site = |access: &ThreadAccess| {
            let line = access.line.as_ref().unwrap();
            assert_eq!(&*line.file, file!());
            (line.line, access.kind)
        };
        let found = [site(first), site(second)];
        let [one, other] = self.sites.map(|(comment, kind)| (line_of(comment), kind));
        assert!(found == [one, other] || found == [other, one], "{message}");
        // Threads of different cubes cannot wait for each other.
        let remedy = match first.cube == second.cube {
            true => self.remedy,
            false => "atomics",
        };
        assert!(message.contains(remedy), "{message}");
    }
}

#[test]
fn races_are_reported_with_both_lines_by_any_seed() {
    for (race, seed) in RACES
        .iter()
        .flat_map(|race| SEEDS.map(move |seed| (race, seed)))
    {
        let (output, found) = run(Sim::seed(seed), race.launch);
        let [Violation::Kernel { mistake, .. }] = &found[..] else {
            panic!("{:?}, seed {seed}: {found:?}", race.sites);
        };
        race.assert_is(mistake);
        // The data is poisoned as well, so that a program sees it without the findings.
        let error = output.unwrap_err().to_string();
        assert!(error.contains(&mistake.to_string()), "seed {seed}: {error}");
    }
}

#[test]
fn report_names_the_element_both_threads_and_what_to_do() {
    let (_, found) = run(Sim::seed(1), |stream, _, y| last(y).launch(stream, 2));
    let line = format!("tests/rust_kernels/races.rs:{}", line_of("last: store"));
    let message = |a, b| {
        format!(
            "kernel `last`: race for `y[0]`: thread {a} of cube 0 stores it at {line}, and thread {b} of cube 0 stores it at {line}, \
             which is a race even if both store the same value; use atomics, let each thread have its own element, or store to another buffer"
        )
    };
    let found: Vec<String> = found.iter().map(Violation::to_string).collect();
    assert!(
        found == [message(0, 1)] || found == [message(1, 0)],
        "{found:?}"
    );
}

/// The seed chooses the order of threads, so it chooses the threads that race, and who stores last.
#[test]
fn seeds_choose_the_order_of_threads() {
    let mut pairs: Vec<String> = Vec::new();
    let mut lasts = Vec::new();
    for seed in SEEDS {
        let kernel: Launch = |stream, _, y| last(y).launch(stream, 100);
        pairs.push(run(Sim::seed(seed), kernel).1[0].to_string());
        let (output, found) = run(Sim::seed(seed).checks(Checks::Off), kernel);
        assert_eq!(found, []);
        lasts.push(output.unwrap()[0]);
    }
    pairs.sort();
    pairs.dedup();
    lasts.sort_unstable();
    lasts.dedup();
    assert!(pairs.len() > 3 && lasts.len() > 3, "{pairs:?}, {lasts:?}");
}

#[test]
fn load_of_what_no_thread_of_the_cube_has_stored_is_reported_by_any_seed() {
    for seed in SEEDS {
        let launch: Launch = |stream, x, y| unset(x, y).launch(stream, 64);
        let (output, found) = run(Sim::seed(seed), launch);
        let line = line_of("unset: load");
        let [Violation::Kernel { mistake, .. }] = &found[..] else {
            panic!("seed {seed}: {found:?}");
        };
        let message = mistake.to_string();
        let load = format!("thread 31 of cube 0 loads it at tests/rust_kernels/races.rs:{line}");
        let load = [load.clone(), load.replace("cube 0", "cube 1")];
        assert!(
            message.starts_with("`part[32]` has no value yet"),
            "{message}"
        );
        assert!(load.iter().any(|load| message.contains(load)), "{message}");
        assert!(output.unwrap_err().to_string().contains(&message));
    }
}

#[rstest]
#[case::cpu(false)]
#[case::sim(true)]
fn access_out_of_bounds_names_the_element_and_the_line(#[case] is_sim: bool) {
    let sim = Sim::seed(3);
    let findings = sim.findings();
    let device = match is_sim {
        true => Device::open(sim),
        false => Device::open(millstream::Cpu::default()),
    };
    let device = device.unwrap();
    let stream = device.new_stream();
    let mut y = stream.create(&[0.0; 1000]).unwrap();
    beyond(&mut y).launch(&stream, 1000).unwrap();
    let error = stream.read(&y).wait().unwrap_err().to_string();
    let message = format!(
        "`y[1000]` is out of bounds, `y` has 1000 elements: tests/rust_kernels/races.rs:{}",
        line_of("beyond: store")
    );
    assert!(
        error.contains("`beyond`") && error.contains(&message),
        "{error}"
    );
    drop((stream, device));
    let found = findings.violations();
    assert_eq!(found.len(), usize::from(is_sim));
    assert!(
        found
            .iter()
            .all(|found| found.to_string().contains(&message))
    );
}

/// A cell of a row.
#[kernel]
#[repr(C)]
#[derive(Clone, Copy)]
struct Cell {
    weight: f32,
    next: [u32; 2],
}

#[kernel]
fn beyond_cells(cells: &mut [Cell]) {
    let i = thread() + 1;
    cells[i].next[1] += 1; // beyond_cells: store
}

/// The same where threads work together, which the CPU runs as a program.
#[kernel(cube = 4)]
fn beyond_cells_of_cubes(cells: &mut [Cell]) {
    let i = thread() + 1;
    cells[i].next[1] += 1; // beyond_cells_of_cubes: store
}

#[kernel]
fn neighbour_cells(cells: &mut [Cell]) {
    let i = thread();
    cells[i].weight = 1.0; // neighbour_cells: own
    cells[(i + 1) % cells.len()].weight = 2.0; // neighbour_cells: other
}

/// Returns cells.
fn cells(stream: &Stream) -> Handle<Cell> {
    let cell = Cell {
        weight: 0.0,
        next: [0; 2],
    };
    stream.create(&[cell; 20]).unwrap()
}

#[rstest]
fn access_out_of_bounds_counts_structs(
    #[values(false, true)] is_sim: bool,
    #[values(false, true)] in_cubes: bool,
) {
    let device = match is_sim {
        true => Device::open(Sim::seed(3)),
        false => Device::open(millstream::Cpu::default()),
    };
    let device = device.unwrap();
    let stream = device.new_stream();
    let mut all = cells(&stream);
    match in_cubes {
        true => beyond_cells_of_cubes(&mut all).launch(&stream, 20),
        false => beyond_cells(&mut all).launch(&stream, 20),
    }
    .unwrap();
    let error = format!("{:?}", stream.read(&all).wait().map(drop).unwrap_err());
    assert!(
        error.contains("`cells[20]` is out of bounds, `cells` has 20 elements"),
        "{error}"
    );
}

#[test]
fn race_names_the_struct() {
    let sim = Sim::seed(3);
    let findings = sim.findings();
    let device = Device::open(sim).unwrap();
    let stream = device.new_stream();
    let mut all = cells(&stream);
    neighbour_cells(&mut all).launch(&stream, 20).unwrap();
    assert!(stream.read(&all).wait().is_err());
    drop((stream, device));
    let found = findings.violations();
    let own = line_of("neighbour_cells: own").to_string();
    assert!(!found.is_empty());
    assert!(found.iter().all(|found| {
        let text = found.to_string();
        text.contains("cells[") && text.contains(&own)
    }));
}
