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
