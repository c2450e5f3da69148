//! The code that the benches share, from a sample to a printed table.
//!
//! Alternatives are sampled in turn, so that a machine that slows down affects all of them ([`take_turns`]). A [`Record`]
//! has all samples, whose medians may have a [`Limit`]; figures are shown as a [`Table`] or a [`chart()`].
//!
//! | module | content |
//! | --- | --- |
//! | `turns` | the order in which alternatives are sampled |
//! | `timing` | time per run, and the number of runs that fill a sample |
//! | `quantile` | order statistics of samples |
//! | `limit` | limits of figures |
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
//! use millstream_harness::{Table, alternate, digits, median, ns_each};
//!
//! let sum = |upto: u64| {
//!     let begun = Instant::now();
//!     std::hint::black_box((0..upto).sum::<u64>());
//!     Ok::<_, Infallible>(ns_each(begun, 1))
//! };
//! let [short, long] = alternate(5, [&mut || sum(1_000), &mut || sum(2_000)])?;
//! let mut table = Table::new(["sum", "ns"], 1..2);
//! table.row(["short".to_owned(), digits(median(&short))]);
//! table.row(["long".to_owned(), digits(median(&long))]);
//! println!("{}", table.text());
//! # Ok::<_, Infallible>(())
//! ```

mod chart;
mod format;
mod limit;
mod machine;
mod program;
mod quantile;
mod record;
mod table;
mod timing;
mod turns;

pub use chart::{Line, chart};
pub use format::digits;
pub use limit::Limit;
pub use program::Program;
pub use quantile::{median, quantile};
pub use record::{MEANINGLESS, Record, RecordRow, replace_section};
pub use table::Table;
pub use timing::{ns_each, runs_to_fill, time_each};
pub use turns::{Sampler, Turn, alternate, take_turns};
