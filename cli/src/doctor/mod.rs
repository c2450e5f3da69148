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
use serde_json::{Value, json};

use self::gpu_sources::with_gpu_sources;
use self::self_test::SelfTest;
use self::surroundings::Facts;
use crate::args::DoctorArgs;
use crate::exit::{CommandError, Exit};
use crate::output::{Report, Table};
use crate::units::bytes;

/// A larger allocation limit means that the device has none.
const BOUNDLESS: u64 = 1 << 50;

/// A device that was opened and tested, or why it could not be opened.
struct Finding {
    backend: &'static str,
    state: Result<(DeviceProperties, SelfTest), String>,
}

impl Finding {
    fn of(backend: &'static str, opened: Result<Device, OpenError>, quick: bool) -> Self {
        let test = |device: Device| {
            let properties = device.properties().clone();
            let test = match quick {
                true => SelfTest::Skipped,
                false => SelfTest::of(&device, with_gpu_sources),
            };
            (properties, test)
        };
        Self {
            backend,
            state: opened.map(test).map_err(|error| error.to_string()),
        }
    }

    /// Whether the device is only for tests.
    fn is_for_tests(&self) -> bool {
        self.backend == "sim"
    }

    /// Returns the reason why the self-test failed, if it did.
    fn failed(&self) -> Option<&str> {
        match &self.state {
            Ok((_, SelfTest::Failed { reason })) => Some(reason),
            _ => None,
        }
    }

    fn json(&self) -> Value {
        let mut json = json!({ "backend": self.backend, "for_tests": self.is_for_tests() });
        match &self.state {
            Ok((device, self_test)) => {
                json["ready"] = json!({
                    "name": device.name,
                    "queues": device.queues,
                    "threads": device.compute_units,
                    "features": features(device),
                    "memory_bytes": device.memory_bytes,
                    "limits": {
                        "allocation_bytes": device.max_allocation_bytes,
                        "alignment": device.alignment,
                        "pitch_alignment": device.pitch_alignment,
                        "cubes": device.max_cube_count,
                        "bindings": device.max_bindings,
                        "in_flight": device.max_queue_depth,
                    },
                    "self_test": self_test,
                });
            }
            Err(reason) => json["unavailable"] = json!({ "reason": reason }),
        }
        json
    }
}

fn features(device: &DeviceProperties) -> Vec<String> {
    device.features.iter().map(ToString::to_string).collect()
}

/// Opens, tests and closes every device, and returns the diagnosis.
pub(crate) fn run(args: &DoctorArgs) -> Result<Report, CommandError> {
    let quick = args.quick;
    let mut findings = vec![Finding::of("cpu", Device::open(Cpu::default()), quick)];
    match cuda::gpus() {
        Ok(gpus) => findings.extend(gpus.iter().map(|gpu| {
            let opened = Device::open(Cuda::ordinal(gpu.ordinal));
            Finding::of("cuda", opened, quick)
        })),
        Err(error) => findings.push(Finding::of("cuda", Err(error), quick)),
    }
    let mut facts = Facts::default();
    surroundings::cuda(&mut facts);
    #[cfg(feature = "vulkan")]
    match millstream::vulkan::gpus() {
        Ok(gpus) => {
            findings.extend(gpus.iter().map(|gpu| {
                let opened = Device::open(millstream::Vulkan::ordinal(gpu.ordinal));
                Finding::of("vulkan", opened, quick)
            }));
            surroundings::vulkan(&mut facts, &gpus);
        }
        Err(error) => findings.push(Finding::of("vulkan", Err(error), quick)),
    }
    #[cfg(not(feature = "vulkan"))]
    findings.push(Finding {
        backend: "vulkan",
        state: Err(
            "Vulkan is not part of this program: build it with `--features vulkan`".to_owned(),
        ),
    });
    surroundings::stored_choices(&mut facts);
    findings.push(Finding::of("sim", Device::open(Sim::seed(1)), quick));
    Ok(Report {
        exit: exit(&findings),
        json: json(&findings, &facts),
        text: render(&findings, &facts),
    })
}

/// Returns success if a device other than the simulator is ready and no self-test failed.
fn exit(findings: &[Finding]) -> Exit {
    let usable = |finding: &Finding| !finding.is_for_tests() && finding.state.is_ok();
    match findings.iter().any(usable) && findings.iter().all(|finding| finding.failed().is_none()) {
        true => Exit::Success,
        false => Exit::Failure,
    }
}

