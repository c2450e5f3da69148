//! Logical streams on physical queues: what a stream holds, and what a queue has.

pub(crate) mod actor;
pub(crate) mod queue;
pub(crate) mod turns;
