//! Kernels of the IR as test cases for any device: launches, and the expected contents of their buffers, by
//! their definition.
//!
//! | module | contents |
//! | --- | --- |
//! | [`nests`] | nests: their texts, words and lengths |
//! | [`products`] | matrix products, with and without an epilogue |
//! | [`functions`] | SSA functions that are written by hand |
//! | [`control`] | SSA functions with every statement of control flow, by hand and random ones |
//! | [`operations`] | every operation on every type, with operands that reach its edges |
//! | [`results`] | runs a nest by every entry point and blocking, and compares the results |
//! | [`launch`] | runs a program over buffers of bytes |
//! | [`data`] | pseudo-random elements |
//! | [`tolerance`] | assertions about results |
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

pub mod control;
pub mod data;
pub mod functions;
pub mod launch;
pub mod nests;
pub mod operations;
pub mod products;
pub mod results;
pub mod tolerance;

use millstream_client::arguments::CubeCount;
use millstream_client::{ComputeClient, Stream};
pub use millstream_ir::DType;
use millstream_ir::{Blocking, Program};

/// A device that runs programs.
pub trait Runs {
    /// Returns a client of the device, and a stream of it.
    fn stream(&self) -> (&ComputeClient, &Stream);

    /// Runs a program with a blocking over buffers with these contents, in this number of cubes and with these launch
    /// words. Returns the contents of the buffers afterwards.
    fn run_blocked(
        &self,
        program: Program,
        blocking: Blocking,
        cubes: u32,
        buffers: &[Vec<u8>],
        words: &[u64],
    ) -> Vec<Vec<u8>> {
        let launch = launch::Launch {
            program,
            blocking,
            cubes: CubeCount::Static(cubes, 1, 1),
            buffers,
            words,
        };
        let (client, stream) = self.stream();
        let ran = launch.run(client, stream);
        ran.unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Self::run_blocked`], with the default blocking.
    fn run(
        &self,
        program: Program,
        cubes: u32,
        buffers: &[Vec<u8>],
        words: &[u64],
    ) -> Vec<Vec<u8>> {
        self.run_blocked(program, Blocking::DEFAULT, cubes, buffers, words)
    }
}
