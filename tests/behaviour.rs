//! Runs the conformance suite on the devices that need no hardware: the CPU and the simulator. The tests of
//! `conformance` run it on CUDA.

#[path = "conformance/tests/devices/support/embedded.rs"]
mod embedded;

use embedded::{OnCpu, OnSim};
use millstream_conformance::suite;

suite!(cpu: OnCpu; threads, one_queue, driven);
suite!(sim: OnSim; threads, driven);
