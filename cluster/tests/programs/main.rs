//! Programs over groups: the same result on any number of devices, and on devices of other processes.

#![allow(clippy::unwrap_used, reason = "tests")]

use millstream_cluster_programs::{digits, networks, reaction};

mod devices;
mod digits_tests;
#[allow(dead_code, reason = "the tests use its reference alone")]
#[path = "../../../examples/reaction/model.rs"]
mod model;
mod reaction_tests;
