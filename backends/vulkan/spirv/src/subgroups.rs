//! Subgroups of the device, whose width the pipeline requires, as those of a function: for functions that shuffle or reduce
//! values in subgroups that are no wider. Others exchange values by shared memory (`routines`).
//!
//! Vulkan does not say which threads of a cube are in a subgroup. So a module with subgroups does: its threads are numbered by
//! the index of the subgroup and the place in it, and their positions follow from the number. All subgroups are full, since
//! their width divides the threads along x.

use millstream_ir::DType;
use millstream_ir::ssa::{Function, Op, Scope, statements};
use spirv::{BuiltIn, Capability, Op as Code, Word};

use crate::body::Body;
use crate::{Features, Target};

/// The scope of a subgroup, as SPIR-V numbers it.
const SUBGROUP: u32 = 3;

impl Features {
    /// Whether values of this type are shuffled in subgroups of this many threads by subgroups of the device.
    pub(crate) fn shuffles(&self, width: u32, dtype: DType) -> bool {
        let is_basic = matches!(
            dtype,
            DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::Bool
        );
        width <= self.subgroup_width && (is_basic || self.subgroup_extended_types)
    }
}

/// Returns the target, without subgroups if the function does not use those of the device.
pub(crate) fn without_needless(function: &Function, target: &Target) -> Target {
    let mut target = *target;
    let features = target.features;
    let width = features.subgroup_width.max(1);
    let threads: u32 = function.threads.iter().product();
    let is_full = function.threads[0].is_multiple_of(width);
    let is_possible = is_full && threads / width <= features.subgroups_max;
    let mut ops = statements(&function.body).filter_map(|stmt| stmt.op());
    let is_used = ops.any(|op| match op {
        Op::Reduce(Scope::Subgroup(width), _, a) | Op::Shuffle(_, width, a, _) => {
            features.shuffles(*width, function.values[*a as usize].dtype)
        }
        _ => false,
    });
    if !is_used || !is_possible {
        target.features.subgroup_width = 0;
    }
    target
}

impl Body<'_> {
    /// Returns a value of another thread of the device's subgroup; the thread's own if there is no such thread.
    pub(crate) fn shuffled(&mut self, dtype: DType, [value, by]: [Word; 2]) -> Word {
        let width = self.unit.target.features.subgroup_width.into();
        self.unit.emit.needs(Capability::GroupNonUniformShuffle);
        let width = self.constant(DType::U64, width);
        let exists = self.op(Code::ULessThan, DType::Bool, &[by, width]);
        let by = self.cast(DType::I64, DType::U32, by);
        let own = self.subgroup_built_in(BuiltIn::SubgroupLocalInvocationId);
        let place = self.op(Code::Select, DType::U32, &[exists, by, own]);
        let scope = self.unit.emit.u32(SUBGROUP);
        self.op(Code::GroupNonUniformShuffle, dtype, &[scope, value, place])
    }

    /// Returns the position of the thread in the cube along an axis, `u32`, by its place in the subgroup.
    pub(crate) fn thread_of_subgroup(&mut self, axis: u32) -> Word {
        let width = self.unit.target.features.subgroup_width;
        let subgroup = self.subgroup_built_in(BuiltIn::SubgroupId);
        let place = self.subgroup_built_in(BuiltIn::SubgroupLocalInvocationId);
        let width = self.unit.emit.u32(width);
        let first = self.op(Code::IMul, DType::U32, &[subgroup, width]);
        let number = self.op(Code::IAdd, DType::U32, &[first, place]);
        let [before @ .., _] = self.function.threads;
        let below: u32 = before.iter().take(axis as usize).product();
        let [below, threads] =
            [below, self.function.threads[axis as usize]].map(|n| self.unit.emit.u32(n));
        let behind = self.op(Code::UDiv, DType::U32, &[number, below]);
        self.op(Code::UMod, DType::U32, &[behind, threads])
    }

    /// Returns a built-in number of subgroups, `u32`.
    fn subgroup_built_in(&mut self, what: BuiltIn) -> Word {
        let unit = &mut *self.unit;
        unit.emit.needs(Capability::GroupNonUniform);
        let of = unit.emit.of(DType::U32);
        let emit = &mut unit.emit;
        let variable = unit.built_ins.entry(what as u32);
        let variable = *variable.or_insert_with(|| emit.built_in(what, of));
        unit.emit.load(of, variable)
    }
}
