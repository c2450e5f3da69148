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
