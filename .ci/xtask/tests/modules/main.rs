//! Checks that modules of a crate with the same parent do not depend on each other in a cycle, and prints cycles.
//!
//! The rule holds at every depth. If a module or one of its descendants names an item of a sibling or of the sibling's
//! descendants, that is an edge to the sibling. An item belongs to the module that defines it, whatever re-exports the
//! path uses. Paths come from `use` items and from code, including bodies of functions and arguments of macros; tests,
//! docs and attributes are ignored.
//!
//! The check does not see methods and fields, which no path names, and ignores edges between a module and its parent: a
//! parent may use its children, and a child may use items of its parent.
#![allow(
    clippy::unwrap_used,
    reason = "a test states its expectations by unwrapping"
)]

mod cycles;
mod names;
mod resolve;
mod tree;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
}

/// Returns the root files of all crates of the workspace.
fn crates() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, behind) = manifest.split_once("members = [").unwrap();
    let (members, _) = behind.split_once(']').unwrap();
    let members = members.split(',').map(|name| name.trim().trim_matches('"'));
    let packages = members.chain([""]);
    let roots = packages.flat_map(|package| {
        ["src/lib.rs", "src/main.rs"].map(|file| Path::new(package).join(file))
    });
    let roots = roots.filter(|file| root().join(file).exists());
    roots
        .map(|file| file.to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn sibling_modules_have_no_cycle() {
    let mut found = Vec::new();
    for file in crates() {
        let tree = tree::read(&root().join(&file));
        for (parent, edges) in resolve::siblings(&tree) {
            let parent = parent.join("::");
            let cycles = cycles::all(&edges).into_iter();
            found.extend(cycles.map(|cycle| format!("{file} {parent}: {cycle}")));
        }
    }
    assert!(
        found.is_empty(),
        "modules depend on each other in a cycle:\n{}",
        found.join("\n")
    );
}

#[test]
fn cycles_through_imports_exports_and_macros_are_found() {
    let cycles = |source: &str| {
        let siblings = resolve::siblings(&tree::read_text(source));
        let lines = siblings.iter().flat_map(|(parent, edges)| {
            let cycles = cycles::all(edges).into_iter();
            let line = |cycle: String| cycle.lines().next().unwrap().to_owned();
            cycles.map(move |cycle| format!("{}: {}", parent.join("::"), line(cycle)))
        });
        lines.collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    // Edges by `use`, by a path in a body, and by a path in a macro's tokens.
    let ring = "
        mod a { use crate::{b::B, b as c}; }
        mod b { pub struct B; fn f() { let _ = crate::c::one(); } }
        mod c { pub fn one() { println!(\"{}\", crate::a::x()); } }";
    assert_eq!(cycles(ring), [": a -> b -> c -> a"]);
    // An item that the root re-exports belongs to its module.
    let exported = "
        pub use b::B;
        use a::A as Renamed;
        mod a { use crate::B; pub struct A; }
        mod b { pub struct B(super::Renamed); }";
    assert_eq!(cycles(exported), [": a -> b -> a"]);
    // Siblings below the root, including deeper levels. The parent itself is no sibling.
    let folder = "
        mod outer {
            pub use one::One;
            pub struct Mine;
            mod one { pub struct One(super::two::deep::Two, super::Mine); }
            mod two { pub mod deep { pub struct Two(super::super::One); } }
        }";
    assert_eq!(cycles(folder), ["outer: one -> two -> one"]);
    // Edges by a glob, and within a function.
    let glob = "
        mod a { pub struct A; fn f() { use crate::b::*; B::new(); } }
        mod b { use crate::a::*; pub struct B(A); }";
    assert_eq!(cycles(glob), [": a -> b -> a"]);
    // Tests, docs, other crates and visibilities are no edges. A parent and its child may depend on each other.
    let fine = "
        mod a {
            //! See [`crate::b::B`].
            use std::b;
            pub(in crate::b) struct A;
            #[cfg(test)]
            mod tests { use crate::b::B; }
            #[cfg(all(test, unix))]
            fn f() { crate::b::g() }
            mod child { use super::A; }
        }
        mod b { pub struct B(crate::a::A); }";
    assert_eq!(cycles(fine), none);
}

/// Returns the workspace crates that `package` depends on, without dev-dependencies.
fn dependencies(package: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join(package).join("Cargo.toml")).unwrap();
    let (_, behind) = manifest.split_once("[dependencies]").unwrap();
    let section = behind.lines().take_while(|line| !line.starts_with('['));
    let names = section.filter_map(|line| line.split(['.', ' ']).next());
    let ours = names.filter_map(|name| name.strip_prefix("millstream-"));
    ours.map(str::to_owned).collect()
}

/// Clients and the actors' state share only the protocol, and a backend depends on the protocol and not on them.
#[test]
fn crates_depend_only_on_lower_layers() {
    assert!(!dependencies("runtime/protocol").contains("client"));
    for package in [
        "runtime/client",
        "runtime/state",
        "backends/cpu",
        "backends/sim",
        "backends/cuda",
    ] {
        let known = dependencies(package);
        assert!(known.contains("protocol"), "{package}");
        for above in ["client", "state", "actors", "graph"] {
            assert!(!known.contains(above), "{package} -> {above}");
        }
    }
}
