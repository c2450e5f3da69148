//! Nests become functions, and launches of them cubes: both by the nest and the words alone.

use millstream_ir::lower::{self, Geometry, Kind, Limits, geometry, tiles};
use millstream_ir::{Blocking, DType, Matmul, Nest, Program, Rows};
use proptest::prelude::*;
use rstest::rstest;

/// A GPU of 132 multiprocessors.
const LIMITS: Limits = Limits { cubes_at_once: 792 };
const ROUNDS: u32 = 8;
/// Where a buffer may begin for accesses of 16 bytes.
const ALIGNED: u64 = 0x7000_0000_0100;

fn nest(text: &str) -> Nest {
    let nest: Nest = text.parse().unwrap_or_else(|error| panic!("{error}"));
    nest.check().unwrap_or_else(|error| panic!("{error}"));
    nest
}

/// `y = exp(x)` over so many axes: the last one has neighbours, all others words.
fn elementwise(rank: usize, dtype: &str) -> Nest {
    let outer: Vec<String> = (rank..2 * rank.max(1) - 1)
        .map(|word| format!("w{word}"))
        .collect();
    let strides = match rank {
        0 => String::new(),
        _ => format!("{} 1", outer.join(" ")),
    };
    let (words, offset) = (2 * rank.max(1), 2 * rank.max(1) - 1);
    nest(&format!(
        "nest outer {rank} inner 0 words {words}
         buffer 0 {dtype} read  buffer 1 {dtype} write
         access 0 = buffer 0 + w{offset} [{strides}]  access 1 = buffer 1 [{strides}]
         %0 {dtype} = load 0
         store outer 1 %0"
    ))
}

/// Launch words of it: lengths, dense strides, and an offset.
fn dense(lens: &[u64], offset: u64) -> Vec<u64> {
    let stride = |axis: usize| lens[axis + 1..].iter().product::<u64>();
    let strides = (0..lens.len().saturating_sub(1)).map(stride);
    let mut words: Vec<u64> = lens.iter().copied().chain(strides).collect();
    words.resize(2 * lens.len().max(1) - 1, 0);
    words.push(offset);
    words
}

fn thread(lanes: u8, cubes: u32) -> Geometry {
    let kind = Kind::Thread { lanes };
    Geometry { kind, cubes }
}

#[rstest]
// Rank 0 is one element; a length of none is nothing to do.
#[case(&[], 0, "f32", thread(1, 1))]
#[case(&[0], 0, "f32", thread(1, 0))]
#[case(&[7, 0, 4], 0, "f32", thread(1, 0))]
// 16 bytes a thread, where all begins where it may.
#[case(&[4], 0, "f32", thread(4, 1))]
#[case(&[1024], 0, "f32", thread(4, 1))]
#[case(&[1028], 0, "f32", thread(4, 2))]
#[case(&[1024], 0, "f64", thread(2, 2))]
#[case(&[2048], 0, "f16", thread(8, 1))]
#[case(&[2048], 0, "u8", thread(8, 1))]
#[case(&[1024], 1, "f32", thread(1, 4))]
#[case(&[1025], 0, "f32", thread(1, 5))]
#[case(&[3, 1024], 0, "f32", thread(4, 3))]
#[case(&[1024, 3], 0, "f32", thread(1, 12))]
#[case(&[5, 3, 64], 0, "f32", thread(4, 1))]
#[case(&[2, 5, 3, 64], 0, "f32", thread(4, 2))]
// Threads go on rather than more cubes being started than the GPU has room for a few times.
#[case(&[1 << 30], 0, "f32", thread(4, 792 * ROUNDS))]
#[case(&[u64::MAX / 2, u64::MAX / 2], 1, "f32", thread(1, 792 * ROUNDS))]
fn elements_are_spread_over_threads(
    #[case] lens: &[u64],
    #[case] offset: u64,
    #[case] dtype: &str,
    #[case] expected: Geometry,
) {
    let nest = elementwise(lens.len(), dtype);
    let words = dense(lens, offset);
    let found = geometry(&nest, &words, &[ALIGNED; 2], LIMITS, Blocking::USUAL);
    assert_eq!(found, expected, "{nest}");
    // A function for each way that a launch may run.
    let functions = lower::nest(&nest, Blocking::USUAL).unwrap_or_else(|error| panic!("{error}"));
    assert!(functions.iter().any(|(kind, _)| *kind == found.kind));
}

