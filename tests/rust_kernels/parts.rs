//! Indices of arrays within elements: out of bounds they fail the launch on the CPU, in both forms, and on the simulator, and
//! reach no other field. Indices that are known cost nothing.

use millstream::__kernel::call::{Definition, program};
use millstream::Cpu;
use millstream::ir::ssa::{Function, Op, Stmt, statements};
use millstream::prelude::*;
use millstream::sim::Sim;
use rstest::rstest;

#[kernel]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pair {
    ends: [u32; 2],
    rest: [[u32; 2]; 3],
}

/// Names that the text of a macro has as well.
mod names {
    use millstream::prelude::*;

    #[kernel]
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(super) struct Kind {
        pub words: Words,
    }

    #[kernel]
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(super) struct Words {
        pub traced: f32,
    }

    #[kernel]
    #[derive(Clone, Copy)]
    pub(super) struct Parameter {
        pub kind: f32,
    }

    #[kernel]
    pub(super) fn doubled(parameter: Parameter, kinds: &mut [Kind]) {
        let i = thread();
        let kind = Kind {
            words: Words {
                traced: kinds[i].words.traced * parameter.kind,
            },
        };
        kinds[i] = kind;
    }
}

#[rstest]
fn structs_have_any_names(#[values(false, true)] is_sim: bool) {
    use names::{Kind, Parameter, Words, doubled};
    let device = match is_sim {
        true => Device::open(Sim::seed(3)),
        false => Device::open(Cpu::default()),
    };
    let device = device.unwrap();
    let stream = device.new_stream();
    let of = |traced| Kind {
        words: Words { traced },
    };
    let mut kinds = stream.create(&[of(1.5)]).unwrap();
    doubled(Parameter { kind: 2.0 }, &mut kinds)
        .launch_each(&stream)
        .unwrap();
    assert_eq!(stream.read(&kinds).wait().unwrap(), [of(3.0)]);
}

const STEPS: [[u32; 2]; 2] = [[1, 2], [3, 4]];

/// What is out of bounds.
#[kernel]
fn part(what: u32, at: usize, pairs: &mut [Pair], i: usize) {
    match what {
        0 => pairs[i].ends[at + 2] = 9,
        1 => pairs[i].ends[0] = pairs[i].ends[at + 2],
        2 => pairs[i].rest[1][at + 2] += 1,
        3 => pairs[i].rest[at + 3][1] += 1,
        4 => {
            let mut own = [[0_u32; 2]; 2];
            own[at][at + 2] = 7;
            pairs[i].ends[0] = own[1][0];
        }
        5 => pairs[i].ends[0] = STEPS[at][at + 2],
        6 => {
            let own = [at as u32 + 5];
            pairs[i].ends[0] = own[at + 1];
        }
        7 => {
            let mut pair = pairs[i];
            pair.rest[at + 1][at + 2] = 1;
            pairs[i] = pair;
        }
        8 => pairs[i].ends[0] = pairs[i].ends[at as i32 - 1],
        // 2^64 words of four bytes.
        9 => pairs[1_usize << 61].ends[0] = 9,
        _ => pairs[i].ends[1] = pairs[i].rest[at + 2][at + 1],
    }
}

#[kernel]
fn plain(what: u32, at: usize, pairs: &mut [Pair]) {
    part(what, at, pairs, thread());
}

/// The same where the CPU runs the program.
#[kernel(cube = 4)]
fn in_cubes(what: u32, at: usize, pairs: &mut [Pair]) {
    part(what, at, pairs, thread());
}

#[rstest]
fn an_index_of_a_part_out_of_bounds_fails(
    #[values(false, true)] is_sim: bool,
    #[values(false, true)] is_in_cubes: bool,
) {
    let device = match is_sim {
        true => Device::open(Sim::seed(3)),
        false => Device::open(Cpu::default()),
    };
    let device = device.unwrap();
    let stream = device.new_stream();
    for what in 0..11 {
        let mut pairs = stream.create(&[Pair::default(); 8]).unwrap();
        match is_in_cubes {
            true => in_cubes(what, 0, &mut pairs).launch(&stream, 8),
            false => plain(what, 0, &mut pairs).launch(&stream, 8),
        }
        .unwrap();
        let read = stream.read(&pairs).wait();
        match what {
            10 => assert_eq!(read.unwrap(), [Pair::default(); 8]),
            _ => {
                let error = read.expect_err(&format!("{what}")).to_string();
                assert!(error.contains("out of bounds"), "{what}: {error}");
                assert!(error.contains("parts.rs"), "{what}: {error}");
            }
        }
    }
}

/// Indices that loops with constant bounds have.
#[kernel(cube = 4)]
fn known(pairs: &mut [Pair]) {
    let i = thread();
    for end in 0..2 {
        pairs[i].ends[end] += STEPS[end][0];
        for row in (0..3_u32).rev() {
            pairs[i].rest[row][end] = pairs[i].ends[1];
        }
    }
}

#[test]
fn a_known_index_of_a_part_is_not_compared() {
    fn program_of<D: Definition>(_: D) -> Function {
        program::<D::Key>().unwrap()
    }
    let device = Device::open(Cpu::default()).unwrap();
    let stream = device.new_stream();
    let mut pairs = stream.create(&[Pair::default(); 4]).unwrap();
    let program = program_of(known(&mut pairs));
    let is_select = |stmt: &Stmt| matches!(stmt.op(), Some(Op::Select(..)));
    assert!(!statements(&program.body).any(is_select), "{program}");
}
