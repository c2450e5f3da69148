//! The report of a soak, as data and as text.

use std::collections::BTreeMap;
use std::fmt;

use millstream_testkit::Count;
use serde::Serialize;

use crate::verdict::{self, Checked, Figures, Growth, Sample};

/// The fields are also those of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) device: String,
    pub(crate) seed: u64,
    pub(crate) seconds: f64,
    /// How often the device was lost and reopened.
    pub(crate) losses: u64,
    pub(crate) counts: BTreeMap<Count, u64>,
    pub(crate) memory: Option<Growth>,
    /// The median rate of steps in the first and in the last quarter of the run.
    pub(crate) steps_per_second: Option<[f64; 2]>,
    pub(crate) even: Vec<u64>,
    pub(crate) checked: Option<Checked>,
    pub(crate) violations: Vec<String>,
    pub(crate) samples: Vec<Sample>,
}

impl Report {
    pub(crate) fn new(
        (device, seed): (String, u64),
        seconds: f64,
        losses: u64,
        counts: BTreeMap<Count, u64>,
        figures: Figures,
    ) -> Self {
        Self {
            device,
            seed,
            seconds,
            losses,
            counts,
            violations: verdict::judge(&figures),
            memory: verdict::growth(&figures.samples),
            steps_per_second: verdict::rates(&figures.samples),
            even: figures.even,
            checked: figures.checked,
            samples: figures.samples,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            device,
            seed,
            seconds,
            losses,
            ..
        } = self;
        writeln!(
            f,
            "{seconds:.0} s on {device} (--seed {seed}), {losses} losses"
        )?;
        for (count, value) in &self.counts {
            writeln!(f, "  {count:?}: {value}")?;
        }
        if let Some(Growth {
            first_bytes,
            last_bytes,
            max_bytes,
            bytes_per_minute,
            judged,
            ..
        }) = &self.memory
        {
            let [first, last, most] =
                [first_bytes, last_bytes, max_bytes].map(|bytes| *bytes as f64 / verdict::MIB);
            write!(
                f,
                "  memory: first {first:.1} MiB, last {last:.1} MiB, most {most:.1} MiB; "
            )?;
            match judged {
                true => writeln!(
                    f,
                    "trend {:+.2} MiB a minute",
                    bytes_per_minute / verdict::MIB
                )?,
                false => writeln!(f, "too short for a trend")?,
            }
        }
        if let Some([first, last]) = self.steps_per_second {
            writeln!(
                f,
                "  steps per second: {first:.0} in the first quarter, {last:.0} in the last"
            )?;
        }
        writeln!(f, "  rounds of the equal clients: {:?}", self.even)?;
        for violation in &self.violations {
            writeln!(f, "VIOLATION {violation}")?;
        }
        match self.violations.is_empty() {
            true => writeln!(
                f,
                "clean: every answer arrived and was correct, nothing grew, nothing was left"
            ),
            false => Ok(()),
        }
    }
}
