//! Groups that walk the same buffers become one, with several sinks: what they read is read once.
//!
//! ```text
//!  b1 = sum(b0)    b2 = max(b0)    b3 = sum(b0 * b0)     becomes     b1 = sum(b0); b2 = max(b0); b3 = sum(b0 * b0)
//! ```
//! Two groups become one if
//!
//! 1. they have loops of the same lengths, those that are reduced included;
//! 2. one of them loads all that the other loads, each element at the same index of the loops, or is computed of what the other stores
//!    there, which is then in a register;
//! 3. they read the same buffers. What the second reads of the first counts as what the first reads.
//!
//! **Failures (I7).** A task that has a failed input poisons all that it writes. By rule 3 each group of a joint one depends on every
//! buffer that the joint one reads, and so would have failed by itself. Groups that store a part of a buffer, or into one that is there,
//! need what is in it as well: they stay alone.
//!
//! **Order.** Joining makes no circle. If one joint group needed another, which needed the first, then by rule 3 each group of the one
//! would need some group of the other and the other way round, back to groups without joint ones, of which none needs itself. What
//! stores over a buffer comes behind all that read its old version: by rule 3 these are all groups of a joint one, or what it stores.

use std::collections::HashMap;
use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use crate::lazy::node::Op;
use crate::schedule::axes::{Affine, Axes, AxisId, Map};
use crate::schedule::group::{
    FEW_ROWS, Group, Kind, LONG_ROW, MAX_POINTERS, MAX_VALUES, Member, Reach, ReachId, Sink,
};
use crate::schedule::order::base_of;
use crate::schedule::walk::{Local, Walk};
use crate::size::Size;

/// The most groups that one is compared with, of those that read the same buffers: many groups of one buffer are joined in linear time.
const COMPARED_MAX: usize = 8;

/// Whether a group may be part of a joint one: it stores all of a buffer that nothing else stores to.
pub(super) fn may_join(walk: &Walk, group: &Group) -> bool {
    let node = walk.node(group.sink.node);
    group.kind == Kind::Nest
        && group.product.is_none()
        && !group.sink.partial
        && group.sink.scatter.is_none()
        && !matches!(node.op, Op::Scatter { .. })
        && base_of(walk, node).is_none()
}

/// Joins those of the groups that may be one. All of them [may join](may_join).
pub(super) fn joined(walk: &Walk, mut groups: Vec<Group>) -> Vec<Group> {
    // What is used comes before what uses it.
    groups.sort_unstable_by_key(|group| group.sink.node);
    let mut all: Vec<Joint> = Vec::with_capacity(groups.len());
    let mut makers: HashMap<Local, usize> = HashMap::new();
    let mut readers: HashMap<Vec<Local>, Vec<usize>> = HashMap::new();
    for group in groups {
        let (node, reads) = (group.sink.node, reads(&group));
        let alike = readers.get(&reads).map_or(&[][..], Vec::as_slice);
        let alike = alike.iter().rev().take(COMPARED_MAX);
        let made = reads.iter().filter_map(|read| makers.get(read));
        let candidates: SmallVec<[usize; 4]> = made.chain(alike).copied().collect();
        let found = candidates.into_iter().find_map(|place| {
            let renamed = all[place].renamed(walk, &group, &reads)?;
            Some((place, renamed))
        });
        let place = match found {
            Some((place, (members, sink))) => {
                all[place].add(members, sink);
                place
            }
            None => {
                readers.entry(reads.clone()).or_default().push(all.len());
                let is_resolved = false;
                all.push(Joint {
                    group,
                    reads,
                    is_resolved,
                });
                all.len() - 1
            }
        };
        makers.insert(node, place);
    }
    all.into_iter().map(|joint| joint.group).collect()
}

/// The nodes whose buffers a group loads, in order.
fn reads(group: &Group) -> Vec<Local> {
    let loaded = group.members.iter().filter(|member| !member.computed);
    let mut reads: Vec<Local> = loaded.map(|member| member.node).collect();
    reads.sort_unstable();
    reads.dedup();
    reads
}

/// A group that takes others in.
struct Joint {
    group: Group,
    /// What the first of it reads, which is what all of it needs.
    reads: Vec<Local>,
    /// Whether its members name no axis that is split.
    is_resolved: bool,
}

