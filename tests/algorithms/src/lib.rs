//! Published algorithms as kernels in Rust, each compared with plain Rust on random and on hard inputs.
//!
//! [`ALL`] has them by name: a suite of a device runs each.

pub mod atomics;
pub mod camera;
pub mod contract;
pub mod convolution;
pub mod cubecl_book;
pub mod everyday;
pub mod fluid;
pub mod helpers;
pub mod language;
pub mod library;
pub mod maps;
pub mod math;
pub mod options;
pub mod rays;
pub mod rodinia;
pub mod said;
pub mod samples;
pub mod sorting;
pub mod structs;
pub mod subgroups;

use std::error::Error;

use millstream::Device;

use rodinia::{back_propagation, breadth_first, hotspot, k_means, lu, needle};

/// The result of a check.
pub type Checked = Result<(), Box<dyn Error>>;

/// A check of one algorithm on a device.
pub type Check = fn(&Device) -> Checked;

/// All algorithms.
pub const ALL: &[(&str, Check)] = &[
    ("saxpy", maps::saxpy_matches),
    ("black_scholes", maps::black_scholes_matches),
    ("mandelbrot", maps::mandelbrot_matches),
    ("n_body", maps::n_body_matches),
    ("convolution", maps::convolution_matches),
    ("rays", rays::trace_matches),
    ("transpose", samples::transpose_matches),
    ("reduction", samples::reduction_matches),
    ("scan", samples::scan_matches),
    ("histogram", samples::histogram_matches),
    ("product", samples::product_matches),
    ("bitonic", samples::bitonic_matches),
    ("convolution_columns", convolution::columns_match),
    ("monte_carlo", options::monte_carlo_matches),
    ("radix_sort", sorting::radix_sort_matches),
    ("compaction", sorting::compaction_matches),
    ("hotspot", hotspot::hotspot_matches),
    ("k_means", k_means::k_means_matches),
    ("back_propagation", back_propagation::training_matches),
    ("breadth_first", breadth_first::breadth_first_matches),
    ("lu", lu::lu_matches),
    ("needle", needle::needle_matches),
    ("gelu", cubecl_book::gelu_matches),
    ("row_sums", cubecl_book::row_sums_match),
    ("product_by_cubes", cubecl_book::product_matches),
    ("fluid", fluid::fluid_matches),
    ("expressions", language::expressions_match),
    ("control", language::control_matches),
    ("asserts", said::asserts_match),
    ("prints", said::prints_match),
    ("helpers", language::helpers_match),
    ("generics", language::generics_match),
    ("positions", language::positions_match),
    ("copies", language::copies_match),
    ("jumps", language::jumps_match),
    ("types", language::types_match),
    ("loops with values", everyday::loops_match),
    ("closures", everyday::closures_match),
    ("letters", everyday::letters_match),
    ("short forms", everyday::short_forms_match),
    ("short forms in cubes", everyday::cubes_match),
    ("bodies", structs::bodies_match),
    ("picture", camera::picture_matches),
    ("structs", structs::structs_match),
    ("structs_of_several_types", structs::mixed_match),
    ("structs_in_cubes", structs::cubes_match),
    ("nested_arrays", structs::nested_match),
    ("large_tables", structs::lookups_match),
    ("queues", atomics::queues_match),
    ("components", atomics::components_match),
    ("extrema", atomics::extrema_match),
    ("atomics", atomics::operations_match),
    ("contractions", contract::contractions_match),
    ("functions of floats", math::floats_match),
    ("functions of integers", math::integers_match),
    ("row_sums_by_subgroups", subgroups::row_sums_match),
    ("scan_by_shuffles", subgroups::scan_matches),
    ("sort_by_shuffles", subgroups::sort_matches),
    ("subgroups", subgroups::subgroups_match),
    ("helpers_of_cubes", helpers::helpers_match),
    ("constants_of_cubes", helpers::constants_match),
    ("constant_arrays", helpers::tables_match),
    ("kernels: reductions", library::reductions_match),
    ("kernels: scans", library::scans_match),
    ("kernels: sorts", library::sorts_match),
    ("kernels: histograms", library::histograms_match),
    ("kernels: moves", library::moves_match),
    ("kernels: matrices", library::matrices_match),
    ("kernels: convolutions", library::convolutions_match),
    ("kernels: randoms", library::randoms_match),
];

/// Returns random numbers from 0 up to 1, the same of each seed.
pub fn uniform(seed: u64, len: usize) -> Vec<f32> {
    use rand_xoshiro::rand_core::{Rng, SeedableRng};
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..len)
        .map(|_| (random.next_u64() >> 40) as f32 / (1 << 24) as f32)
        .collect()
}

/// Returns an error unless all numbers are near: by this part of the larger, or of one.
pub fn near(what: &str, given: &[f32], expected: &[f32], part: f32) -> Checked {
    if given.len() != expected.len() {
        return Err(format!(
            "{what}: {} numbers, expected {}",
            given.len(),
            expected.len()
        )
        .into());
    }
    let far = |(a, b): (&f32, &f32)| {
        let is_near = (a - b).abs() <= part * a.abs().max(b.abs()).max(1.0);
        !(is_near || a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
    };
    match given.iter().zip(expected).position(far) {
        None => Ok(()),
        Some(at) => Err(format!("{what}[{at}] is {}, expected {}", given[at], expected[at]).into()),
    }
}

/// Returns an error unless both are equal.
pub fn equal<T: PartialEq + std::fmt::Debug>(what: &str, given: &[T], expected: &[T]) -> Checked {
    if given == expected {
        return Ok(());
    }
    let at = given.iter().zip(expected).position(|(a, b)| a != b);
    let at = at.ok_or_else(|| {
        format!(
            "{what}: {} values, expected {}",
            given.len(),
            expected.len()
        )
    })?;
    Err(format!(
        "{what}[{at}] is {:?}, expected {:?}",
        given[at], expected[at]
    )
    .into())
}
