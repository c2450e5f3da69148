//! Tests of the fake's checker and behaviour, by direct calls of the driver, many of them invalid on purpose.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../src/access.rs"]
#[allow(dead_code, reason = "for its tests")]
mod access;
mod checks;
#[path = "../../src/clock.rs"]
#[allow(dead_code, reason = "for its tests")]
mod clock;
mod graphs;
mod kernels;
mod launches;
mod nodes;
mod peers;
mod raw;
mod semantics;
mod streams;
mod tensor_maps;
mod times;
