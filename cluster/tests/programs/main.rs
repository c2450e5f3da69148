//! Programs over groups: the same result on any number of devices, and on devices of other processes.

#![allow(clippy::unwrap_used, reason = "tests")]

mod devices;
#[allow(dead_code, reason = "the tests have no command line and no report")]
#[path = "../../programs/digits/mod.rs"]
mod digits;
mod digits_tests;
mod local_network;
#[allow(dead_code, reason = "the tests use its reference alone")]
#[path = "../../../examples/reaction/model.rs"]
mod model;
#[allow(dead_code, reason = "the tests draw no progress bar")]
#[path = "../../programs/reaction/mod.rs"]
mod reaction;
mod reaction_tests;
