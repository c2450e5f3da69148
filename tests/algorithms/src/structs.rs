//! Structs as elements of buffers and as parameters, and arrays in arrays.

use millstream::prelude::*;

use crate::rays::Vector;
use crate::{Checked, equal, near, uniform};

/// A body.
#[kernel]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Body {
    /// Where it is.
    pub position: Vector,
    /// Its change in a unit of time.
    pub velocity: Vector,
    /// The mass.
    pub mass: f32,
}

/// How a step is done.
#[kernel]
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The time.
    pub dt: f32,
    /// Added to squares of distances.
    pub softening: f32,
    /// What pulls all bodies.
    pub wind: Vector,
}

/// The pull of one body on another.
#[kernel]
pub fn pull(bodies: &[Body], of: usize, at: Vector, softening: f32) -> Vector {
    let to = bodies[of].position - at;
    let squared = to.dot(to) + softening;
    let inverse = 1.0 / squared.sqrt();
    bodies[of].mass * inverse * inverse * inverse * to
}

/// A step of all bodies, by the gravity of all.
#[kernel]
pub fn step(how: Step, bodies: &[Body], #[whole] next: &mut [Body]) {
    let i = thread();
    let mut body = bodies[i];
    let mut force = how.wind;
    for other in 0..bodies.len() {
        force = force + pull(bodies, other, body.position, how.softening);
    }
    body.velocity = body.velocity + how.dt * force;
    body.position = body.position + how.dt * body.velocity;
    next[i] = body;
}

/// Bodies that leave the box come back, as a ball from a wall.
#[kernel]
pub fn bounce(size: f32, bodies: &mut [Body]) {
    let i = thread();
    if bodies[i].position.x.abs() > size {
        bodies[i].velocity.x *= -0.5;
        bodies[i].position.x = bodies[i].position.x.clamp(-size, size);
    }
    if bodies[i].position.y.abs() > size {
        bodies[i].velocity.y *= -0.5;
        bodies[i].position.y = bodies[i].position.y.clamp(-size, size);
    }
}

/// Returns random bodies.
fn bodies(n: usize) -> Vec<Body> {
    let numbers = uniform(5, 7 * n);
    let of = |it: &[f32]| Vector {
        x: it[0],
        y: it[1],
        z: it[2],
    };
    let body = |it: &[f32]| Body {
        position: of(it),
        velocity: of(&it[3..]),
        mass: it[6],
    };
    numbers.chunks(7).map(body).collect()
}

/// Compares two steps of bodies with plain Rust.
///
/// # Errors
/// They differ.
pub fn bodies_match(device: &Device) -> Checked {
    let (stream, n, dt, softening) = (device.new_stream(), 70, 0.01, 0.01);
    let wind = [0.5, -0.25, 0.125];
    let mut expected = bodies(n);
    for _ in 0..2 {
        let before = expected.clone();
        for body in &mut expected {
            let at = |it: &Body| [it.position.x, it.position.y, it.position.z].map(f64::from);
            let (mut force, here) = (wind.map(f64::from), at(body));
            for other in &before {
                let to: [f64; 3] = std::array::from_fn(|axis| at(other)[axis] - here[axis]);
                let squared = to.iter().map(|d| d * d).sum::<f64>() + f64::from(softening);
                let pull = f64::from(other.mass) * squared.powf(-1.5);
                (0..3).for_each(|axis| force[axis] += pull * to[axis]);
            }
            let [x, y, z] = force.map(|part| dt * part as f32);
            body.velocity.x += x;
            body.velocity.y += y;
            body.velocity.z += z;
            body.position.x += dt * body.velocity.x;
            body.position.y += dt * body.velocity.y;
            body.position.z += dt * body.velocity.z;
            let Vector { x, y, .. } = body.position;
            if x.abs() > 0.7 {
                body.velocity.x *= -0.5;
                body.position.x = x.clamp(-0.7, 0.7);
            }
            if y.abs() > 0.7 {
                body.velocity.y *= -0.5;
                body.position.y = y.clamp(-0.7, 0.7);
            }
        }
    }
    let [x, y, z] = wind;
    let how = Step {
        dt,
        softening,
        wind: Vector { x, y, z },
    };
    let (mut now, mut next) = (stream.create(&bodies(n))?, stream.empty(n)?);
    for _ in 0..2 {
        step(how, &now, &mut next).launch(&stream, n)?;
        bounce(0.7, &mut next).launch_each(&stream)?;
        std::mem::swap(&mut now, &mut next);
    }
    let numbers = |all: &[Body]| -> Vec<f32> {
        let of = |it: &Body| {
            let (p, v) = (it.position, it.velocity);
            [p.x, p.y, p.z, v.x, v.y, v.z, it.mass]
        };
        all.iter().flat_map(of).collect()
    };
    let given = stream.read(&now).wait()?;
    near("bodies", &numbers(&given), &numbers(&expected), 1e-4)
}

