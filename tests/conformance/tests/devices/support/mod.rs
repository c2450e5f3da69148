//! The project's own devices, as subjects of the suite (`devices`). The tests here also use the helpers of the suite
//! (`millstream_conformance::support`).

mod devices;
mod embedded;
mod gpu;
/// A backend as a third party would write it.
#[path = "../../../../../examples/backend/tiny/mod.rs"]
mod tiny;

pub(crate) use devices::{On, OnCuda};
pub(crate) use embedded::OnCpu;
pub(crate) use millstream_conformance::support::*;

use std::any::Any;
use std::sync::{Arc, Mutex};

use fake_cuda::Session;
use millstream::Source;
use millstream_conformance::Checks;
use rstest_reuse::template;

/// Returns the session of the fake driver, if the test's device runs on it.
pub(crate) fn session(checks: &dyn Checks) -> Option<&Session> {
    let checks: &dyn Any = checks;
    let gpu = checks.downcast_ref::<gpu::GpuChecks>()?;
    gpu.0.session()
}

/// Returns a kernel in PTX that takes parameters of these types and does nothing.
pub(crate) fn empty_ptx(name: &str, parameters: &[&str]) -> Source {
    let parameters = (0..).zip(parameters);
    let parameters: Vec<_> = parameters
        .map(|(index, of)| format!(".param .{of} {name}_{index}"))
        .collect();
    let parameters = parameters.join(", ");
    let entry = format!(".visible .entry {name}({parameters})\n{{\n    ret;\n}}\n");
    Source::Ptx(format!(".version 8.0\n.target sm_80\n.address_size 64\n\n{entry}").into())
}

/// A writer that collects log lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

/// Returns the lines that this thread logs meanwhile.
pub(crate) fn logged(run: impl FnOnce()) -> String {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    tracing::subscriber::with_default(subscriber, run);
    let bytes = log.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Every kind of device.
#[template]
#[rstest]
#[case::cpu(On::Cpu)]
#[case::cpu_one_queue(On::CpuOneQueue)]
#[case::cpu_driven(On::CpuDriven)]
#[case::sim(On::Sim)]
#[case::sim_driven(On::SimDriven)]
#[case::cuda(On::Cuda)]
#[case::cuda_one_queue(On::CudaOneQueue)]
#[case::cuda_driven(On::CudaDriven)]
#[case::tiny(On::Tiny)]
#[case::tiny_driven(On::TinyDriven)]
pub(crate) fn every_device(#[case] on: On) {}
