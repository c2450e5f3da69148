//! The code that the benches share, from a sample to a printed table.
//!
//! Alternatives are sampled in turn, so that a machine that slows down affects all of them ([`alternate`]). The samples
//! of an alternative become a [`Summary`]: the median, and the spread of the samples. Figures are compared with each
//! other ([`Better`]) or with a [`Limit`], and shown as a [`Table`] or a [`chart()`]. Figures implement serde's traits, for
//! callers that write JSON.
//!
//! | module | content |
//! | --- | --- |
//! | `turns` | the order in which alternatives are sampled |
//! | `timing` | time per run, and the number of runs that fill a sample |
//! | `summary` | order statistics of samples |
//! | `judge` | comparisons of figures, and limits |
//! | `format` | numbers as text |
//! | `table`, `chart` | Markdown and SVG |
//! | `record` | the samples of a subject, as a file and as a section of `benches/RESULTS.md` |
//! | `machine` | the machine and the commit of a run |
//!
//! The crate does not know what is measured, and depends on no crate of millstream.
//!
//! ```
//! use std::convert::Infallible;
//! use std::time::Instant;
//!
//! use millstream_harness::{Better, Table, alternate, digits, ns_each, ratio};
//!
//! let sum = |upto: u64| {
//!     let begun = Instant::now();
//!     std::hint::black_box((0..upto).sum::<u64>());
//!     Ok::<_, Infallible>(ns_each(begun, 1))
//! };
//! let [short, long] = alternate(5, [&mut || sum(1_000), &mut || sum(2_000)])?;
//! let mut table = Table::new(["sum", "ns", "times as fast"], 1..3);
//! let gain = Better::Lower.gain(short.median, long.median);
//! table.row(["short".to_owned(), digits(short.median), ratio(gain)]);
//! table.row(["long".to_owned(), digits(long.median), "1".to_owned()]);
//! println!("{}", table.text());
//! # Ok::<_, Infallible>(())
//! ```

mod chart;
mod format;
mod judge;
mod machine;
mod program;
mod record;
mod summary;
mod table;
mod timing;
mod turns;

pub use chart::{Line, chart};
pub use format::{digits, digits_or_dash, ratio};
pub use judge::{Better, Limit};
pub use machine::{commit, machine, processor, today};
pub use program::Program;
pub use record::{Record, RecordRow, replace_section};
pub use summary::{Summary, median, quantile};
pub use table::Table;
pub use timing::{ns_each, runs_to_fill, time_each};
pub use turns::{Sampler, Turn, alternate, take_turns};