#[rstest]
#[case(8)]
#[case(4)]
fn a_buffer_that_begins_anywhere_is_walked_one_by_one(#[case] beside: u64) {
    let nest = elementwise(1, "f32");
    let words = dense(&[4096], 0);
    for addresses in [[ALIGNED + beside, ALIGNED], [ALIGNED, ALIGNED + beside]] {
        assert_eq!(
            geometry(&nest, &words, &addresses, LIMITS, Blocking::USUAL),
            thread(1, 16)
        );
    }
    // What is not known is not relied on.
    assert_eq!(
        geometry(&nest, &words, &[], LIMITS, Blocking::USUAL),
        thread(1, 16)
    );
}

/// `y[row] = sum over j of x[row, j]`, both strides words.
fn sums() -> Nest {
    nest(
        "nest outer 1 inner 1 words 4
         buffer 0 f32 read  buffer 1 f32 write
         access 0 = buffer 0 [w2 w3]  access 1 = buffer 1 [1 0]
         %0 f32 = load 0  %1 f32 = reduce sum %0
         store outer 1 %1",
    )
}

#[rstest]
// Rows whose elements lie side by side: many threads each.
#[case::one_long([1, 1 << 20, 1 << 20, 1], Kind::Cube, 1)]
#[case::few_long([100, 4096, 4096, 1], Kind::Cube, 100)]
#[case::few_of_some([100, 500, 500, 1], Kind::Cube, 100)]
#[case::many_of_some([100_000, 500, 500, 1], Kind::Row, 792 * ROUNDS)]
#[case::some_short([1000, 20, 20, 1], Kind::Row, 125)]
#[case::many_very_short([100_000, 4, 4, 1], Kind::Thread { lanes: 1 }, 391)]
#[case::of_one([10, 1, 1, 1], Kind::Thread { lanes: 1 }, 1)]
#[case::of_none([10, 0, 1, 1], Kind::Thread { lanes: 1 }, 1)]
// Rows that lie side by side themselves: a thread each, if there are many.
#[case::columns([100_000, 1000, 1, 100_000], Kind::Thread { lanes: 1 }, 391)]
#[case::few_columns([10, 100_000, 1, 10], Kind::Cube, 10)]
fn rows_are_walked_as_they_lie(#[case] words: [u64; 4], #[case] kind: Kind, #[case] cubes: u32) {
    let found = geometry(&sums(), &words, &[ALIGNED; 2], LIMITS, Blocking::USUAL);
    assert_eq!(found, Geometry { kind, cubes });
}

#[rstest]
#[case(&[64, 64, 8], 0, 1)]
#[case(&[65, 64, 8], 0, 2)]
#[case(&[65, 200, 8], 0, 8)]
#[case(&[3, 65, 200, 8], 1, 24)]
#[case(&[0, 65, 200, 8], 1, 0)]
#[case(&[2, 0, 200, 8], 1, 0)]
#[case(&[u64::MAX / 2, 1 << 40, 1 << 40, 8], 1, i32::MAX as u32)]
fn a_product_has_a_cube_for_each_tile(
    #[case] words: &[u64],
    #[case] batch: usize,
    #[case] cubes: u32,
) {
    let matmul = Matmul {
        dtype: DType::F32,
        partial: false,
        batch,
        epilogue: None,
    };
    // A length that is none, below zero, is nothing.
    assert_eq!(
        tiles(&matmul, words, Blocking::USUAL).cubes,
        if words[0] > i64::MAX as u64 { 0 } else { cubes }
    );
}