/// What a launch passes: numbers of several types, structs, tuples and arrays.
#[kernel]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A flag.
    pub is_on: bool,
    /// A number of the machine's size.
    pub offset: usize,
    /// A small number.
    pub small: i8,
    /// Halves.
    pub weights: [f64; 3],
    /// A tuple.
    pub pair: (u16, f32),
}

/// A cell of a row: arrays in an element.
#[kernel]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The neighbours.
    pub next: [u32; 3],
    /// The value.
    pub value: u32,
}

const ORIGIN: Vector = Vector {
    x: 0.5,
    y: 1.5,
    z: 2.5,
};

/// Stores where no other thread does, by a field of another element.
#[kernel]
pub fn scatter(
    options: Options,
    scale: (f32, f32),
    pairs: &[[f32; 2]],
    cells: &mut [Cell],
    sums: &mut [f64],
) {
    let i = thread();
    let n = cells.len();
    let other = (i + options.offset) % n;
    cells[other].next[i % 3] = i as u32;
    cells[other].next[(i + 1) % 3] += 2;
    let kept = cells[other].next;
    cells[other].value = kept[0] + 10 * kept[1] + 100 * kept[2];
    if options.is_on {
        let pair = pairs[i];
        let mut sum = (pair[0] * scale.0 + pair[1] * scale.1) as f64;
        for k in 0..3 {
            sum += options.weights[k] * (k as f64 + ORIGIN.y as f64);
        }
        sums[i] = sum + options.small as f64 + options.pair.0 as f64 + options.pair.1 as f64;
    }
}

/// Compares `scatter` with plain Rust.
///
/// # Errors
/// They differ.
pub fn structs_match(device: &Device) -> Checked {
    let (stream, n) = (device.new_stream(), 90);
    let cell = |i: u32| Cell {
        next: [i, i + 1, i + 2],
        value: 7,
    };
    let options = Options {
        is_on: true,
        offset: 11,
        small: -3,
        weights: [0.25, 0.5, 4.0],
        pair: (500, 0.75),
    };
    let before: Vec<Cell> = (0..n).map(cell).collect();
    let pairs: Vec<[f32; 2]> = (0..n).map(|i| [i as f32, 1.0]).collect();
    let (mut cells, mut sums) = (before.clone(), Vec::new());
    for i in 0..n as usize {
        let cell = &mut cells[(i + 11) % n as usize];
        cell.next[i % 3] = i as u32;
        cell.next[(i + 1) % 3] += 2;
        cell.value = cell.next[0] + 10 * cell.next[1] + 100 * cell.next[2];
        let weights = 0.25 * 1.5 + 0.5 * 2.5 + 4.0 * 3.5;
        sums.push(f64::from(pairs[i][0] * 2.0 + 0.5) + weights - 3.0 + 500.75);
    }
    let (pairs, mut given) = (stream.create(&pairs)?, stream.create(&before)?);
    let mut of_sums = stream.create(&vec![0.0; n as usize])?;
    scatter(options, (2.0, 0.5), &pairs, &mut given, &mut of_sums).launch(&stream, n as usize)?;
    equal("cells", &stream.read(&given).wait()?, &cells)?;
    equal("sums", &stream.read(&of_sums).wait()?, &sums)
}

/// Numbers of two sizes: words of 4 bytes.
#[kernel]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: u64,
    /// The weight.
    pub weight: f64,
    /// The change.
    pub change: f32,
    /// How often.
    pub count: u32,
}

/// Numbers of all sizes: bytes.
#[kernel]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packet {
    /// The time.
    pub time: f32,
    /// The port.
    pub port: u16,
    /// The level.
    pub level: i8,
    /// The tag.
    pub tag: u8,
}

/// Changes what it reads.
#[kernel]
pub fn mixed(entries: &mut [Entry], packets: &mut [Packet], results: &mut [Packet]) {
    let i = thread();
    entries[i].key = (entries[i].key ^ 0x1234_5678_9abc_def0) + i as u64;
    entries[i].weight -= entries[i].change as f64;
    entries[i].count += 1;
    let packet = packets[i];
    packets[i].level = -packet.level;
    packets[i].time = packet.time * 2.0;
    results[packets.len() - 1 - i] = Packet {
        port: packet.port + 1,
        tag: packet.tag ^ 255,
        ..packet
    };
}

