//! `millstream doctor`: which devices can be opened here, whether they do what they are told, and why others cannot.
//!
//! One row per backend of this build; a backend that cannot be opened keeps its row and says why. [`self_test`] has the
//! steps that each one that opens must do right.

mod choices;
mod kernels;
mod limits;
mod self_test;

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use millstream::sim::Sim;
use millstream::tune::kept_choices;
use millstream::{Cpu, Cuda, Device, cuda};
use serde::Serialize;

use self::choices::Choices;
use self::kernels::Kernels;
use self::limits::Limits;
use self::self_test::SelfTest;
use crate::args::DoctorArgs;
use crate::exit::{CommandError, Exit};
use crate::output;
use crate::units::bytes;

#[derive(Debug, Serialize)]
struct Diagnosis {
    version: &'static str,
    exit_code: u8,
    backends: Vec<Finding>,
    /// What compiles CUDA C.
    compiler: Compiler,
    /// What does large products on a GPU.
    products: Products,
    /// Kernels in CUDA C that were compiled before.
    kernels: Kernels,
    /// What was tuned before.
    choices: Choices,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Compiler {
    Nvrtc(String),
    Missing(String),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Products {
    Cublaslt(String),
    Missing(String),
}

#[derive(Debug, Serialize)]
struct Finding {
    backend: &'static str,
    /// Nothing that work is done on.
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

    /// Why the self-test failed, if it did.
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

/// Opens a device of every kind, tests it, closes it again, and prints what was found.
pub(crate) fn run(args: &DoctorArgs) -> Result<Exit, CommandError> {
    let found = |backend, for_tests, state| Finding {
        backend,
        for_tests,
        state,
    };
    let mut backends = vec![found(
        "cpu",
        false,
        examine(Device::open(Cpu::default()), args.quick),
    )];
    match cuda::gpus() {
        Ok(gpus) => backends.extend(gpus.iter().map(|gpu| {
            let opened = Device::open(Cuda::ordinal(gpu.ordinal));
            found("cuda", false, examine(opened, args.quick))
        })),
        Err(error) => backends.push(found("cuda", false, examine(Err(error), args.quick))),
    }
    backends.push(found(
        "sim",
        true,
        examine(Device::open(Sim::seed(1)), args.quick),
    ));
    let exit = exit(&backends);
    let diagnosis = Diagnosis {
        version: env!("CARGO_PKG_VERSION"),
        exit_code: exit.code(),
        backends,
        compiler: match cuda::compiler() {
            Ok((major, minor)) => Compiler::Nvrtc(format!("{major}.{minor}")),
            Err(error) => Compiler::Missing(error.to_string()),
        },
        products: match cuda::product_library() {
            Ok(version) => Products::Cublaslt(three_parts(version)),
            Err(error) => Products::Missing(error.to_string()),
        },
        kernels: cuda::kept_kernels().map(Kernels::from).unwrap_or_default(),
        choices: kept_choices().map(Choices::from).unwrap_or_default(),
    };
    if args.json {
        output::json(&diagnosis)?;
    } else {
        output::text(&render(&diagnosis))?;
    }
    Ok(exit)
}

/// A version of cuBLASLt, as people write it.
fn three_parts(version: usize) -> String {
    format!(
        "{}.{}.{}",
        version / 10_000,
        version / 100 % 100,
        version % 100
    )
}

/// There is something to work on, and nothing that does other than it is told.
fn exit(backends: &[Finding]) -> Exit {
    let works = |finding: &Finding| !finding.for_tests && finding.is_ready();
    match backends.iter().any(works) && backends.iter().all(|finding| finding.failed().is_none()) {
        true => Exit::Success,
        false => Exit::Wrong,
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
                    true => SelfTest::LeftOut,
                    false => SelfTest::of(&device, self_test::for_gpus),
                },
            })
        }
        Err(error) => State::Unavailable {
            reason: error.to_string(),
        },
    }
}