/// The usual way to cut a program up, and all others.
fn ways(program: &Program) -> impl Iterator<Item = Blocking> {
    let usual = [Blocking::USUAL].into_iter();
    usual.chain(lower::blockings(program))
}

/// A launch that would be cubes is run as it was asked for.
#[rstest]
#[case(Blocking::USUAL, Kind::Cube, 1)]
#[case(Blocking::USUAL.rows(Rows::Cube), Kind::Cube, 1)]
#[case(Blocking::USUAL.rows(Rows::Along), Kind::Row, 1)]
#[case(Blocking::USUAL.rows(Rows::Across), Kind::Thread { lanes: 1 }, 1)]
fn rows_are_walked_as_a_blocking_says(
    #[case] blocking: Blocking,
    #[case] kind: Kind,
    #[case] cubes: u32,
) {
    let words = [1, 1 << 20, 1 << 20, 1];
    let found = geometry(&sums(), &words, &[ALIGNED; 2], LIMITS, blocking);
    assert_eq!(found, Geometry { kind, cubes });
}

#[test]
fn a_thread_takes_as_many_elements_as_a_blocking_says_if_it_may() {
    let nest = elementwise(1, "f32");
    let found = |vector, len| {
        let blocking = Blocking::USUAL.vector(vector);
        geometry(&nest, &dense(&[len], 0), &[ALIGNED; 2], LIMITS, blocking)
    };
    let of = [1, 2].map(|vector| {
        lower::blockings(&Program::Nest(elementwise(1, "f32")))
            .contains(&Blocking::USUAL.vector(vector))
    });
    assert_eq!(of, [true, true]);
    assert_eq!(found(1, 4096), thread(1, 16));
    assert_eq!(found(2, 4096), thread(2, 8));
    assert_eq!(found(2, 4095), thread(1, 16));
}

#[test]
fn a_product_has_a_cube_for_each_tile_that_was_asked_for() {
    let matmul = Matmul {
        dtype: DType::F32,
        partial: false,
        batch: 0,
        epilogue: None,
    };
    let cubes =
        |rows, columns| tiles(&matmul, &[65, 200, 8], Blocking::USUAL.tile(rows, columns)).cubes;
    assert_eq!((cubes(128, 128), cubes(32, 64)), (2, 12));
}

/// A nest of many values in a row: nothing here calls itself for each of them.
#[test]
fn a_long_chain_is_lowered() {
    let mut text = "nest outer 1 inner 0 words 1
        buffer 0 f32 update  access 0 = buffer 0 [1]  %0 f32 = load 0\n"
        .to_owned();
    for value in 1..20_000 {
        text += &format!("%{value} f32 = neg %{}\n", value - 1);
    }
    text += "store outer 0 %19999";
    let functions =
        lower::nest(&nest(&text), Blocking::USUAL).unwrap_or_else(|error| panic!("{error}"));
    assert!(
        functions
            .iter()
            .all(|(_, function)| function.values.len() > 20_000)
    );
}

proptest! {
    /// No words make of a launch what no device can run, whatever they say.
    #[test]
    fn any_words_have_a_geometry(words in prop::collection::vec(any::<u64>(), 0..8), at in any::<u64>()) {
        for nest in [sums(), elementwise(2, "f16"), elementwise(3, "u8")] {
            for blocking in ways(&Program::Nest(nest.clone())) {
                let found = geometry(&nest, &words, &[at, at], LIMITS, blocking);
                prop_assert!(found.cubes <= 792 * ROUNDS);
                let functions = lower::nest(&nest, blocking).unwrap_or_else(|error| panic!("{error}"));
                // Nothing to do needs no function.
                prop_assert!(found.cubes == 0 || functions.iter().any(|(kind, _)| *kind == found.kind), "{blocking}");
            }
        }
        let matmul = Matmul { dtype: DType::F32, partial: false, batch: 1, epilogue: None };
        prop_assert!(tiles(&matmul, &words, Blocking::USUAL).cubes <= i32::MAX as u32);
    }
}
