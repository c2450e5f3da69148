//! Everything that a device counts and measures, as one plain value; with the feature `metrics` also for the facade of that crate.
//!
//! The [guide] says what each figure means and what it costs.
//!
//! [guide]: https://github.com/millstream/millstream/blob/main/docs/guide/metrics.md

pub use millstream_protocol::metrics::{
    ClientMetrics, Collection, FaultCounts, Histogram, Latencies, Metrics,
};

#[cfg(feature = "metrics")]
mod names;
#[cfg(feature = "metrics")]
mod publish;

#[cfg(feature = "metrics")]
pub use publish::Publisher;
