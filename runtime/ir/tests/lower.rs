//! Lowering: functions of nests, and geometries of launches. Both depend on the nest and the launch words alone.

use millstream_ir::lower::{self, Geometry, Kind, geometry, tiles};
use millstream_ir::{Blocking, DType, Matmul, Nest, Program, Rows};
use proptest::prelude::*;
use rstest::rstest;

/// A GPU of 132 multiprocessors.
const AT_ONCE: u32 = 792;
const ROUNDS: u32 = 8;
/// The address of a buffer that is aligned for accesses of 16 bytes.
const ALIGNED: u64 = 0x7000_0000_0100;

fn nest(text: &str) -> Nest {
    let nest = millstream_ir_text::nest(text).unwrap_or_else(|error| panic!("{error}"));
    nest.check().unwrap_or_else(|error| panic!("{error}"));
    nest
}

/// Returns a copy over `rank` axes: the last one is contiguous, the strides of all others are words.
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

/// Returns the launch words of `elementwise`: lengths, dense strides, and an offset.
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
// Rank 0 has one element; with a length of 0 there is nothing to do.
#[case(&[], 0, "f32", thread(1, 1))]
#[case(&[0], 0, "f32", thread(1, 0))]
#[case(&[7, 0, 4], 0, "f32", thread(1, 0))]
// 16 bytes for each thread, if everything is aligned.
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
// The number of cubes is bounded: threads loop.
#[case(&[1 << 30], 0, "f32", thread(4, 792 * ROUNDS))]
#[case(&[u64::MAX / 2, u64::MAX / 2], 1, "f32", thread(1, 792 * ROUNDS))]
fn elementwise_launch_has_the_expected_lanes_and_cubes(
    #[case] lens: &[u64],
    #[case] offset: u64,
    #[case] dtype: &str,
    #[case] expected: Geometry,
) {
    let nest = elementwise(lens.len(), dtype);
    let words = dense(lens, offset);
    let found = geometry(&nest, &words, &[ALIGNED; 2], AT_ONCE, Blocking::DEFAULT);
    assert_eq!(found, expected, "{nest:?}");
    // There is a function for the chosen kind.
    let functions = lower::nest(&nest, Blocking::DEFAULT).unwrap_or_else(|error| panic!("{error}"));
    assert!(functions.iter().any(|(kind, _)| *kind == found.kind));
}

#[rstest]
#[case(8)]
#[case(4)]
fn unaligned_buffer_is_accessed_element_by_element(#[case] beside: u64) {
    let nest = elementwise(1, "f32");
    let words = dense(&[4096], 0);
    for addresses in [[ALIGNED + beside, ALIGNED], [ALIGNED, ALIGNED + beside]] {
        assert_eq!(
            geometry(&nest, &words, &addresses, AT_ONCE, Blocking::DEFAULT),
            thread(1, 16)
        );
    }
    // Unknown addresses count as unaligned.
    assert_eq!(
        geometry(&nest, &words, &[], AT_ONCE, Blocking::DEFAULT),
        thread(1, 16)
    );
}