impl Joint {
    /// The members and the sink of a group that reads these nodes, in terms of the axes of this one. None if it must not be taken in.
    fn renamed(
        &mut self,
        walk: &Walk,
        group: &Group,
        reads: &[Local],
    ) -> Option<(Vec<Member>, Sink)> {
        let mine = &self.group;
        let is_held = walk.is_held(group.sink.node) == walk.is_held(mine.sink.node);
        let sinks = mine.others.len() + 2;
        let values = mine.members.len() + group.members.len();
        let has_room = self.reads.len() + sinks <= MAX_POINTERS && values <= MAX_VALUES;
        let may_be = is_held && has_room && same_lengths(&mine.axes, &group.axes);
        if !may_be || !self.needs_what_it_needs(reads)? {
            return None;
        }
        self.resolve()?;
        let names = axes_of(&group.axes).zip(axes_of(&self.group.axes));
        let names = names.collect();
        let mut members = members_over(group, &names)?;
        let mut sink = group.sink.clone();
        sink.address = renamed(&group.axes, &sink.address, &names)?;
        for member in &mut members {
            self.keep_in_register(walk, member)?;
        }
        let (mine, theirs) = (places(walk, &self.group.members)?, places(walk, &members)?);
        let is_part =
            |of: &[(Local, Place)], all: &[(Local, Place)]| of.iter().all(|it| all.contains(it));
        (is_part(&theirs, &mine) || is_part(&mine, &theirs)).then_some((members, sink))
    }

    /// Whether a group that reads these nodes depends on the same buffers (rule 3). None if rows cannot be counted.
    fn needs_what_it_needs(&self, reads: &[Local]) -> Option<bool> {
        let is_stored = |node: &&Local| self.group.sinks().any(|sink| sink.node == **node);
        let (stored, others): (Vec<&Local>, Vec<&Local>) = reads.iter().partition(is_stored);
        if stored.is_empty() {
            return Some(!others.is_empty() && others.into_iter().eq(&self.reads));
        }
        // Rows that no cache holds come from memory once for each time that they are walked, in one kernel or in several.
        Some(
            !has_few_long_rows(&self.group.axes)?
                && others.iter().all(|read| self.reads.contains(read)),
        )
    }

    /// Names the parts of axes that are split, in the place of these.
    fn resolve(&mut self) -> Option<()> {
        if !self.is_resolved {
            let own = axes_of(&self.group.axes).map(|axis| (axis, axis));
            self.group.members = members_over(&self.group, &own.collect())?;
            let sinks = [&mut self.group.sink].into_iter();
            for sink in sinks.chain(&mut self.group.others) {
                sink.address = self.group.axes.resolve(&sink.address)?;
            }
            self.is_resolved = true;
        }
        Some(())
    }

    /// A load of what this one stores, at the index at which it does, is of a value that it has. None if the load is of another index.
    fn keep_in_register(&self, walk: &Walk, member: &mut Member) -> Option<()> {
        let mut sinks = self.group.sinks();
        let Some(sink) = sinks.find(|sink| sink.node == member.node) else {
            return Some(());
        };
        if member.computed || place(walk, member)? != Place::At(sink.address.clone()) {
            return None;
        }
        member.operands = smallvec![sink.value];
        member.how = Reach::Stored;
        member.computed = true;
        Some(())
    }

    /// Adds members, of which those that are there already are not made again.
    fn add(&mut self, members: Vec<Member>, mut sink: Sink) {
        let mut known: HashMap<Local, Vec<usize>> = HashMap::new();
        for (place, member) in self.group.members.iter().enumerate() {
            known.entry(member.node).or_default().push(place);
        }
        let mut same: HashMap<ReachId, ReachId> = HashMap::new();
        let mut more = Vec::with_capacity(members.len());
        // Those that are used come last.
        for mut member in members.into_iter().rev() {
            for operand in &mut member.operands {
                *operand = same.get(operand).copied().unwrap_or(*operand);
            }
            let places = known.get(&member.node).into_iter().flatten();
            let mut places = places.map(|place| &self.group.members[*place]);
            match places.find(|other| is_same(other, &member)) {
                Some(other) => {
                    same.insert(member.reach, other.reach);
                }
                None => more.push(member),
            }
        }
        more.reverse();
        more.append(&mut self.group.members);
        self.group.members = more;
        sink.value = same.get(&sink.value).copied().unwrap_or(sink.value);
        self.group.others.push(sink);
    }
}

