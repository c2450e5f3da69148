//! Which module a path leads to, through re-exports, and what follows for modules with the same parent.

use std::collections::BTreeMap;

use crate::cycles::Arrows;
use crate::tree::{Place, Tree};

/// Imports that one path may go through; more are a cycle of imports.
const IMPORTS_MAX: usize = 16;

/// Which children of each module name each other: per parent the arrows between its children, each with one path that is the reason.
pub(crate) fn siblings(tree: &Tree) -> BTreeMap<Place, Arrows> {
    let mut all = BTreeMap::<Place, Arrows>::new();
    for (place, module) in tree {
        for path in &module.paths {
            let Some(target) = target(tree, place, path, IMPORTS_MAX) else {
                continue;
            };
            let common = common(place, &target);
            // A parent and its child may know each other.
            if let (Some(from), Some(to)) = (place.get(common), target.get(common)) {
                let arrows = all.entry(place[..common].to_vec()).or_default();
                let reason = format!("{} names {}", place.join("::"), path.join("::"));
                let named = arrows.entry(from.clone()).or_default();
                named.entry(to.clone()).or_insert(reason);
            }
        }
    }
    all
}

fn common(one: &Place, other: &Place) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// The module that defines what `path` names, as code in `place` sees it; `None` is another crate's, or a local's.
fn target(tree: &Tree, place: &Place, path: &[String], imports: usize) -> Option<Place> {
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
        _ if seen_from(tree, place, first, imports).is_some() => {
            walk(tree, place.clone(), path, imports)
        }
        _ => None,
    }
}

/// Follows `path` from the module `place` on.
fn walk(tree: &Tree, place: Place, path: &[String], imports: usize) -> Option<Place> {
    let Some((first, rest)) = path.split_first() else {
        return Some(place);
    };
    let child: Place = place.iter().cloned().chain([first.clone()]).collect();
    if tree.contains_key(&child) {
        return walk(tree, child, rest, imports);
    }
    match seen_from(tree, &place, first, imports) {
        Some(Seen::Defined) | None => Some(place),
        Some(Seen::Imported(path)) => {
            let path: Vec<_> = path.iter().chain(rest).cloned().collect();
            target(tree, &place, &path, imports.checked_sub(1)?)
        }
        Some(Seen::InGlob(module)) => walk(tree, module, path, imports.checked_sub(1)?),
    }
}

/// How a name comes into a module.
enum Seen<'a> {
    /// The module defines it.
    Defined,
    /// A `use` item names it, by this path.
    Imported(&'a [String]),
    /// A `use` item takes all of this module.
    InGlob(Place),
}

fn seen_from<'a>(tree: &'a Tree, place: &Place, name: &str, imports: usize) -> Option<Seen<'a>> {
    let module = tree.get(place)?;
    if module.defined.contains(name) {
        return Some(Seen::Defined);
    }
    // `use name;` of another crate imports the name from itself.
    let named = module.imports.iter().find(|import| {
        import.name.as_deref() == Some(name)
            && import.path.first().is_some_and(|first| first != name)
    });
    if let Some(import) = named {
        return Some(Seen::Imported(&import.path));
    }
    let globs = module.imports.iter().filter(|import| import.name.is_none());
    globs
        .filter_map(|glob| {
            let imports = imports.checked_sub(1)?;
            let from = target(tree, place, &glob.path, imports)?;
            seen_from(tree, &from, name, imports)?;
            Some(Seen::InGlob(from))
        })
        .next()
}
