//! Tests of modules: that they are valid, and that routines compute what the reference does.

mod machine;
mod operations;
mod programs;
mod routines;
mod validity;

use crate::Features;

const ALL_FEATURES: Features = Features {
    f64: true,
    i8: true,
    i16: true,
    storage_8: true,
    storage_16: true,
    buffer_i64_atomics: true,
    shared_i64_atomics: true,
    buffer_f32_atomic_add: true,
    shared_f32_atomic_add: true,
    buffer_f64_atomic_add: true,
    shared_f64_atomic_add: true,
    subgroup_width: 8,
    subgroups_max: 32,
    subgroup_extended_types: true,
    preserve_f32: true,
    preserve_f64: true,
    subnormals_f32: true,
    subnormals_f64: true,
};
