//! `millstream doctor`: lists the devices that can be opened, tests them, and explains why others cannot be opened.
//!
//! The report has one row per device of each backend. A backend that cannot be opened keeps its row, with a reason.
//! [`self_test`] has the test that every opened device must pass.

mod choices;
mod gpu_sources;
mod kernels;
mod libraries;
mod limits;
mod self_test;
mod vulkan;

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use millstream::sim::Sim;
use millstream::tune::stored_choices;
use millstream::{Cpu, Cuda, Device, Vulkan, cuda};
use serde::Serialize;

use self::choices::Choices;
use self::gpu_sources::with_gpu_sources;
use self::kernels::Kernels;
use self::libraries::Libraries;
use self::limits::Limits;
use self::self_test::SelfTest;
use self::vulkan::Loader;
use crate::args::DoctorArgs;
use crate::exit::{CommandError, Exit};
use crate::output;
use crate::units::bytes;
use crate::wrap::wrapped;

#[derive(Debug, Serialize)]
struct Diagnosis {
    version: &'static str,
    exit_code: u8,
    backends: Vec<Finding>,
    #[serde(flatten)]
    libraries: Libraries,
    /// What the Vulkan loader offers.
    vulkan: Loader,
    /// The stored compiled kernels.
    kernels: Kernels,
    /// The stored tuned choices.
    choices: Choices,
}

#[derive(Debug, Serialize)]
struct Finding {
    backend: &'static str,
    /// Whether the device is only for tests.
    for_tests: bool,
    #[serde(flatten)]
    state: State,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ready(Facts),
    Unavailable { reason: String },
}

#[derive(Debug, Serialize)]
struct Facts {
    name: String,
    queues: usize,
    threads: usize,
    features: Vec<String>,
    memory_bytes: Option<u64>,
    limits: Limits,
    self_test: SelfTest,
}

impl Finding {
    fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready(_))
    }

    /// Returns the reason why the self-test failed, if it did.
    fn failed(&self) -> Option<&str> {
        match &self.state {
            State::Ready(Facts {
                self_test: SelfTest::Failed { reason },
                ..
            }) => Some(reason),
            _ => None,
        }
    }
}

/// Opens, tests and closes every device, and prints the diagnosis.
pub(crate) fn run(args: &DoctorArgs) -> Result<Exit, CommandError> {
    let finding = |backend, for_tests, state| Finding {
        backend,
        for_tests,
        state,
    };
    let mut backends = vec![finding(
        "cpu",
        false,
        examine(Device::open(Cpu::default()), args.quick),
    )];
    match cuda::gpus() {
        Ok(gpus) => backends.extend(gpus.iter().map(|gpu| {
            let opened = Device::open(Cuda::ordinal(gpu.ordinal));
            finding("cuda", false, examine(opened, args.quick))
        })),
        Err(error) => backends.push(finding("cuda", false, examine(Err(error), args.quick))),
    }
    let loader = match millstream::vulkan::gpus() {
        Ok(gpus) => {
            backends.extend(gpus.iter().map(|gpu| {
                let opened = Device::open(Vulkan::ordinal(gpu.ordinal));
                finding("vulkan", false, examine(opened, args.quick))
            }));
            Loader::of(&gpus)
        }
        Err(error) => {
            backends.push(finding("vulkan", false, examine(Err(error), args.quick)));
            Loader::default()
        }
    };
    backends.push(finding(
        "sim",
        true,
        examine(Device::open(Sim::seed(1)), args.quick),
    ));
    let exit = exit(&backends);
    let diagnosis = Diagnosis {
        version: env!("CARGO_PKG_VERSION"),
        exit_code: exit.code(),
        backends,
        libraries: Libraries::find(),
        vulkan: loader,
        kernels: cuda::cached_kernels()
            .map(Kernels::from)
            .unwrap_or_default(),
        choices: stored_choices().map(Choices::from).unwrap_or_default(),
    };
    if args.json {
        output::json(&diagnosis)?;
    } else {
        output::text(&render(&diagnosis))?;
    }
    Ok(exit)
}

