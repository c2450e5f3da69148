//! What takes the place of `gpu` without the feature `cuda`: no call moves its bytes between CUDA devices.

use std::sync::Arc;

use millstream::{DType, Device};

use crate::announcement::Operation;
use crate::part::Part;

/// The CUDA devices of a group: none that the group knows of.
pub(crate) struct Gpus;

/// There are no threads of groups.
#[derive(Default)]
pub(crate) struct Threads;

/// There is no way between CUDA devices.
#[derive(Clone, Copy)]
pub(crate) enum Transfer {}

/// There is no such call.
#[expect(dead_code, reason = "it is made by the same code as with the feature")]
pub(crate) struct Arrived {
    pub(crate) name: &'static str,
    pub(crate) transfer: Transfer,
    pub(crate) members: Box<[usize]>,
    pub(crate) parts: Vec<Part>,
}

impl Threads {
    pub(crate) fn join(&self) {}
}

impl Gpus {
    pub(crate) fn new<'a>(
        _devices: impl Iterator<Item = &'a Device>,
        _threads: &Arc<Threads>,
        _may_use_nccl: bool,
    ) -> Arc<Self> {
        Arc::new(Self)
    }

    pub(crate) fn transfer(
        &self,
        _operation: Operation,
        _dtype: DType,
        _members: &[usize],
    ) -> Option<Transfer> {
        None
    }

    pub(crate) fn begin(&self, call: Arrived) {
        match call.transfer {}
    }

    pub(crate) fn end(&self) {}
}
