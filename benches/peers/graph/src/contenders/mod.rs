//! Who takes part, and what all of them are asked.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`ours`] | millstream: a lazy graph on the CPU device |
//! | [`hand`] | loops written by hand, vectorized by the compiler for the processor that is there |
//! | [`ug`] | the crate `ug`: lazy buffers, compiled by a C compiler |
//! | [`candle`] | `candle-core` and `candle-nn`: operation after operation |
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

/// What goes wrong in a contender, as a sentence.
pub(crate) type Fault = Box<dyn Error>;

/// What is timed of a work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// Running it, when everything that can be done once has been done.
    Run,
    /// Writing it down, compiling it with nothing known, and dropping it.
    Compile,
    /// Writing it down, compiling it with its kernels known from before, and dropping it.
    CompileAgain,
}

/// Something that can be done over and over.
pub(crate) trait Job {
    /// Does it once, or begins to.
    fn run(&mut self) -> Result<(), Fault>;

    /// Waits until all that was begun is done.
    fn wait(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// What came out last; nothing where there is nothing to compare.
    fn output(&mut self) -> Result<Option<Vec<f32>>, Fault>;
}

/// A job, or none where a contender has no such thing.
pub(crate) type Offer<'a> = Result<Option<Box<dyn Job + 'a>>, Fault>;

/// A side.
pub(crate) trait Contender {
    /// As it stands over a column.
    fn name(&self) -> &'static str;

    /// How it does a work on these inputs.
    fn job<'a>(&'a self, work: Work, what: What, inputs: &'a [Input]) -> Offer<'a>;
}

/// All of them, in the order of the columns; on ours so many threads compute. Ours is the first, the loops by hand the second; the others are peers.
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

/// How many of [`all`] come before the peers.
pub(crate) const BEFORE_PEERS: usize = 2;

/// A job that is a function into a buffer that stays.
pub(crate) struct Into<F> {
    pub(crate) out: Vec<f32>,
    pub(crate) run: F,
}

impl<'a, F: FnMut(&mut [f32]) + 'a> Into<F> {
    /// The job of a function that fills so many numbers.
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
