//! The behaviour of the runtime, fact by fact, on the devices that need nothing else: the CPU and the simulator. On CUDA the same suite
//! runs with the tests of `conformance`.

#[path = "conformance/tests/devices/support/embedded.rs"]
mod embedded;

use embedded::{OnCpu, OnSim};
use millstream_conformance::suite;

suite!(cpu: OnCpu; threads, one_queue, driven);
suite!(sim: OnSim; threads, driven);