/// The axes that are looped over, none of them split.
fn axes_of(axes: &Axes) -> impl Iterator<Item = AxisId> + use<> {
    axes.outer().into_iter().chain(axes.inner())
}

fn same_lengths(one: &Axes, other: &Axes) -> bool {
    let same = |mine: Vec<AxisId>, theirs: Vec<AxisId>| {
        let mine = mine.iter().map(|axis| one.length(*axis));
        mine.eq(theirs.iter().map(|axis| other.length(*axis)))
    };
    same(one.outer(), other.outer()) && same(one.inner(), other.inner())
}

/// Whether few rows are reduced that are long ([`FEW_ROWS`]). None if they cannot be counted.
fn has_few_long_rows(axes: &Axes) -> Option<bool> {
    if !axes.has_inner() {
        return Some(false);
    }
    let count = |all: Vec<AxisId>| Size::product(all.iter().map(|axis| axes.length(*axis)))?.max();
    Some(count(axes.outer())? < FEW_ROWS && count(axes.inner())? > LONG_ROW)
}

/// An affine of other axes, by the names that these have here.
fn renamed(axes: &Axes, affine: &Affine, names: &HashMap<AxisId, AxisId>) -> Option<Affine> {
    let resolved = axes.resolve(affine)?;
    let mut renamed = Affine {
        constant: resolved.constant,
        ..Affine::zero()
    };
    for (axis, factor) in &resolved.terms {
        renamed.add(&Affine::axis(*names.get(axis)?), factor)?;
    }
    Some(renamed)
}

/// The members of a group by other names of its axes.
fn members_over(group: &Group, names: &HashMap<AxisId, AxisId>) -> Option<Vec<Member>> {
    let named = |map: &Rc<Map>| -> Option<Rc<Map>> {
        let map = map.iter().map(|index| renamed(&group.axes, index, names));
        map.collect::<Option<Map>>().map(Rc::new)
    };
    let member = |member: &Member| {
        let how = match &member.how {
            Reach::At(map) => Reach::At(named(map)?),
            Reach::Side(map) => Reach::Side(named(map)?),
            Reach::Flat(flat) => Reach::Flat(renamed(&group.axes, flat, names)?),
            Reach::Whole(Some(map)) => Reach::Whole(Some(named(map)?)),
            how @ (Reach::Whole(None) | Reach::Stored) => how.clone(),
        };
        Some(Member {
            how,
            ..member.clone()
        })
    };
    group.members.iter().map(member).collect()
}

/// Where a member is loaded from.
#[derive(Clone, PartialEq, Debug)]
enum Place {
    At(Affine),
    /// Wherever another value says along one axis.
    Gathered(Option<Rc<Map>>),
}

fn place(walk: &Walk, member: &Member) -> Option<Place> {
    Some(match &member.how {
        Reach::At(map) | Reach::Side(map) => {
            Place::At(Affine::flat(map, &walk.node(member.node).shape)?)
        }
        Reach::Flat(flat) => Place::At(flat.clone()),
        Reach::Whole(map) => Place::Gathered(map.clone()),
        Reach::Stored => return None,
    })
}

/// All that members load. None if it cannot be counted.
fn places(walk: &Walk, members: &[Member]) -> Option<Vec<(Local, Place)>> {
    let loaded = members.iter().filter(|member| !member.computed);
    loaded
        .map(|member| Some((member.node, place(walk, member)?)))
        .collect()
}

/// Whether two members are the same value.
fn is_same(one: &Member, other: &Member) -> bool {
    let is_there = match (&one.how, &other.how) {
        (Reach::At(a), Reach::At(b)) | (Reach::Side(a), Reach::Side(b)) => a == b,
        (Reach::Whole(a), Reach::Whole(b)) => a == b,
        (Reach::Flat(a), Reach::Flat(b)) => a == b,
        (Reach::Stored, Reach::Stored) => true,
        _ => false,
    };
    is_there
        && one.node == other.node
        && one.computed == other.computed
        && one.operands == other.operands
}
