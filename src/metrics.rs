//! Everything that a device counts and measures, as one plain value. With the feature `metrics` it can be published to
//! the `metrics` crate's facade.
//!
//! The [guide] explains each figure and its cost.
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
mod text;

#[cfg(feature = "metrics")]
pub use publish::Publisher;
#[cfg(feature = "metrics")]
pub use text::text;
