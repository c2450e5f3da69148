//! Schedules as text and as Graphviz graphs.

use std::collections::HashMap;
use std::fmt;

use crate::schedule::item::Item;
use crate::schedule::walk::Local;
use crate::schedule::{Schedule, Steps};

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