/// Returns `y[row] = sum over j of x[row, j]`; both strides of `x` are words.
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
// Contiguous rows: many threads for each.
#[case::one_long([1, 1 << 20, 1 << 20, 1], Kind::Cube, 1)]
#[case::few_long([100, 4096, 4096, 1], Kind::Cube, 100)]
#[case::few_of_some([100, 500, 500, 1], Kind::Cube, 100)]
#[case::many_of_some([100_000, 500, 500, 1], Kind::Row, 792 * ROUNDS)]
#[case::some_short([1000, 20, 20, 1], Kind::Row, 125)]
#[case::many_very_short([100_000, 4, 4, 1], Kind::Thread { lanes: 1 }, 391)]
#[case::of_one([10, 1, 1, 1], Kind::Thread { lanes: 1 }, 1)]
#[case::of_none([10, 0, 1, 1], Kind::Thread { lanes: 1 }, 1)]
// Columns: one thread for each, if there are many.
#[case::columns([100_000, 1000, 1, 100_000], Kind::Thread { lanes: 1 }, 391)]
#[case::few_columns([10, 100_000, 1, 10], Kind::Cube, 10)]
fn kind_of_a_reduction_depends_on_lengths_and_strides(
    #[case] words: [u64; 4],
    #[case] kind: Kind,
    #[case] cubes: u32,
) {
    let found = geometry(&sums(), &words, &[ALIGNED; 2], AT_ONCE, Blocking::DEFAULT);
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
fn product_has_a_cube_for_each_tile(
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
    // A negative length counts as 0.
    assert_eq!(
        tiles(&matmul, words, Blocking::DEFAULT),
        if words[0] > i64::MAX as u64 { 0 } else { cubes }
    );
}

/// Returns the default blocking of a program, and all others.
fn ways(program: &Program) -> impl Iterator<Item = Blocking> {
    let usual = [Blocking::DEFAULT].into_iter();
    usual.chain(lower::blockings(program))
}

/// A launch whose default kind is `Cube` uses the kind of its blocking.
#[rstest]
#[case(Blocking::DEFAULT, Kind::Cube, 1)]
#[case(Blocking::DEFAULT.rows(Rows::Cube), Kind::Cube, 1)]
#[case(Blocking::DEFAULT.rows(Rows::Along), Kind::Row, 1)]
#[case(Blocking::DEFAULT.rows(Rows::Across), Kind::Thread { lanes: 1 }, 1)]
fn blocking_selects_the_kind_of_a_reduction(
    #[case] blocking: Blocking,
    #[case] kind: Kind,
    #[case] cubes: u32,
) {
    let words = [1, 1 << 20, 1 << 20, 1];
    let found = geometry(&sums(), &words, &[ALIGNED; 2], AT_ONCE, blocking);
    assert_eq!(found, Geometry { kind, cubes });
}

#[test]
fn blocking_limits_the_lanes_of_a_thread() {
    let nest = elementwise(1, "f32");
    let found = |vector, len| {
        let blocking = Blocking::DEFAULT.vector(vector);
        geometry(&nest, &dense(&[len], 0), &[ALIGNED; 2], AT_ONCE, blocking)
    };
    let of = [1, 2].map(|vector| {
        lower::blockings(&Program::Nest(elementwise(1, "f32")))
            .contains(&Blocking::DEFAULT.vector(vector))
    });
    assert_eq!(of, [true, true]);
    assert_eq!(found(1, 4096), thread(1, 16));
    assert_eq!(found(2, 4096), thread(2, 8));
    assert_eq!(found(2, 4095), thread(1, 16));
}

#[test]
fn blocking_selects_the_tile_of_a_product() {
    let matmul = Matmul {
        dtype: DType::F32,
        partial: false,
        batch: 0,
        epilogue: None,
    };
    let cubes = |rows, columns| {
        let blocking = Blocking::DEFAULT.tile(rows, columns);
        tiles(&matmul, &[65, 200, 8], blocking)
    };
    assert_eq!((cubes(128, 128), cubes(32, 64)), (2, 12));
}

/// Lowering is iterative: a chain of 20,000 values needs no deep stack.
#[test]
fn chain_of_20_000_values_is_lowered() {
    let mut text = "nest outer 1 inner 0 words 1
        buffer 0 f32 update  access 0 = buffer 0 [1]  %0 f32 = load 0\n"
        .to_owned();
    for value in 1..20_000 {
        text += &format!("%{value} f32 = neg %{}\n", value - 1);
    }
    text += "store outer 0 %19999";
    let functions =
        lower::nest(&nest(&text), Blocking::DEFAULT).unwrap_or_else(|error| panic!("{error}"));
    assert!(
        functions
            .iter()
            .all(|(_, function)| function.values.len() > 20_000)
    );
}

proptest! {
    /// Whatever the words are, the geometry is one that a device can run.
    #[test]
    fn any_words_have_a_geometry_with_a_function(words in prop::collection::vec(any::<u64>(), 0..8), at in any::<u64>()) {
        for nest in [sums(), elementwise(2, "f16"), elementwise(3, "u8")] {
            for blocking in ways(&Program::Nest(nest.clone())) {
                let found = geometry(&nest, &words, &[at, at], AT_ONCE, blocking);
                prop_assert!(found.cubes <= 792 * ROUNDS);
                let functions = lower::nest(&nest, blocking).unwrap_or_else(|error| panic!("{error}"));
                // A launch without cubes needs no function.
                prop_assert!(found.cubes == 0 || functions.iter().any(|(kind, _)| *kind == found.kind), "{blocking}");
            }
        }
        let matmul = Matmul { dtype: DType::F32, partial: false, batch: 1, epilogue: None };
        prop_assert!(tiles(&matmul, &words, Blocking::DEFAULT) <= i32::MAX as u32);
    }
}