/// Returns success if a device other than the simulator is ready and no self-test failed.
fn exit(backends: &[Finding]) -> Exit {
    let usable = |finding: &Finding| !finding.for_tests && finding.is_ready();
    match backends.iter().any(usable) && backends.iter().all(|finding| finding.failed().is_none()) {
        true => Exit::Success,
        false => Exit::Failure,
    }
}

fn examine(opened: Result<Device, millstream::OpenError>, quick: bool) -> State {
    match opened {
        Ok(device) => {
            let properties = device.properties();
            State::Ready(Facts {
                name: properties.name.clone(),
                queues: properties.queues,
                threads: properties.compute_units,
                features: properties
                    .features
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
                memory_bytes: properties.memory_bytes,
                limits: Limits::of(properties),
                self_test: match quick {
                    true => SelfTest::Skipped,
                    false => SelfTest::of(&device, with_gpu_sources),
                },
            })
        }
        Err(error) => State::Unavailable {
            reason: error.to_string(),
        },
    }
}

/// Renders the diagnosis. No line is longer than 80 characters, unless a word is.
fn render(diagnosis: &Diagnosis) -> String {
    // Names, features and sentences go below the table, which they would stretch.
    let ready = diagnosis.backends.iter().filter_map(|finding| {
        let State::Ready(facts) = &finding.state else {
            return None;
        };
        let features = match &facts.features[..] {
            [] => "no optional features".to_owned(),
            features => features.join(", "),
        };
        Some(format!(
            "- {}: {}, with {features}; {}.\n",
            finding.backend, facts.name, facts.limits
        ))
    });
    let reasons = diagnosis
        .backends
        .iter()
        .filter_map(|finding| match (&finding.state, finding.failed()) {
            (State::Unavailable { reason }, _) => Some(format!("- {reason}.\n")),
            (_, Some(reason)) => Some(format!(
                "- {}: the self-test failed: {reason}. Do not trust results of this device; if the failure persists, report it with this message.\n",
                finding.backend
            )),
            _ => None,
        });
    let prose: String = ready.chain(reasons).collect();
    let libraries = &diagnosis.libraries;
    let (loader, kernels, choices) = (&diagnosis.vulkan, &diagnosis.kernels, &diagnosis.choices);
    format!(
        "millstream {}\n\n{}\n{}",
        diagnosis.version,
        table(&diagnosis.backends),
        wrapped(&format!("{prose}{libraries}{loader}{kernels}\n{choices}\n"))
    )
}

fn table(backends: &[Finding]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED.with_rounded_corners());
    table.set_header([
        "backend",
        "state",
        "self-test",
        "queues",
        "threads",
        "memory",
    ]);
    for finding in backends {
        let ready = match finding.for_tests {
            true => "for tests",
            false => "ready",
        };
        match &finding.state {
            State::Ready(facts) => table.add_row([
                finding.backend,
                ready,
                &self_test_cell(&facts.self_test),
                &facts.queues.to_string(),
                &facts.threads.to_string(),
                &facts
                    .memory_bytes
                    .map_or_else(|| "unknown".to_owned(), bytes),
            ]),
            State::Unavailable { .. } => {
                table.add_row([finding.backend, "unavailable", "-", "-", "-", "-"])
            }
        };
    }
    table
}