fn json(findings: &[Finding], facts: &Facts) -> Value {
    let backends = findings.iter().map(Finding::json);
    let mut json = json!({ "backends": backends.collect::<Vec<_>>() });
    for (name, value) in &facts.values {
        json[*name] = value.clone();
    }
    json
}

/// Renders the diagnosis: a table, and what it does not say as a list.
fn render(findings: &[Finding], facts: &Facts) -> String {
    let mut table = Table::new(&[
        "backend",
        "state",
        "self-test",
        "queues",
        "threads",
        "memory",
    ]);
    let (mut sentences, mut reasons) = (Vec::new(), Vec::new());
    for finding in findings {
        let backend = finding.backend;
        match &finding.state {
            Ok((device, test)) => {
                let is_for_tests = finding.is_for_tests();
                let state = if is_for_tests { "for tests" } else { "ready" };
                let memory = device.memory_bytes;
                table.row([
                    backend.to_owned(),
                    state.to_owned(),
                    test.to_string(),
                    device.queues.to_string(),
                    device.compute_units.to_string(),
                    memory.map_or_else(|| "unknown".to_owned(), bytes),
                ]);
                sentences.push(format!("{backend}: {}", describe(device)));
            }
            Err(reason) => {
                table.row([backend, "unavailable", "-", "-", "-", "-"].map(str::to_owned));
                reasons.push(format!("{reason}."));
            }
        }
        if let Some(reason) = finding.failed() {
            reasons.push(format!(
                "{backend}: the self-test failed: {reason}. Do not trust results of this device; if the failure persists, \
                 report it with this message."
            ));
        }
    }
    let sentences = sentences.iter().chain(&reasons).chain(&facts.sentences);
    let prose: String = sentences
        .map(|sentence| format!("- {sentence}\n"))
        .collect();
    format!(
        "millstream {}\n\n{table}\n{prose}",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns the name, the features and the limits of a device as a sentence.
fn describe(device: &DeviceProperties) -> String {
    let features = match features(device) {
        features if features.is_empty() => "no optional features".to_owned(),
        features => features.join(", "),
    };
    let allocations = match device.max_allocation_bytes {
        BOUNDLESS.. => "of any size".to_owned(),
        most => format!("of at most {}", bytes(most)),
    };
    let cubes = match device.max_cube_count {
        [u32::MAX, u32::MAX, u32::MAX] => "any number of cubes".to_owned(),
        [x, y, z] => format!("at most {x} x {y} x {z} cubes"),
    };
    format!(
        "{}, with {features}; allocations {allocations}, aligned to {} bytes (rows to {}); launches of {cubes} and {} \
         bindings; queues of at most {} tasks.",
        device.name,
        device.alignment,
        device.pitch_alignment,
        device.max_bindings,
        device.max_queue_depth
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        let mut cpu = Finding::of("cpu", Device::open(Cpu::default()), true);
        if let Ok((_, test)) = &mut cpu.state {
            *test = SelfTest::Passed {
                steps: 9,
                took_ms: 120,
            };
        }
        let other = Finding {
            backend: "other",
            state: Err("no driver".into()),
        };
        vec![cpu, other]
    }

    #[test]
    fn ready_devices_and_reasons_of_unavailable_ones_are_listed() {
        let (findings, mut facts) = (findings(), Facts::default());
        surroundings::cuda(&mut facts);
        let text = render(&findings, &facts);
        for part in [
            "ready",
            "native kernels",
            "- no driver.",
            "passed in 0.12 s",
            "bindings;",
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        let json = json(&findings, &facts);
        assert_eq!(json["backends"][1]["unavailable"]["reason"], "no driver");
        let ready = &json["backends"][0]["ready"];
        assert_eq!(ready["self_test"]["passed"]["steps"], 9);
        assert!(ready["limits"]["bindings"].as_u64() > Some(8));
    }

    #[test]
    fn exit_code_is_1_without_a_usable_device_or_with_a_failed_self_test() {
        let mut findings = findings();
        assert_eq!(exit(&findings), Exit::Success);
        findings[0].backend = "sim";
        assert_eq!(exit(&findings), Exit::Failure, "only the simulator");
        findings[0].backend = "cpu";
        if let Ok((_, test)) = &mut findings[0].state {
            let reason = "expected 5, got 7".to_owned();
            *test = SelfTest::Failed { reason };
        }
        assert_eq!(exit(&findings), Exit::Failure);
        let text = render(&findings, &Facts::default());
        assert!(
            text.contains("FAILED") && text.contains("failed: expected 5, got 7."),
            "{text}"
        );
    }
}