fn render(diagnosis: &Diagnosis) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED.with_rounded_corners());
    table.set_header([
        "backend",
        "state",
        "self-test",
        "device",
        "queues",
        "threads",
        "memory",
        "features",
    ]);
    for Finding {
        backend,
        for_tests,
        state,
    } in &diagnosis.backends
    {
        let ready = if *for_tests {
            "ready, for tests"
        } else {
            "ready"
        };
        match state {
            State::Ready(facts) => table.add_row([
                backend,
                ready,
                &told(&facts.self_test),
                &facts.name,
                &facts.queues.to_string(),
                &facts.threads.to_string(),
                &facts
                    .memory_bytes
                    .map_or_else(|| "not known".to_owned(), bytes),
                &facts.features.join(", "),
            ]),
            State::Unavailable { .. } => {
                table.add_row([backend, "unavailable", "-", "see below", "-", "-", "-", "-"])
            }
        };
    }
    // Sentences, which a table would cut or be stretched by.
    let reasons = diagnosis
        .backends
        .iter()
        .filter_map(|finding| match (&finding.state, finding.failed()) {
            (State::Unavailable { reason }, _) => Some(format!("- {reason}.\n")),
            (_, Some(reason)) => Some(format!(
                "- {}: it did not do what it was told: {reason}. Results of it are not to be trusted; if it stays, report it with this message.\n",
                finding.backend
            )),
            _ => None,
        });
    let reasons: String = reasons.collect();
    let limits = diagnosis
        .backends
        .iter()
        .filter_map(|finding| match &finding.state {
            State::Ready(facts) => Some(format!("- {}: {}.\n", finding.backend, facts.limits)),
            State::Unavailable { .. } => None,
        });
    let limits: String = limits.collect();
    let compiler = match &diagnosis.compiler {
        Compiler::Nvrtc(version) => format!("- CUDA C is compiled by NVRTC {version}."),
        Compiler::Missing(why) => format!("- {why}."),
    };
    let products = match &diagnosis.products {
        Products::Cublaslt(version) => format!("- Large products are done by cuBLASLt {version}."),
        Products::Missing(why) => format!("- {why}."),
    };
    let (kernels, choices) = (&diagnosis.kernels, &diagnosis.choices);
    format!(
        "millstream {}\n\n{table}\n{limits}{reasons}{compiler}\n{products}\n{kernels}\n{choices}\n",
        diagnosis.version
    )
}

fn told(self_test: &SelfTest) -> String {
    match self_test {
        SelfTest::Passed { took_ms, .. } => {
            format!("passed in {:.2} s", *took_ms as f64 / 1e3)
        }
        SelfTest::Failed { .. } => "FAILED, see below".to_owned(),
        SelfTest::LeftOut => "left out".to_owned(),
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
            compiler: Compiler::Missing("no quill".into()),
            products: Products::Cublaslt(three_parts(130_102)),
            kernels: Kernels::default(),
            choices: Choices::default(),
            backends: vec![
                Finding {
                    backend: "cpu",
                    for_tests: false,
                    state: State::Ready(ready),
                },
                Finding {
                    backend: "abacus",
                    for_tests: false,
                    state: State::Unavailable {
                        reason: "no beads".into(),
                    },
                },
            ],
        }
    }

    #[test]
    fn the_table_says_what_is_ready_and_why_the_rest_is_not() {
        let text = render(&diagnosis());
        for part in [
            "cpu",
            "ready",
            "a processor",
            "3.00 GiB",
            "native kernels, f64",
            "unavailable",
            "no beads",
            "no quill",
            "cuBLASLt 13.1.2",
            "- cpu: allocations of at most 1.00 GiB",
            "no kernel is kept",
            "passed in 0.12 s",
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
    }

    #[test]
    fn the_json_tells_the_states_apart() {
        let json = serde_json::to_value(diagnosis()).unwrap();
        assert_eq!(json["backends"][0]["ready"]["queues"], 2);
        assert_eq!(json["backends"][1]["unavailable"]["reason"], "no beads");
        assert_eq!(json["backends"][0]["ready"]["limits"]["bindings"], 32);
        assert_eq!(json["kernels"]["damaged"], 0);
        let test = &json["backends"][0]["ready"]["self_test"];
        assert_eq!(test["passed"]["steps"], 9);
    }

    /// Even of a device that is for tests.
    #[test]
    fn one_that_fails_is_told_of_and_makes_the_exit_code_say_so() {
        let mut diagnosis = diagnosis();
        assert_eq!(exit(&diagnosis.backends), Exit::Success);
        diagnosis.backends[0].for_tests = true;
        assert_eq!(exit(&diagnosis.backends), Exit::Wrong, "nothing to work on");
        diagnosis.backends[0].for_tests = false;
        if let State::Ready(facts) = &mut diagnosis.backends[0].state {
            let reason = "five is seven".into();
            facts.self_test = SelfTest::Failed { reason };
        }
        assert_eq!(exit(&diagnosis.backends), Exit::Wrong);
        let text = render(&diagnosis);
        assert!(
            text.contains("FAILED") && text.contains("told: five is seven."),
            "{text}"
        );
    }
}
