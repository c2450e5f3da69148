//! Random kernels have what the language has: each of these texts occurs.

use millstream_random_kernel_trees::method::METHODS;
use millstream_random_kernel_trees::{TESTED, kernel, text};

/// Those that `cargo test` compiles have these texts.
const IN_FEW: &[(&str, &str)] = &[
    ("structs as elements", "#[repr(C)]\n"),
    ("structs in buffers that are changed", ": &mut [S"),
    ("structs in buffers that are read", ": &[S"),
    ("fields", ".f0"),
    ("fields that are assigned", "[i].f"),
    ("structs that are put together", " { f0: "),
    ("the other fields of a struct", ", ..v"),
    ("methods of structs", "impl S"),
    ("structs as parameters", "0: S"),
    ("constants", "pub const T"),
    ("elements of constants", "_0["),
    ("arrays in arrays", ": [["),
    ("tuples in arrays", "[("),
    ("atomics", ": &[Atomic<"),
    ("sums by atomics", ".fetch_add("),
    ("cubes", "#[kernel(cube = "),
    ("shared arrays", "= shared::<"),
    ("barriers", "barrier();"),
    ("reductions of subgroups", "subgroup_"),
    ("shuffles", "= shuffle"),
];

/// A few hundred also have these.
const IN_MANY: &[&str] = &[
    ".fetch_sub(",
    ".fetch_min(",
    ".fetch_max(",
    ".fetch_and(",
    ".fetch_or(",
    ".fetch_xor(",
    ".swap(",
    ".compare_exchange(",
    ".load()",
    ".store(",
    "x: &[Atomic<",
    "x: &[S",
    "#[whole] y1: &mut [S",
    "; 2]; 2]",
    "= cube_sum(",
    "= cube_product(",
    "= cube_min(",
    "= cube_max(",
    "= subgroup_sum::<32>(",
    "= subgroup_product::<",
    "= subgroup_min::<",
    "= subgroup_max::<",
    "= shuffle::<",
    "= shuffle_xor::<",
    "= shuffle_down::<",
    "= shuffle_up::<",
    "thread_in_cube() ",
    "= shared::<S",
    "= shared::<Atomic<u64>",
    "#[kernel(in_cube)]",
    ", m0);",
];

fn texts(seeds: std::ops::Range<u64>) -> String {
    seeds.map(|seed| text::text(&kernel(seed))).collect()
}

#[test]
fn the_kernels_of_the_tests_have_each_feature() {
    let text = texts(TESTED);
    for (what, part) in IN_FEW {
        assert!(text.contains(part), "no {what}: `{part}`");
    }
}

#[test]
fn a_few_hundred_kernels_have_each_operation() {
    let text = texts(1..400);
    let methods = METHODS.iter().map(|(_, name)| format!("{name}("));
    for part in IN_MANY.iter().copied().map(str::to_owned).chain(methods) {
        assert!(text.contains(&part), "no `{part}`");
    }
}

#[test]
fn a_seed_always_gives_the_same_kernel() {
    assert_eq!(texts(7..30), texts(7..30));
}
