//! Runs the conformance suite on this backend, as the author of any backend would.

use millstream::CpuResources;
use millstream_conformance::{Opening, Setting, Subject, suite};

use crate::tiny::Tiny;

struct OnTiny;

impl Subject for OnTiny {
    type Kind = Tiny;

    fn open(&self, setting: &Setting) -> Opening<Tiny> {
        let tiny = Tiny::default();
        Opening::of(match setting.memory_bytes {
            Some(bytes) => tiny.memory_limit(bytes),
            None => tiny,
        })
    }

    // The defaults of `abilities` and `twin` apply: kernels are Rust, and the device has one queue.

    fn read(&self, resources: &CpuResources, index: usize) -> Vec<u32> {
        resources.read(index).to_vec()
    }

    fn change(&self, resources: &CpuResources, index: usize, change: &mut dyn FnMut(&mut [u32])) {
        change(&mut resources.write(index));
    }
}

suite!(tiny: OnTiny; threads, driven);
