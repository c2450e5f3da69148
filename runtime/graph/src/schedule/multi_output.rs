//! Merges groups that read the same buffers into one with several sinks, so that the buffers are read once.
//!
//! ```text
//!  b1 = sum(b0)    b2 = max(b0)    b3 = sum(b0 * b0)     becomes     b1 = sum(b0); b2 = max(b0); b3 = sum(b0 * b0)
//! ```
//! Two groups are merged if
//!
//! 1. they have loops of the same lengths, the reduced ones included;
//! 2. one of them loads everything that the other loads, each element at the same index of the loops, or loads what the
//!    other stores at the same index, which is then in a register;
//! 3. they depend on the same buffers. What the second reads of the first counts as what the first reads.
//!
//! Groups are merged after fusion: while fusion visits a node, it does not know yet which other groups read the same
//! buffers. So a fused group does not depend on what else the schedule computes.
//!
//! **Failures (I7).** A task with a poisoned input poisons all its outputs. By rule 3 each group of a merged one
//! depends on every buffer that the merged group reads, so each would have been poisoned alone as well. A group that
//! stores a part of a buffer, or into an existing one, also depends on the content of that buffer: it is never merged.
//!
//! **Order.** Merging creates no cycle. If merged group A needed merged group B and B needed A, then by rule 3 every
//! group of A would need a group of B and the other way round, which ends at unmerged groups, and of those none needs
//! itself. A store over a buffer runs after all readers of the old version: by rule 3 these are all groups of a merged
//! one, or only what it stores.

use std::collections::HashMap;

use smallvec::{SmallVec, smallvec};

use crate::lazy::node::Op;
use crate::schedule::axes::{Affine, Axes, AxisId};
use crate::schedule::group::{
    AccessPattern, FEW_ROWS, Group, LONG_ROW, MAX_POINTERS, MAX_VALUES, Member, Sink, UseId,
};
use crate::schedule::walk::{Local, Walk};
use crate::size::Size;

/// The most groups with the same reads that one group is compared with: this keeps merging many groups of one buffer
/// linear.
const COMPARED_MAX: usize = 8;

/// Returns `true` if a group may be merged: it stores all of a buffer that no other group stores to.
pub(super) fn may_merge(walk: &Walk, group: &Group) -> bool {
    let node = walk.node(group.sink().node);
    group.product.is_none()
        && !group.sink().partial
        && !matches!(node.op, Op::Scatter { .. } | Op::Custom(_))
        && node.base().is_none()
}

/// Merges groups where the rules allow it. All of them satisfy [`may_merge`].
pub(super) fn merge(mut groups: Vec<Group>) -> Vec<Group> {
    // Producers come before their readers.
    groups.sort_unstable_by_key(|group| group.sink().node);
    let mut all: Vec<MergedGroup> = Vec::with_capacity(groups.len());
    let mut makers: HashMap<Local, usize> = HashMap::new();
    let mut readers: HashMap<Vec<Local>, Vec<usize>> = HashMap::new();
    for group in groups {
        let (node, reads) = (group.sink().node, reads(&group));
        let alike = readers.get(&reads).map_or(&[][..], Vec::as_slice);
        let alike = alike.iter().rev().take(COMPARED_MAX);
        let made = reads.iter().filter_map(|read| makers.get(read));
        let candidates: SmallVec<[usize; 4]> = made.chain(alike).copied().collect();
        let found = candidates.into_iter().find_map(|place| {
            let renamed = all[place].renamed(&group, &reads)?;
            Some((place, renamed))
        });
        let place = match found {
            Some((place, (members, sink))) => {
                all[place].add(members, sink);
                place
            }
            None => {
                readers.entry(reads.clone()).or_default().push(all.len());
                all.push(MergedGroup { group, reads });
                all.len() - 1
            }
        };
        makers.insert(node, place);
    }
    all.into_iter().map(|joint| joint.group).collect()
}

/// Returns the nodes whose buffers a group loads, sorted.
fn reads(group: &Group) -> Vec<Local> {
    let loaded = group.members.iter().filter(|member| !member.computed);
    let mut reads: Vec<Local> = loaded.map(|member| member.node).collect();
    reads.sort_unstable();
    reads.dedup();
    reads
}

/// A group that others are merged into.
struct MergedGroup {
    group: Group,
    /// The reads of the first group, which are the dependencies of all.
    reads: Vec<Local>,
}