/// Compares `mixed` with plain Rust.
///
/// # Errors
/// They differ.
pub fn mixed_match(device: &Device) -> Checked {
    let (stream, n) = (device.new_stream(), 80_u32);
    let entry = |i: u32| Entry {
        key: u64::from(i) << 40 | u64::from(i),
        weight: f64::from(i) * 1e100,
        change: i as f32 - 3.5,
        count: u32::MAX - i,
    };
    let packet = |i: u32| Packet {
        time: i as f32 * 0.1,
        port: (i * 999) as u16,
        level: i as i8 - 40,
        tag: i as u8,
    };
    let before: Vec<Entry> = (0..n).map(entry).collect();
    let after: Vec<Entry> = (0..)
        .zip(&before)
        .map(|(i, it)| Entry {
            key: (it.key ^ 0x1234_5678_9abc_def0).wrapping_add(i),
            weight: it.weight - f64::from(it.change),
            count: it.count.wrapping_add(1),
            ..*it
        })
        .collect();
    let packets: Vec<Packet> = (0..n).map(packet).collect();
    let changed: Vec<Packet> = packets
        .iter()
        .map(|it| Packet {
            level: -it.level,
            time: it.time * 2.0,
            ..*it
        })
        .collect();
    let results: Vec<Packet> = packets
        .iter()
        .rev()
        .map(|it| Packet {
            port: it.port + 1,
            tag: it.tag ^ 255,
            ..*it
        })
        .collect();
    let mut given = stream.create(&before)?;
    let (mut of_packets, mut of_results) = (stream.create(&packets)?, stream.create(&packets)?);
    mixed(&mut given, &mut of_packets, &mut of_results).launch(&stream, n as usize)?;
    equal("entries", &stream.read(&given).wait()?, &after)?;
    equal("packets", &stream.read(&of_packets).wait()?, &changed)?;
    equal("results", &stream.read(&of_results).wait()?, &results)
}

/// Turns the elements of a part around.
#[kernel(in_cube)]
pub fn turned(room: &mut [Entry], value: Entry) -> Entry {
    room[thread_in_cube()] = value;
    barrier();
    room[room.len() - 1 - thread_in_cube()]
}

/// Threads of a cube exchange structs.
#[kernel(cube = 32)]
pub fn exchange(entries: &mut [Entry], counts: &mut [u32]) {
    let room = shared::<Entry, 32>();
    let i = thread();
    let mut entry = turned(room, entries[i]);
    entry.count += room[0].count;
    entries[i] = entry;
    if thread_in_cube() == 0 {
        counts[cube()] = entries.len() as u32;
    }
}

/// Compares `exchange` with plain Rust.
///
/// # Errors
/// They differ.
pub fn cubes_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let entry = |i: u32| Entry {
        key: u64::from(i) << 35,
        weight: f64::from(i) / 7.0,
        change: -1.5,
        count: i,
    };
    let before: Vec<Entry> = (0..96).map(entry).collect();
    let of_part = |part: &[Entry]| {
        let first = part[0].count;
        let turned = part.iter().rev().map(move |it| Entry {
            count: it.count + first,
            ..*it
        });
        turned.collect::<Vec<_>>()
    };
    let after: Vec<Entry> = before.chunks(32).flat_map(of_part).collect();
    let (mut given, mut counts) = (stream.create(&before)?, stream.create(&[0; 3])?);
    exchange(&mut given, &mut counts).launch(&stream, 96)?;
    equal("entries", &stream.read(&given).wait()?, &after)?;
    equal("counts", &stream.read(&counts).wait()?, &[96; 3])
}

const STENCIL: [[i32; 3]; 3] = [[1, 2, 1], [2, 4, 2], [1, 2, 1]];

/// Products of small matrices, and arrays of structs and tuples.
#[kernel]
pub fn nested(results: &mut [i32]) {
    let i = thread() as i32;
    let mut a = [[0; 3]; 3];
    let mut b = [[1, i, 0], [0, 1, i], [i, 0, 1]];
    for row in 0..3 {
        for column in 0..3 {
            for k in 0..3 {
                a[row][column] += b[row][k] * STENCIL[k][column];
            }
        }
    }
    b[1] = a[2];
    a[0][2] = b[1][1];
    let kept = a;
    a[2] = [i; 3];
    let mut hits = [Cell {
        next: [0; 3],
        value: 1,
    }; 4];
    hits[2].next[1] = 5 + i as u32;
    hits[3] = hits[2];
    hits[3].value += hits[3].next[1];
    let mut pairs = [(i, 0.5_f32); 2];
    pairs[1].0 = 3 * i;
    pairs[0] = (pairs[1].0 + 1, pairs[0].1 * 4.0);
    let at = 7 * thread();
    results[at] = kept[0][2] + 1000 * kept[1][1];
    results[at + 1] = a[2][1] + 1000 * b[1][2];
    results[at + 2] = (hits[3].value + hits[0].value) as i32;
    results[at + 3] = hits[2].next[1] as i32 + hits[1].next[1] as i32;
    results[at + 4] = pairs[0].0 + pairs[1].0 + pairs[0].1 as i32;
    results[at + 5] = (a.len() + b[0].len() + STENCIL[1].len()) as i32;
    results[at + 6] = STENCIL[(i % 3) as usize][1];
    let chosen = if i % 2 == 0 { hits[2] } else { hits[0] };
    let (first, second) = (hits[3], hits[1]);
    let other = if i > 20 { first } else { second };
    results[at + 6] += 10 * (chosen.next[1] + other.value) as i32;
}

