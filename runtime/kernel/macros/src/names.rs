//! The functions and methods that kernels have without an import.

/// Methods of numbers: the name, the function of `plain` and `traced`, and the number of arguments.
pub(crate) const METHODS: &[(&str, &str, usize)] = &[
    ("abs", "abs", 0),
    ("ceil", "ceil", 0),
    ("cos", "cos", 0),
    ("erf", "erf", 0),
    ("exp", "exp", 0),
    ("floor", "floor", 0),
    ("ln", "ln", 0),
    ("max", "max", 1),
    ("min", "min", 1),
    ("mul_add", "mul_add", 2),
    ("powf", "powf", 1),
    ("sin", "sin", 0),
    ("sqrt", "sqrt", 0),
    ("tanh", "tanh", 0),
    ("to_bits", "to_bits", 0),
    ("wrapping_add", "add", 1),
    ("wrapping_mul", "mul", 1),
    ("wrapping_sub", "sub", 1),
];

/// Methods of numbers that are composed of several operations: the name, also of the function of `plain` and `traced`, and the
/// number of arguments.
pub(crate) const COMPOSED: &[(&str, usize)] = &[
    ("abs_diff", 1),
    ("acos", 0),
    ("asin", 0),
    ("atan", 0),
    ("atan2", 1),
    ("copysign", 1),
    ("cosh", 0),
    ("count_ones", 0),
    ("count_zeros", 0),
    ("exp2", 0),
    ("fract", 0),
    ("hypot", 1),
    ("is_finite", 0),
    ("is_infinite", 0),
    ("is_sign_negative", 0),
    ("is_sign_positive", 0),
    ("leading_zeros", 0),
    ("log10", 0),
    ("log2", 0),
    ("pow", 1),
    ("powi", 1),
    ("recip", 0),
    ("rem_euclid", 1),
    ("reverse_bits", 0),
    ("rotate_left", 1),
    ("rotate_right", 1),
    ("round", 0),
    ("saturating_add", 1),
    ("saturating_sub", 1),
    ("signum", 0),
    ("sin_cos", 0),
    ("sinh", 0),
    ("tan", 0),
    ("to_degrees", 0),
    ("to_radians", 0),
    ("trailing_zeros", 0),
    ("trunc", 0),
];

/// Atomic operations on elements: the name, and the number of arguments.
pub(crate) const ATOMICS: &[(&str, usize)] = &[
    ("compare_exchange", 2),
    ("fetch_add", 1),
    ("fetch_and", 1),
    ("fetch_max", 1),
    ("fetch_min", 1),
    ("fetch_or", 1),
    ("fetch_sub", 1),
    ("fetch_xor", 1),
    ("load", 0),
    ("store", 1),
    ("swap", 1),
];

/// Functions of threads that work together: the name, and the number of arguments.
pub(crate) const OF_CUBES: &[(&str, usize)] = &[
    ("barrier", 0),
    ("cube", 0),
    ("cube_max", 1),
    ("cube_min", 1),
    ("cube_position", 0),
    ("cube_product", 1),
    ("cube_sum", 1),
    ("cubes", 0),
    ("position_in_cube", 0),
    ("thread_in_cube", 0),
    ("threads_in_cube", 0),
];

/// Functions of the threads of a subgroup, whose number is in brackets: the name, and the number of arguments.
pub(crate) const OF_SUBGROUPS: &[(&str, usize)] = &[
    ("shuffle", 2),
    ("shuffle_down", 2),
    ("shuffle_up", 2),
    ("shuffle_xor", 2),
    ("subgroup_max", 1),
    ("subgroup_min", 1),
    ("subgroup_product", 1),
    ("subgroup_sum", 1),
    ("thread_in_subgroup", 0),
];
