//! `millstream doctor`: lists the devices that can be opened, tests them, and explains why others cannot be opened.
//!
//! | module | contents |
//! | --- | --- |
//! | [`self_test`], [`gpu_sources`] | the test that every opened device must pass, and the GPU code of its kernels |
//! | [`surroundings`] | the libraries, caches and layers that devices use |
//!
//! The report has one row per device of each backend. A backend that cannot be opened keeps its row, with a reason.

mod gpu_sources;
mod self_test;
mod surroundings;

use millstream::sim::Sim;
use millstream::{Cpu, Cuda, Device, DeviceProperties, OpenError, cuda};
use serde::Serialize;
use serde_json::{Value, json};

use self::gpu_sources::with_gpu_sources;
use self::self_test::SelfTest;
use self::surroundings::Facts;
use crate::args::DoctorArgs;
use crate::exit::{CommandError, Exit};
use crate::output::{self, Table};
use crate::units::bytes;

/// A larger allocation limit means that the device has none.
const BOUNDLESS: u64 = 1 << 50;

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
    Ready(Ready),
    Unavailable { reason: String },
}

#[derive(Debug, Serialize)]
struct Ready {
    name: String,
    queues: usize,
    threads: usize,
    features: Vec<String>,
    memory_bytes: Option<u64>,
    limits: Value,
    /// The limits as text.
    #[serde(skip)]
    limits_text: String,
    self_test: SelfTest,
}

impl Finding {
    fn of(backend: &'static str, opened: Result<Device, OpenError>, quick: bool) -> Self {
        let ready = |device: Device| {
            let properties = device.properties();
            let (limits, limits_text) = limits(properties);
            Ready {
                name: properties.name.clone(),
                queues: properties.queues,
                threads: properties.compute_units,
                features: properties
                    .features
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
                memory_bytes: properties.memory_bytes,
                limits,
                limits_text,
                self_test: match quick {
                    true => SelfTest::Skipped,
                    false => SelfTest::of(&device, with_gpu_sources),
                },
            }
        };
        Self {
            backend,
            for_tests: backend == "sim",
            state: match opened {
                Ok(device) => State::Ready(ready(device)),
                Err(error) => State::Unavailable {
                    reason: error.to_string(),
                },
            },
        }
    }

    /// Returns the reason why the self-test failed, if it did.
    fn failed(&self) -> Option<&str> {
        match &self.state {
            State::Ready(Ready {
                self_test: SelfTest::Failed { reason },
                ..
            }) => Some(reason),
            _ => None,
        }
    }
}

/// Opens, tests and closes every device, and prints the diagnosis.
pub(crate) fn run(args: &DoctorArgs) -> Result<Exit, CommandError> {
    let quick = args.quick;
    let mut findings = vec![Finding::of("cpu", Device::open(Cpu::default()), quick)];
    match cuda::gpus() {
        Ok(gpus) => findings.extend(gpus.iter().map(|gpu| {
            let opened = Device::open(Cuda::ordinal(gpu.ordinal));
            Finding::of("cuda", opened, quick)
        })),
        Err(error) => findings.push(Finding::of("cuda", Err(error), quick)),
    }
    let mut facts = surroundings::cuda();
    #[cfg(feature = "vulkan")]
    match millstream::vulkan::gpus() {
        Ok(gpus) => {
            findings.extend(gpus.iter().map(|gpu| {
                let opened = Device::open(millstream::Vulkan::ordinal(gpu.ordinal));
                Finding::of("vulkan", opened, quick)
            }));
            facts.extend(surroundings::vulkan(&gpus));
        }
        Err(error) => findings.push(Finding::of("vulkan", Err(error), quick)),
    }
    #[cfg(not(feature = "vulkan"))]
    findings.push(Finding {
        backend: "vulkan",
        for_tests: false,
        state: State::Unavailable {
            reason: "Vulkan is not part of this program: build it with `--features vulkan`".into(),
        },
    });
    facts.extend(surroundings::stored_choices());
    findings.push(Finding::of("sim", Device::open(Sim::seed(1)), quick));
    let exit = exit(&findings);
    match args.json {
        true => output::json(&json(&findings, &facts, exit))?,
        false => output::text(&render(&findings, &facts))?,
    }
    Ok(exit)
}

/// Returns success if a device other than the simulator is ready and no self-test failed.
fn exit(findings: &[Finding]) -> Exit {
    let usable = |finding: &Finding| !finding.for_tests && matches!(finding.state, State::Ready(_));
    match findings.iter().any(usable) && findings.iter().all(|finding| finding.failed().is_none()) {
        true => Exit::Success,
        false => Exit::Failure,
    }
}

/// Returns the limits of a device as data and as text.
fn limits(properties: &DeviceProperties) -> (Value, String) {
    let allocation_bytes = properties.max_allocation_bytes;
    let cubes = properties.max_cube_count;
    let json = json!({
        "allocation_bytes": allocation_bytes,
        "alignment": properties.alignment,
        "pitch_alignment": properties.pitch_alignment,
        "cubes": cubes,
        "bindings": properties.max_bindings,
        "in_flight": properties.max_queue_depth,
    });
    let allocations = match allocation_bytes {
        BOUNDLESS.. => "of any size".to_owned(),
        most => format!("of at most {}", bytes(most)),
    };
    let cubes = match cubes {
        [u32::MAX, u32::MAX, u32::MAX] => "any number of cubes".to_owned(),
        [x, y, z] => format!("at most {x} x {y} x {z} cubes"),
    };
    let text = format!(
        "allocations {allocations}, aligned to {} bytes (rows to {}); launches of {cubes} and {} bindings; queues of at \
         most {} tasks",
        properties.alignment,
        properties.pitch_alignment,
        properties.max_bindings,
        properties.max_queue_depth
    );
    (json, text)
}

