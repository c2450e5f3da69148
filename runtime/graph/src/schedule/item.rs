//! One step of a schedule: a program or a kernel, its bindings, and the words of its launch.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use millstream_ir::Program;
use smallvec::SmallVec;

use super::walk::Local;
use super::{Schedule, Steps};
use crate::lazy::callee::Custom;
use crate::size::Size;

pub(crate) use crate::lazy::scalar::WordValue;

/// The kind of an item.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ItemKind {
    /// A fused kernel.
    Kernel,
    /// A product of matrices, perhaps with an epilogue.
    Matmul,
    /// A kernel of a user.
    Custom,
    /// A kernel of a user that updates its last argument.
    CustomInPlace,
    /// A hand-written SSA kernel.
    Ssa,
    /// A copy of a buffer whose old version is read after a store into the buffer.
    Copy,
    /// A fused kernel that stores into an existing buffer.
    Set,
}

impl ItemKind {
    /// Returns the name of the kind, as texts show it.
    pub const fn name(self) -> &'static str {
        match self {
            ItemKind::Kernel => "kernel",
            ItemKind::Matmul => "matmul",
            ItemKind::Custom => "custom",
            ItemKind::CustomInPlace => "custom in place",
            ItemKind::Ssa => "ssa",
            ItemKind::Copy => "copy",
            ItemKind::Set => "set",
        }
    }
}

impl std::fmt::Display for ItemKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The code that an item runs.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// A program for any device.
    Program(Arc<Program>),
    /// A kernel of a user.
    Custom(Arc<Custom>),
}

/// One step of a schedule.
#[derive(Clone, Debug)]
pub struct Item {
    pub(crate) kind: ItemKind,
    pub(crate) work: Work,
    /// The bindings, in order: nodes that name their buffers.
    pub(crate) bindings: Vec<Local>,
    /// The binding that the program no longer has, because it writes this output over an input.
    pub(crate) merged: Option<usize>,
    pub(crate) words: Vec<WordValue>,
    /// The nodes (versions of buffers) that the item reads.
    pub(crate) reads: Vec<Local>,
    /// The buffers that the item writes: at least one, all distinct.
    pub(crate) writes: SmallVec<[Written; 1]>,
    /// The computation as an expression, for people.
    pub(crate) expression: String,
    /// The approximate number of cheap operations.
    pub(crate) flops: Size,
}

/// A buffer that an item writes.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// The version that the item makes or adds to.
    pub(crate) node: Local,
    /// The index of the buffer in the bindings.
    pub(crate) binding: usize,
    /// Whether the item writes all that the buffer holds in a run and reads none of it, so that it needs no old
    /// content.
    pub(crate) overwrites: bool,
}

impl Item {
    /// Returns the versions that the item makes or adds to.
    pub(crate) fn written(&self) -> impl Iterator<Item = Local> + '_ {
        self.writes.iter().map(|written| written.node)
    }

    /// Replaces a node by another in what the item reads and binds.
    pub(super) fn redirect(&mut self, from: Local, to: Local) {
        for node in self.reads.iter_mut().chain(&mut self.bindings) {
            if *node == from {
                *node = to;
            }
        }
    }

    /// Returns the bindings that the program has, with the index of each.
    pub(crate) fn bound(&self) -> impl Iterator<Item = (usize, Local)> + '_ {
        let bindings = self.bindings.iter().copied().enumerate();
        bindings.filter(|(binding, _)| self.merged != Some(*binding))
    }

    /// Returns all bindings, and all versions that the item makes.
    pub(crate) fn touched(&self) -> impl Iterator<Item = Local> + '_ {
        self.bindings.iter().copied().chain(self.written())
    }

    /// Returns the kind.
    pub fn kind(&self) -> ItemKind {
        self.kind
    }

    /// Returns the computation: the expression of a fused kernel or product, the name of any other kernel.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Returns the program that the item runs, unless the item is a kernel of a user. If the item writes an output over an
    /// input, the program is the one in place: it has no buffer for that output, and updates that of the input.
    pub fn program(&self) -> Option<&Arc<Program>> {
        match &self.work {
            Work::Program(program) => Some(program),
            Work::Custom(_) => None,
        }
    }
}

// Schedules as text and as Graphviz graphs.

impl fmt::Display for Schedule {
    /// Writes one line for each item: its index, kind, outputs, bindings and expression.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = &*self.shared;
        let names = names(steps);
        let list = |nodes: &[Local]| {
            let all = nodes.iter().map(|node| name(steps, &names, *node));
            all.collect::<Vec<&str>>().join(", ")
        };
        for (index, item) in steps.items.iter().enumerate() {
            let (kind, made) = (item.kind, made(steps, &names, item).join(", "));
            let (bound, expression) = (list(&item.bindings), &item.expression);
            writeln!(f, "{index:>3}  {kind:<15} {made}  ({bound})  {expression}")?;
        }
        writeln!(f, "     roots           {}", list(&steps.roots))
    }
}

impl Schedule {
    /// Returns the schedule as a Graphviz graph, which `dot -Tsvg` draws.
    pub fn dot(&self) -> String {
        let steps = &*self.shared;
        let names = names(steps);
        let mut dot = String::from(
            "digraph schedule {\n  rankdir=TB;\n  node [fontname=\"monospace\" fontsize=10];\n",
        );
        let mut makers: HashMap<Local, Vec<usize>> = HashMap::new();
        for (index, item) in steps.items.iter().enumerate() {
            for written in item.written() {
                makers.entry(written).or_default().push(index);
            }
            let label = format!(
                "{index} {}\\n{}\\n{}",
                item.kind,
                made(steps, &names, item).join("\\n"),
                escaped(&item.expression)
            );
            dot.push_str(&format!("  i{index} [shape=box label=\"{label}\"];\n"));
        }
        for (index, item) in steps.items.iter().enumerate() {
            for read in &item.reads {
                let label = escaped(name(steps, &names, *read));
                match makers.get(read) {
                    Some(makers) => {
                        for maker in makers.iter().filter(|maker| **maker != index) {
                            dot.push_str(&format!("  i{maker} -> i{index} [label=\"{label}\"];\n"));
                        }
                    }
                    None => {
                        dot.push_str(&format!("  n{read} [shape=ellipse label=\"{label}\"];\n"));
                        dot.push_str(&format!("  n{read} -> i{index};\n"));
                    }
                }
            }
        }
        dot.push_str("}\n");
        dot
    }
}

/// Returns the name, type and shape of each buffer that an item makes.
fn made(steps: &Steps, names: &HashMap<Local, String>, item: &Item) -> Vec<String> {
    let made = item.written().map(|written| {
        let (name, node) = (name(steps, names, written), steps.node(written));
        format!("{name} {} {}", node.dtype, node.shape)
    });
    made.collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Returns the names of the buffers: those of inputs, and `t0`, `t1` and so on for others.
fn names(steps: &Steps) -> HashMap<Local, String> {
    let mut names = HashMap::new();
    let mut count = 0;
    let touched = steps.items.iter().flat_map(Item::touched);
    for node in touched.chain(steps.roots.iter().copied()) {
        let storage = steps.storage(node);
        names
            .entry(storage)
            .or_insert_with(|| match steps.node(storage).input_name() {
                Some(name) => name.to_string(),
                None => {
                    count += 1;
                    format!("t{}", count - 1)
                }
            });
    }
    names
}

fn name<'a>(steps: &Steps, names: &'a HashMap<Local, String>, node: Local) -> &'a str {
    names.get(&steps.storage(node)).map_or("?", String::as_str)
}