fn self_test_cell(self_test: &SelfTest) -> String {
    match self_test {
        SelfTest::Passed { took_ms, .. } => {
            format!("passed in {:.2} s", *took_ms as f64 / 1e3)
        }
        SelfTest::Failed { .. } => "FAILED, see below".to_owned(),
        SelfTest::Skipped => "skipped".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnosis() -> Diagnosis {
        let ready = Facts {
            name: "a processor".into(),
            queues: 2,
            threads: 4,
            features: vec!["native kernels".into(), "f64".into()],
            memory_bytes: Some(3 << 30),
            limits: limits::tests::some(),
            self_test: SelfTest::Passed {
                steps: 9,
                took_ms: 120,
            },
        };
        Diagnosis {
            version: "0.1.0",
            exit_code: 0,
            libraries: libraries::tests::some(),
            vulkan: vulkan::tests::two(),
            kernels: Kernels::default(),
            choices: Choices::default(),
            backends: vec![
                Finding {
                    backend: "cpu",
                    for_tests: false,
                    state: State::Ready(ready),
                },
                Finding {
                    backend: "other",
                    for_tests: false,
                    state: State::Unavailable {
                        reason: "no driver".into(),
                    },
                },
            ],
        }
    }

    #[test]
    fn report_fits_80_columns() {
        let mut diagnosis = diagnosis();
        let widest = |diagnosis: &Diagnosis| {
            let text = render(diagnosis);
            text.lines().map(|line| line.chars().count()).max()
        };
        assert!(widest(&diagnosis) <= Some(80), "{}", render(&diagnosis));
        // The longest words of each column.
        let reason = "expected 5, got 7 ".repeat(20);
        if let State::Ready(facts) = &mut diagnosis.backends[0].state {
            facts.name = "NVIDIA GeForce RTX 4090 Laptop GPU (a very long name of a device)".into();
            (facts.queues, facts.threads) = (1024, 10_496);
            facts.memory_bytes = Some(1000 << 30);
            facts.features = vec!["a feature of the device".into(); 9];
            facts.self_test = SelfTest::Failed { reason };
        }
        diagnosis.backends[0].backend = "vulkan";
        assert!(widest(&diagnosis) <= Some(80), "{}", render(&diagnosis));
    }

    #[test]
    fn table_lists_ready_devices_and_reasons_of_unavailable_ones() {
        // Where a line is wrapped does not matter here.
        let text = render(&diagnosis()).replace("\n  ", " ");
        for part in [
            "cpu",
            "ready",
            "a processor",
            "3.00 GiB",
            "native kernels, f64",
            "unavailable",
            "no driver",
            "no compiler",
            "cuBLASLt 13.1.2",
            "NCCL 2.32.3",
            "- vulkan:1 is `an old GPU`",
            "- cpu: a processor, with native kernels, f64; allocations of at most 1.00 GiB",
            "compiled kernels are not stored",
            "passed in 0.12 s",
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
    }

    #[test]
    fn json_has_the_state_of_each_backend() {
        let json = serde_json::to_value(diagnosis()).unwrap();
        assert_eq!(json["backends"][0]["ready"]["queues"], 2);
        assert_eq!(json["backends"][1]["unavailable"]["reason"], "no driver");
        assert_eq!(json["backends"][0]["ready"]["limits"]["bindings"], 32);
        assert_eq!(json["kernels"]["damaged"], 0);
        assert_eq!(json["collectives"]["nccl"], "2.32.3");
        assert_eq!(json["vulkan"]["gpus"][1]["lacks"][1], "int64");
        let test = &json["backends"][0]["ready"]["self_test"];
        assert_eq!(test["passed"]["steps"], 9);
    }

    #[test]
    fn exit_code_is_1_without_a_usable_device_or_with_a_failed_self_test() {
        let mut diagnosis = diagnosis();
        assert_eq!(exit(&diagnosis.backends), Exit::Success);
        diagnosis.backends[0].for_tests = true;
        assert_eq!(
            exit(&diagnosis.backends),
            Exit::Failure,
            "no device other than the simulator"
        );
        diagnosis.backends[0].for_tests = false;
        if let State::Ready(facts) = &mut diagnosis.backends[0].state {
            let reason = "expected 5, got 7".into();
            facts.self_test = SelfTest::Failed { reason };
        }
        assert_eq!(exit(&diagnosis.backends), Exit::Failure);
        let text = render(&diagnosis).replace("\n  ", " ");
        assert!(
            text.contains("FAILED") && text.contains("failed: expected 5, got 7."),
            "{text}"
        );
    }
}
