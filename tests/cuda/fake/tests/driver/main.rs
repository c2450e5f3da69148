//! What the fake finds, and how it behaves: by calls of the driver that are wrong on purpose.

#![allow(clippy::unwrap_used, reason = "tests")]

mod broken_captures;
mod captures;
mod checks;
mod graphs;
mod host;
mod kernels;
mod launches;
mod maps;
mod nodes;
mod peers;
mod raw;
mod semantics;
mod streams;
mod tensor_maps;
mod times;
mod values;
