//! `CUlaunchConfig`: the dimensions of a launch, its stream and its attributes.

use crate::code::Code;
use crate::operation::Extras;
use crate::state::State;

/// `CUlaunchAttribute`: the id and the value.
#[repr(C)]
#[derive(Clone, Copy)]
struct Attribute {
    id: u32,
    _pad: u32,
    words: [u32; 16],
}

/// `CU_LAUNCH_ATTRIBUTE_..`
mod attribute {
    pub(super) const COOPERATIVE: u32 = 2;
    pub(super) const CLUSTER: u32 = 4;
    pub(super) const PROGRAMMATIC: u32 = 6;
}

/// `CUlaunchConfig`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Config {
    pub(crate) cubes: [u32; 3],
    pub(crate) threads: [u32; 3],
    pub(crate) shared_bytes: u32,
    stream: u64,
    attributes: *const Attribute,
    count: u32,
}

impl Config {
    /// Returns the stream and the attributes.
    pub(super) fn parse(&self, state: &mut State, call: &str) -> Result<(u64, Extras), Code> {
        let mut extras = Extras::default();
        if self.count > 0 && self.attributes.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        for index in 0..self.count as usize {
            // SAFETY: the caller passed an array with this many attributes.
            let Attribute { id, words, .. } =
                unsafe { self.attributes.add(index).read_unaligned() };
            match (id, words) {
                (attribute::COOPERATIVE, [yes, ..]) => extras.cooperative = yes != 0,
                (attribute::CLUSTER, [x, y, z, ..]) => extras.cluster = Some([x, y, z]),
                (attribute::PROGRAMMATIC, [yes, ..]) => extras.programmatic = yes != 0,
                _ => {
                    state.report(format!("not modelled: {call} with launch attribute {id}"));
                    return Err(Code::NOT_SUPPORTED);
                }
            }
        }
        Ok((self.stream, extras))
    }
}
