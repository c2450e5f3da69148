//! `millstream doctor`: which devices can be opened here, and why others cannot.
//!
//! One row per backend of this build; a backend that cannot be opened keeps its row and says why.

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use millstream::sim::Sim;
use millstream::{Cpu, Cuda, Device, cuda};
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::demo::bytes;
use crate::exit::{CommandError, Exit};
use crate::output;

#[derive(Debug, Serialize)]
struct Diagnosis {
    version: &'static str,
    exit_code: u8,
    backends: Vec<Finding>,
    /// What compiles CUDA C.
    compiler: Compiler,
    /// What does large products on a GPU.
    products: Products,
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
}

/// Opens a device of every kind, closes it again, and prints what was found.
pub(crate) fn run(args: &DoctorArgs) -> Result<Exit, CommandError> {
    let found = |backend, for_tests, state| Finding {
        backend,
        for_tests,
        state,
    };
    let mut backends = vec![found("cpu", false, examine(Device::open(Cpu::default())))];
    match cuda::gpus() {
        Ok(gpus) => backends.extend(gpus.iter().map(|gpu| {
            let opened = Device::open(Cuda::ordinal(gpu.ordinal));
            found("cuda", false, examine(opened))
        })),
        Err(error) => backends.push(found("cuda", false, examine(Err(error)))),
    }
    backends.push(found("sim", true, examine(Device::open(Sim::seed(1)))));
    let exit = if backends
        .iter()
        .any(|finding| !finding.for_tests && matches!(finding.state, State::Ready(_)))
    {
        Exit::Success
    } else {
        Exit::Wrong
    };
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

fn examine(opened: Result<Device, millstream::OpenError>) -> State {
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
        "backend", "state", "device", "queues", "threads", "memory", "features",
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
                &facts.name,
                &facts.queues.to_string(),
                &facts.threads.to_string(),
                &facts
                    .memory_bytes
                    .map_or_else(|| "not known".to_owned(), bytes),
                &facts.features.join(", "),
            ]),
            State::Unavailable { .. } => {
                table.add_row([backend, "unavailable", "see below", "-", "-", "-", "-"])
            }
        };
    }
    // Sentences, which a table would cut or be stretched by.
    let reasons = diagnosis
        .backends
        .iter()
        .filter_map(|finding| match &finding.state {
            State::Unavailable { reason } => Some(format!("- {reason}.\n")),
            State::Ready(_) => None,
        });
    let reasons: String = reasons.collect();
    let compiler = match &diagnosis.compiler {
        Compiler::Nvrtc(version) => format!("- CUDA C is compiled by NVRTC {version}."),
        Compiler::Missing(why) => format!("- {why}."),
    };
    let products = match &diagnosis.products {
        Products::Cublaslt(version) => format!("- Large products are done by cuBLASLt {version}."),
        Products::Missing(why) => format!("- {why}."),
    };
    format!(
        "millstream {}\n\n{table}\n{reasons}{compiler}\n{products}\n",
        diagnosis.version
    )
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
        };
        Diagnosis {
            version: "0.1.0",
            exit_code: 0,
            compiler: Compiler::Missing("no quill".into()),
            products: Products::Cublaslt(three_parts(130_102)),
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
        ] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
    }

    #[test]
    fn the_json_tells_the_states_apart() {
        let json = serde_json::to_value(diagnosis()).unwrap();
        assert_eq!(json["backends"][0]["ready"]["queues"], 2);
        assert_eq!(json["backends"][1]["unavailable"]["reason"], "no beads");
    }
}
