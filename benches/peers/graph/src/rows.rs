//! The rows: what is measured, in which unit, and what ours may take at most.

use crate::contenders::What;
use crate::work::Work;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    pub(crate) what: What,
    pub(crate) unit: Unit,
    /// What ours may take at most, or must reach at least, in the unit.
    pub(crate) target: Option<f64>,
    /// Are runs sent one after the other, with one wait for all? Others are waited for one by one.
    pub(crate) pipelined: bool,
}

/// What a row is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Microseconds,
    Milliseconds,
    /// Multiplications and additions, 10^9 a second: the only unit of which more is better.
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

    /// Seconds of a run in the unit.
    pub(crate) fn of(self, seconds: f64, work: Work) -> f64 {
        match self {
            Unit::Microseconds => seconds * 1e6,
            Unit::Milliseconds => seconds * 1e3,
            Unit::Gigaflops => work.operations().unwrap_or(f64::NAN) / seconds / 1e9,
        }
    }

    /// Is the value as good as the target?
    pub(crate) fn reached(self, value: f64, target: f64) -> bool {
        match self {
            Unit::Gigaflops => value >= target,
            _ => value <= target,
        }
    }
}

/// All rows.
pub(crate) fn rows() -> Vec<Row> {
    use Unit::{Gigaflops, Microseconds, Milliseconds};
    let run = |name, work, unit, target| Row {
        name,
        work,
        what: What::Run,
        unit,
        target: Some(target),
        pipelined: false,
    };
    let short = |row: Row| Row {
        pipelined: true,
        ..row
    };
    let sum = |name, len| Row {
        target: None,
        ..run(name, Work::Sum(len), Milliseconds, 0.0)
    };
    let ten = Work::Ten(1000);
    let steady = short(run("ten nodes of 1 k: steady run", ten, Microseconds, 0.6));
    vec![
        short(run(
            "(a*b+c).exp(), 1 k",
            Work::Exp(1000),
            Microseconds,
            0.2,
        )),
        run(
            "(a*b+c).exp(), 1 M",
            Work::Exp(1 << 20),
            Microseconds,
            300.0,
        ),
        run(
            "(a*b+c).exp(), 16 M",
            Work::Exp(16 << 20),
            Milliseconds,
            7.5,
        ),
        run("gelu, 16 M", Work::Gelu(16 << 20), Milliseconds, 5.0),
        sum("sum, 16 M", 16 << 20),
        // A prime: no number of parts divides it.
        sum("sum, 16 M less 3", (16 << 20) - 3),
        run(
            "softmax, 1024 x 1024",
            Work::Softmax(1024),
            Milliseconds,
            0.4,
        ),
        run(
            "layer norm, 1024 x 1024",
            Work::Norm(1024),
            Milliseconds,
            0.22,
        ),
        run("matmul, 1024", Work::Product(1024), Gigaflops, 250.0),
        run(
            "MLP, 64 x 784-512-512-10",
            Work::Layers,
            Microseconds,
            400.0,
        ),
        Row {
            name: "ten nodes of 1 k: written and compiled, cold",
            what: What::Compile,
            target: Some(100.0),
            ..steady
        },
        Row {
            name: "ten nodes of 1 k: written and compiled again",
            what: What::CompileAgain,
            target: None,
            ..steady
        },
        steady,
    ]
}