impl MergedGroup {
    /// Returns the members and the sink of a group with these reads, in terms of the axes of this one. `None` if the
    /// two must not be merged.
    fn renamed(&self, group: &Group, reads: &[Local]) -> Option<(Vec<Member>, Sink)> {
        let mine = &self.group;
        let sinks = mine.sinks.len() + 1;
        let values = mine.members.len() + group.members.len();
        let fits = self.reads.len() + sinks <= MAX_POINTERS && values <= MAX_VALUES;
        let may_be = fits && same_lengths(&mine.axes, &group.axes);
        if !may_be || !self.has_same_dependencies(reads)? {
            return None;
        }
        let names = group.axes.all().into_iter().zip(mine.axes.all());
        let names: HashMap<AxisId, AxisId> = names.collect();
        let mut members = group.members.clone();
        for member in &mut members {
            member.pattern = member.pattern.mapped(&|index| renamed(index, &names))?;
            self.forward_store(member)?;
        }
        let mut sink = group.sink().clone();
        sink.address = renamed(&sink.address, &names)?;
        let (mine, theirs) = (loads(&self.group.members), loads(&members));
        let is_part = |of: &[_], all: &[_]| of.iter().all(|it| all.contains(it));
        let is_joint = is_part(&theirs, &mine) || is_part(&mine, &theirs);
        is_joint.then_some((members, sink))
    }

    /// Returns `true` if a group with these reads depends on the same buffers (rule 3). `None` if the number of rows
    /// overflows.
    fn has_same_dependencies(&self, reads: &[Local]) -> Option<bool> {
        let is_stored = |node: &&Local| self.group.sinks.iter().any(|sink| sink.node == **node);
        let (stored, other_sinks): (Vec<&Local>, Vec<&Local>) = reads.iter().partition(is_stored);
        if stored.is_empty() {
            return Some(!other_sinks.is_empty() && other_sinks.into_iter().eq(&self.reads));
        }
        // Rows that no cache holds are loaded from memory for each pass over them, in one kernel or in several.
        Some(
            !has_few_long_rows(&self.group.axes)?
                && other_sinks.iter().all(|read| self.reads.contains(read)),
        )
    }

    /// Replaces a load of a buffer that this group stores at the same index by the stored value. `None` if the index
    /// differs.
    fn forward_store(&self, member: &mut Member) -> Option<()> {
        let mut sinks = self.group.sinks.iter();
        let Some(sink) = sinks.find(|sink| sink.node == member.node) else {
            return Some(());
        };
        let stored = AccessPattern::Flat(sink.address.clone());
        if member.computed || member.pattern != stored {
            return None;
        }
        member.operands = smallvec![sink.value];
        member.pattern = AccessPattern::Stored;
        member.computed = true;
        Some(())
    }

    /// Adds members and a sink. Members that exist already are reused.
    fn add(&mut self, members: Vec<Member>, mut sink: Sink) {
        let mut known: HashMap<Local, Vec<usize>> = HashMap::new();
        for (place, member) in self.group.members.iter().enumerate() {
            known.entry(member.node).or_default().push(place);
        }
        let mut same: HashMap<UseId, UseId> = HashMap::new();
        let mut more = Vec::with_capacity(members.len());
        // Operands come last, so they are mapped first.
        for mut member in members.into_iter().rev() {
            for operand in &mut member.operands {
                *operand = same.get(operand).copied().unwrap_or(*operand);
            }
            let places = known.get(&member.node).into_iter().flatten();
            let mut places = places.map(|place| &self.group.members[*place]);
            match places.find(|other| is_same(other, &member)) {
                Some(other) => {
                    same.insert(member.use_id, other.use_id);
                }
                None => more.push(member),
            }
        }
        more.reverse();
        more.append(&mut self.group.members);
        self.group.members = more;
        sink.value = same.get(&sink.value).copied().unwrap_or(sink.value);
        self.group.sinks.push(sink);
    }
}

fn same_lengths(one: &Axes, other: &Axes) -> bool {
    let same = |mine: Vec<AxisId>, theirs: Vec<AxisId>| {
        let mine = mine.iter().map(|axis| one.length(*axis));
        mine.eq(theirs.iter().map(|axis| other.length(*axis)))
    };
    same(one.outer(), other.outer()) && same(one.inner(), other.inner())
}

/// Returns `true` if few long rows are reduced ([`FEW_ROWS`]). `None` if their number overflows.
fn has_few_long_rows(axes: &Axes) -> Option<bool> {
    if !axes.has_inner() {
        return Some(false);
    }
    let count = |all: Vec<AxisId>| Size::product(all.iter().map(|axis| axes.length(*axis)))?.max();
    Some(count(axes.outer())? < FEW_ROWS && count(axes.inner())? > LONG_ROW)
}

/// Renames the axes of an affine.
fn renamed(affine: &Affine, names: &HashMap<AxisId, AxisId>) -> Option<Affine> {
    let mut renamed = Affine {
        constant: affine.constant.clone(),
        ..Affine::zero()
    };
    for (axis, factor) in &affine.terms {
        renamed.add(&Affine::axis(*names.get(axis)?), factor)?;
    }
    Some(renamed)
}

/// Returns everything that members load, each with its place.
fn loads(members: &[Member]) -> Vec<(Local, &AccessPattern)> {
    let loaded = members.iter().filter(|member| !member.computed);
    loaded
        .map(|member| (member.node, &member.pattern))
        .collect()
}

/// Returns `true` if two members compute the same value.
fn is_same(one: &Member, other: &Member) -> bool {
    one.node == other.node
        && one.computed == other.computed
        && one.operands == other.operands
        && one.pattern == other.pattern
}
