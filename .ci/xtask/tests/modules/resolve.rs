//! Resolves paths to modules, through re-exports, and computes the edges between modules with the same parent.

use std::collections::BTreeMap;

use crate::cycles::Edges;
use crate::tree::{ModulePath, Tree};

/// The most imports that one path may pass through. More indicate a cycle of imports.
const IMPORTS_MAX: usize = 16;

/// Returns, for each parent, the edges between its children, each with one path as the reason.
pub(crate) fn siblings(tree: &Tree) -> BTreeMap<ModulePath, Edges> {
    let mut all = BTreeMap::<ModulePath, Edges>::new();
    for (place, module) in tree {
        for path in &module.paths {
            let Some(target) = target(tree, place, path, IMPORTS_MAX) else {
                continue;
            };
            let common = common(place, &target);
            // An edge between a parent and its child is permitted.
            if let (Some(from), Some(to)) = (place.get(common), target.get(common)) {
                let edges = all.entry(place[..common].to_vec()).or_default();
                let reason = format!("{} names {}", place.join("::"), path.join("::"));
                let named = edges.entry(from.clone()).or_default();
                named.entry(to.clone()).or_insert(reason);
            }
        }
    }
    all
}

fn common(one: &ModulePath, other: &ModulePath) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// Returns the module that defines `path`, resolved in `place`, or `None` for items of other crates and locals.
fn target(tree: &Tree, place: &ModulePath, path: &[String], imports: usize) -> Option<ModulePath> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => walk(tree, Vec::new(), rest, imports),
        "self" => walk(tree, place.clone(), rest, imports),
        "super" => {
            let mut parent = place.clone();
            parent.pop()?;
            let again = rest.first().is_some_and(|name| name == "super");
            if again {
                return target(tree, &parent, rest, imports);
            }
            walk(tree, parent, rest, imports)
        }
        _ if visible_in(tree, place, first, imports).is_some() => {
            walk(tree, place.clone(), path, imports)
        }
        _ => None,
    }
}

/// Resolves `path` from the module `place` on.
fn walk(tree: &Tree, place: ModulePath, path: &[String], imports: usize) -> Option<ModulePath> {
    let Some((first, rest)) = path.split_first() else {
        return Some(place);
    };
    let child: ModulePath = place.iter().cloned().chain([first.clone()]).collect();
    if tree.contains_key(&child) {
        return walk(tree, child, rest, imports);
    }
    match visible_in(tree, &place, first, imports) {
        Some(Visible::Defined) | None => Some(place),
        Some(Visible::Imported(path)) => {
            let path: Vec<_> = path.iter().chain(rest).cloned().collect();
            target(tree, &place, &path, imports.checked_sub(1)?)
        }
        Some(Visible::InGlob(module)) => walk(tree, module, path, imports.checked_sub(1)?),
    }
}

/// How a name is visible in a module.
enum Visible<'a> {
    /// The module defines it.
    Defined,
    /// A `use` item imports it by this path.
    Imported(&'a [String]),
    /// A glob import of this module provides it.
    InGlob(ModulePath),
}

fn visible_in<'a>(
    tree: &'a Tree,
    place: &ModulePath,
    name: &str,
    imports: usize,
) -> Option<Visible<'a>> {
    let module = tree.get(place)?;
    if module.defined.contains(name) {
        return Some(Visible::Defined);
    }
    // `use name;` of another crate would resolve to itself.
    let named = module.imports.iter().find(|import| {
        import.name.as_deref() == Some(name)
            && import.path.first().is_some_and(|first| first != name)
    });
    if let Some(import) = named {
        return Some(Visible::Imported(&import.path));
    }
    let globs = module.imports.iter().filter(|import| import.name.is_none());
    globs
        .filter_map(|glob| {
            let imports = imports.checked_sub(1)?;
            let from = target(tree, place, &glob.path, imports)?;
            visible_in(tree, &from, name, imports)?;
            Some(Visible::InGlob(from))
        })
        .next()
}
