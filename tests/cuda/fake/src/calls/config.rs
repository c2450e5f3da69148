//! `CUlaunchConfig`: the dimensions of a launch, its stream and its attributes.

use crate::code::Code;
use crate::function::CLUSTER_POLICIES;
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
    pub(super) const IGNORE: u32 = 0;
    pub(super) const COOPERATIVE: u32 = 2;
    pub(super) const CLUSTER: u32 = 4;
    pub(super) const CLUSTER_POLICY: u32 = 5;
    pub(super) const PROGRAMMATIC: u32 = 6;
    pub(super) const PRIORITY: u32 = 8;
    /// The last known id. The others up to it are not modelled: access windows, synchronization policy, events, memory
    /// domains, preferred clusters, graphs, carveout.
    pub(super) const LAST: u32 = 16;
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
                (attribute::IGNORE, _) => {}
                (attribute::COOPERATIVE, [yes, ..]) => extras.cooperative = yes != 0,
                (attribute::CLUSTER, [x, y, z, ..]) => extras.cluster = Some([x, y, z]),
                (attribute::CLUSTER_POLICY, [policy, ..]) if policy < CLUSTER_POLICIES => {
                    extras.cluster_policy = Some(policy);
                }
                (attribute::PROGRAMMATIC, [yes, ..]) => extras.programmatic = yes != 0,
                (attribute::PRIORITY, [priority, ..]) => {
                    extras.priority = Some(priority.cast_signed());
                }
                (attribute::CLUSTER_POLICY, [policy, ..]) => {
                    state.report(format!(
                        "invalid launch: {call} receives the unknown cluster policy {policy}"
                    ));
                    return Err(Code::INVALID_VALUE);
                }
                (..=attribute::LAST, _) => {
                    state.report(format!("not modelled: launch attribute {id}"));
                    return Err(Code::NOT_SUPPORTED);
                }
                _ => {
                    state.report(format!(
                        "invalid launch: {call} receives the unknown attribute {id}"
                    ));
                    return Err(Code::INVALID_VALUE);
                }
            }
        }
        Ok((self.stream, extras))
    }
}