fn json(findings: &[Finding], facts: &Facts, exit: Exit) -> Value {
    let mut json = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "exit_code": exit.code(),
        "backends": findings,
    });
    for (name, value) in &facts.values {
        json[*name] = value.clone();
    }
    json
}

/// Renders the diagnosis. No line is longer than 80 characters, unless a word is.
fn render(findings: &[Finding], facts: &Facts) -> String {
    let mut table = Table::new(&[
        "backend",
        "state",
        "self-test",
        "queues",
        "threads",
        "memory",
    ]);
    let mut sentences = Vec::new();
    for finding in findings {
        let backend = finding.backend;
        let State::Ready(ready) = &finding.state else {
            table.row([backend, "unavailable", "-", "-", "-", "-"].map(str::to_owned));
            continue;
        };
        let state = if finding.for_tests {
            "for tests"
        } else {
            "ready"
        };
        table.row([
            backend.to_owned(),
            state.to_owned(),
            match &ready.self_test {
                SelfTest::Passed { took_ms, .. } => {
                    format!("passed in {:.2} s", *took_ms as f64 / 1e3)
                }
                SelfTest::Failed { .. } => "FAILED, see below".to_owned(),
                SelfTest::Skipped => "skipped".to_owned(),
            },
            ready.queues.to_string(),
            ready.threads.to_string(),
            ready
                .memory_bytes
                .map_or_else(|| "unknown".to_owned(), bytes),
        ]);
        let features = match &ready.features[..] {
            [] => "no optional features".to_owned(),
            features => features.join(", "),
        };
        let Ready {
            name, limits_text, ..
        } = ready;
        sentences.push(format!(
            "{backend}: {name}, with {features}; {limits_text}."
        ));
    }
    for finding in findings {
        if let State::Unavailable { reason } = &finding.state {
            sentences.push(format!("{reason}."));
        } else if let Some(reason) = finding.failed() {
            sentences.push(format!(
                "{}: the self-test failed: {reason}. Do not trust results of this device; if the failure persists, \
                 report it with this message.",
                finding.backend
            ));
        }
    }
    sentences.extend_from_slice(&facts.sentences);
    let prose: String = sentences
        .iter()
        .map(|sentence| output::item(sentence))
        .collect();
    format!(
        "millstream {}\n\n{table}\n{prose}",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        let cpu = Device::open(Cpu::default());
        let mut cpu = Finding::of("cpu", cpu, true);
        if let State::Ready(ready) = &mut cpu.state {
            ready.self_test = SelfTest::Passed {
                steps: 9,
                took_ms: 120,
            };
        }
        let other = Finding {
            backend: "other",
            for_tests: false,
            state: State::Unavailable {
                reason: "no driver".into(),
            },
        };
        vec![cpu, other]
    }

    #[test]
    fn report_fits_80_columns() {
        let mut findings = findings();
        if let State::Ready(ready) = &mut findings[0].state {
            ready.name = "NVIDIA GeForce RTX 4090 Laptop GPU (a very long name of a device)".into();
            (ready.queues, ready.threads) = (1024, 10_496);
            ready.memory_bytes = Some(1000 << 30);
            ready.features = vec!["a feature of the device".into(); 9];
            let reason = "expected 5, got 7 ".repeat(20);
            ready.self_test = SelfTest::Failed { reason };
        }
        let text = render(&findings, &Facts::default());
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{text}");
    }

    #[test]
    fn ready_devices_and_reasons_of_unavailable_ones_are_listed() {
        let (findings, facts) = (findings(), surroundings::cuda());
        // Where a line is wrapped does not matter here.
        let text = render(&findings, &facts).replace("\n  ", " ");
        for part in [
            "ready",
            "native kernels",
            "- no driver.",
            "passed in 0.12 s",
            "bindings;",
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        let json = json(&findings, &facts, Exit::Success);
        assert_eq!(json["backends"][1]["unavailable"]["reason"], "no driver");
        let ready = &json["backends"][0]["ready"];
        assert_eq!(ready["self_test"]["passed"]["steps"], 9);
        assert!(ready["limits"]["bindings"].as_u64() > Some(8));
        assert_eq!(json["exit_code"], 0);
    }

    #[test]
    fn exit_code_is_1_without_a_usable_device_or_with_a_failed_self_test() {
        let mut findings = findings();
        assert_eq!(exit(&findings), Exit::Success);
        findings[0].for_tests = true;
        assert_eq!(exit(&findings), Exit::Failure, "only the simulator");
        findings[0].for_tests = false;
        if let State::Ready(ready) = &mut findings[0].state {
            let reason = "expected 5, got 7".into();
            ready.self_test = SelfTest::Failed { reason };
        }
        assert_eq!(exit(&findings), Exit::Failure);
        let text = render(&findings, &Facts::default()).replace("\n  ", " ");
        assert!(
            text.contains("FAILED") && text.contains("failed: expected 5, got 7."),
            "{text}"
        );
    }
}
