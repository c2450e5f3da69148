//! Structs whose fields are those of another one, `Body { mass: 1.0, ..body }`, in branches and loops: rustc failed inside, since
//! the closure that a branch is captured the other fields alone.

use millstream::Cpu;
use millstream::prelude::*;
use millstream::sim::Sim;
use rstest::rstest;

#[kernel]
#[derive(Clone, Copy)]
struct Point {
    x: i16,
    y: i16,
}

#[kernel]
#[derive(Clone, Copy)]
struct Item {
    at: Point,
    weight: i32,
    pair: (Point, u32),
    all: [Point; 2],
}

#[kernel]
fn moved(is_moved: bool, item: Item) -> Item {
    if is_moved {
        let other = Item { weight: 3, ..item };
        if item.weight > 3 {
            other
        } else {
            Item {
                at: Point { x: 30, ..item.at },
                ..item
            }
        }
    } else {
        item
    }
}

#[kernel]
fn sums(item: Item, results: &mut [i32]) {
    let i = thread();
    let mut now = item;
    for _ in 0..i {
        now = Item {
            weight: now.weight + 1,
            ..moved(true, now)
        };
    }
    let (of_pair, last) = (now.pair, now.all[1]);
    results[i] = now.at.x as i32 + 100 * now.weight + of_pair.0.y as i32 + last.x as i32;
}

#[rstest]
fn updated_structs_keep_the_other_fields(#[values("cpu", "sim")] backend: &str) {
    let device = match backend {
        "cpu" => Device::open(Cpu::default()),
        _ => Device::open(Sim::seed(1)),
    }
    .unwrap();
    let stream = device.new_stream();
    let point = Point { x: 1, y: 20 };
    let item = Item {
        at: point,
        weight: 2,
        pair: (point, 7),
        all: [point; 2],
    };
    let mut results = stream.create(&[0; 4]).unwrap();
    sums(item, &mut results).launch_each(&stream).unwrap();
    let given = stream.read(&results).wait().unwrap();
    assert_eq!(given, [222, 351, 451, 551]);
}
