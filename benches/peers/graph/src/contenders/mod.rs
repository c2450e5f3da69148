//! The contenders, and the traits that they implement.
//!
//! | module | contender |
//! | --- | --- |
//! | [`ours`] | millstream: a lazy graph on the CPU device |
//! | [`hand`] | hand-written loops, vectorized by the compiler for the processor of the machine |
//! | [`ug`] | the crate `ug`: lazy buffers, compiled by a C compiler |
//! | [`candle`] | `candle-core` and `candle-nn`: one operation after the other |
//! | [`arrays`] | `ndarray` |
//! | [`faer`], [`gemm`] | products of matrices |

pub(crate) mod arrays;
pub(crate) mod candle;
pub(crate) mod faer;
pub(crate) mod gemm;
pub(crate) mod hand;
pub(crate) mod ours;
pub(crate) mod ug;

use std::error::Error;

use crate::work::{Input, Work};

/// The error of a contender.
pub(crate) type Fault = Box<dyn Error>;

/// The part of a work that is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// A run, after all one-time work is done.
    Run,
    /// Building the graph, compiling it without a cache, and dropping it.
    Compile,
    /// Building the graph, compiling it with its kernels cached, and dropping it.
    CompileAgain,
}

/// A job that can run repeatedly.
pub(crate) trait Job {
    /// Runs the job once, or submits one run.
    fn run(&mut self) -> Result<(), Fault>;

    /// Waits until all submitted runs are done.
    fn wait(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// Returns the last result, or `None` if there is none to compare.
    fn output(&mut self) -> Result<Option<Vec<f32>>, Fault>;
}

/// A job, or `None` if the contender does not support the work.
pub(crate) type Offer<'a> = Result<Option<Box<dyn Job + 'a>>, Fault>;

/// One contender.
pub(crate) trait Contender {
    /// Returns the name in the table header.
    fn name(&self) -> &'static str;

    /// Returns the job that does a work on these inputs.
    fn job<'a>(&'a self, work: Work, what: What, inputs: &'a [Input]) -> Offer<'a>;
}

/// Returns all contenders, in column order: ours, the hand-written loops, and the peers. Of ours, `threads` threads
/// compute.
pub(crate) fn all(threads: usize) -> Result<Vec<Box<dyn Contender>>, Fault> {
    Ok(vec![
        Box::new(ours::Ours::open(threads)?),
        Box::new(hand::Hand),
        Box::new(ug::Ug),
        Box::new(candle::Candle),
        Box::new(arrays::Arrays),
        Box::new(faer::Faer),
        Box::new(gemm::Gemm),
    ])
}

/// The number of contenders of [`all`] before the first peer.
pub(crate) const BEFORE_PEERS: usize = 2;

/// A job that is a function into a reused buffer.
pub(crate) struct Into<F> {
    pub(crate) out: Vec<f32>,
    pub(crate) run: F,
}

impl<'a, F: FnMut(&mut [f32]) + 'a> Into<F> {
    /// Returns the job of a function that fills the work's result.
    pub(crate) fn offer(work: Work, run: F) -> Offer<'a> {
        let out = vec![0.0; work.output().iter().product()];
        Ok(Some(Box::new(Self { out, run })))
    }
}

impl<F: FnMut(&mut [f32])> Job for Into<F> {
    fn run(&mut self) -> Result<(), Fault> {
        (self.run)(&mut self.out);
        Ok(())
    }

    fn output(&mut self) -> Result<Option<Vec<f32>>, Fault> {
        Ok(Some(self.out.clone()))
    }
}
