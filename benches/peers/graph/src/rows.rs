//! The rows: the works, their units, and our targets.

use millstream_harness::Limit;

use crate::contenders::What;
use crate::work::Work;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    pub(crate) what: What,
    pub(crate) unit: Unit,
    /// Our target, in the unit.
    pub(crate) target: Option<Limit>,
    /// Whether all runs of a sample are submitted before one wait. Otherwise there is a wait after each run.
    pub(crate) pipelined: bool,
}

/// The unit of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Microseconds,
    Milliseconds,
    /// 10^9 multiplications and additions a second: the only unit of which more is better.
    Gigaflops,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Microseconds => "us",
            Unit::Milliseconds => "ms",
            Unit::Gigaflops => "GFLOP/s",
        }
    }

    /// Converts the seconds of a run to the unit.
    pub(crate) fn of(self, seconds: f64, work: Work) -> f64 {
        match self {
            Unit::Microseconds => seconds * 1e6,
            Unit::Milliseconds => seconds * 1e3,
            Unit::Gigaflops => work.operations().unwrap_or(f64::NAN) / seconds / 1e9,
        }
    }

    /// Returns a row of runs, with a wait after each.
    fn row(self, name: &'static str, work: Work) -> Row {
        Row {
            name,
            work,
            what: What::Run,
            unit: self,
            target: None,
            pipelined: false,
        }
    }
}

impl Row {
    fn pipelined(self) -> Self {
        Self {
            pipelined: true,
            ..self
        }
    }

    /// Sets our target: at most this time, or at least this rate.
    fn target(self, target: f64) -> Self {
        let target = match self.unit {
            Unit::Gigaflops => Limit::AtLeast(target),
            Unit::Microseconds | Unit::Milliseconds => Limit::AtMost(target),
        };
        Self {
            target: Some(target),
            ..self
        }
    }
}

/// Returns all rows.
pub(crate) fn rows() -> Vec<Row> {
    use Unit::{Gigaflops as Rate, Microseconds as Us, Milliseconds as Ms};
    use Work::{Exp, Gelu, Layers, Norm, Product, Softmax, Sum, Ten};
    let small = Us.row("(a*b+c).exp(), 1 k", Exp(1000)).pipelined();
    let ten = Us.row("", Ten(1000)).pipelined();
    let of_ten = |name, what| Row { name, what, ..ten };
    let cold = "ten nodes of 1 k: written and compiled, cold";
    let again = "ten nodes of 1 k: written and compiled again";
    let steady = "ten nodes of 1 k: steady run";
    vec![
        small.target(0.2),
        Us.row("(a*b+c).exp(), 1 M", Exp(1 << 20)).target(300.0),
        Ms.row("(a*b+c).exp(), 16 M", Exp(16 << 20)).target(7.5),
        Ms.row("gelu, 16 M", Gelu(16 << 20)).target(5.0),
        Ms.row("sum, 16 M", Sum(16 << 20)),
        // A prime length: no number of parts divides it.
        Ms.row("sum, 16 M less 3", Sum((16 << 20) - 3)),
        Ms.row("softmax, 1024 x 1024", Softmax(1024)).target(0.4),
        Ms.row("layer norm, 1024 x 1024", Norm(1024)).target(0.22),
        Rate.row("matmul, 1024", Product(1024)).target(250.0),
        Us.row("MLP, 64 x 784-512-512-10", Layers).target(400.0),
        of_ten(cold, What::Compile).target(100.0),
        of_ten(again, What::CompileAgain),
        of_ten(steady, What::Run).target(0.6),
    ]
}