/// The first bytes of a sequence, and its halves and steps. Few: lavapipe compiles a store of each.
const MANY: usize = 300;
const BYTES: [u8; MANY] = {
    let (mut all, mut at, mut now) = ([0; MANY], 0, 1_u32);
    while at < MANY {
        now = now.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        all[at] = (now >> 24) as u8;
        at += 1;
    }
    all
};
const HALVES: [f32; MANY] = {
    let (mut all, mut at) = ([0.0; MANY], 0);
    while at < MANY {
        all[at] = BYTES[at] as f32 * 0.5;
        at += 1;
    }
    all
};
const STEPS: [(u32, bool); 30] = {
    let (mut all, mut at) = ([(0, false); 30], 0);
    while at < 30 {
        all[at] = (7 * at as u32, BYTES[at] > 99);
        at += 1;
    }
    all
};

/// Reads tables at computed places.
#[kernel]
pub fn lookups(x: &[u32], results: &mut [f32]) {
    let i = thread();
    let at = x[i] as usize % MANY;
    let step = STEPS[at % 30];
    results[i] = BYTES[at] as f32 + HALVES[MANY - 1 - at] + step.0 as f32;
    if step.1 {
        results[i] += 0.25;
    }
}

/// The same, where threads work together.
#[kernel(cube = 64)]
pub fn lookups_of_cubes(x: &[u32], results: &mut [f32]) {
    let i = thread();
    if i < x.len() {
        let at = x[i] as usize % MANY;
        let step = STEPS[at % 30];
        results[i] = BYTES[at] as f32 + HALVES[MANY - 1 - at] + step.0 as f32;
        if step.1 {
            results[i] += 0.25;
        }
    }
}

/// Compares `lookups` with plain Rust.
///
/// # Errors
/// They differ.
pub fn lookups_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let x: Vec<u32> = (0..200_u32)
        .map(|i| i.wrapping_mul(2_654_435_761))
        .collect();
    let of = |x: &u32| {
        let at = *x as usize % MANY;
        let (step, more) = STEPS[at % 30];
        f32::from(BYTES[at]) + HALVES[MANY - 1 - at] + step as f32 + if more { 0.25 } else { 0.0 }
    };
    let expected: Vec<f32> = x.iter().map(of).collect();
    let (x, mut results) = (stream.create(&x)?, stream.create(&[0.0; 200])?);
    lookups(&x, &mut results).launch(&stream, 200)?;
    equal("results", &stream.read(&results).wait()?, &expected)?;
    lookups_of_cubes(&x, &mut results).launch(&stream, 200)?;
    equal(
        "results of cubes",
        &stream.read(&results).wait()?,
        &expected,
    )
}

/// Compares `nested` with plain Rust.
///
/// # Errors
/// They differ.
pub fn nested_match(device: &Device) -> Checked {
    let stream = device.new_stream();
    let of = |i: i32| {
        let mut b = [[1, i, 0], [0, 1, i], [i, 0, 1]];
        let mut a: [[i32; 3]; 3] = std::array::from_fn(|row| {
            std::array::from_fn(|column| (0..3).map(|k| b[row][k] * STENCIL[k][column]).sum())
        });
        b[1] = a[2];
        a[0][2] = b[1][1];
        [
            a[0][2] + 1000 * a[1][1],
            i + 1000 * b[1][2],
            1 + 5 + i + 1,
            5 + i,
            3 * i + 1 + 3 * i + 2,
            9,
            STENCIL[(i % 3) as usize][1]
                + 10 * (if i % 2 == 0 { 5 + i } else { 0 } + if i > 20 { 6 + i } else { 1 }),
        ]
    };
    let expected: Vec<i32> = (0..50).flat_map(of).collect();
    let mut results = stream.create(&vec![0; expected.len()])?;
    nested(&mut results).launch(&stream, 50)?;
    equal("results", &stream.read(&results).wait()?, &expected)
}
