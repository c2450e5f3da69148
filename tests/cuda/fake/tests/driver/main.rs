//! Tests of the fake's checker and behaviour, by direct calls of the driver, many of them invalid on purpose.

#![allow(clippy::unwrap_used, reason = "tests")]

mod checks;
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
