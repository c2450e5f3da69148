//! Modules of a crate depend on each other one way: a cycle of modules fails here, and is printed.
//!
//! The rule is about modules with the same parent, at every depth: what one names, or one of its descendants, makes an arrow
//! to the sibling that has it. An item counts for the module that defines it, through whatever re-exports the path goes.
//! Paths are those of `use` items and of code, bodies of functions and arguments of macros included; tests, docs and
//! attributes are left out.
//!
//! What it does not see: methods and fields, which no path names, and a module and its own parent. A parent may use its
//! children and a child the items of its parent.
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping"
)]

mod cycles;
mod names;
mod resolve;
mod tree;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The roots of all crates of the workspace.
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
fn modules_with_one_parent_have_no_cycle() {
    let mut found = Vec::new();
    for file in crates() {
        let tree = tree::read(&root().join(&file));
        for (parent, arrows) in resolve::siblings(&tree) {
            let parent = parent.join("::");
            for component in cycles::components(&arrows) {
                let cycle = cycles::shortest(&arrows, &component);
                let modules = component.join(", ");
                found.push(format!("{file} {parent}: {modules}\n  {cycle}"));
            }
        }
    }
    assert!(
        found.is_empty(),
        "modules that reach each other:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_cycle_is_found_through_imports_exports_and_macros() {
    let cycles = |source: &str| {
        let siblings = resolve::siblings(&tree::read_text(source));
        let found = siblings.iter().flat_map(|(parent, arrows)| {
            cycles::components(arrows)
                .into_iter()
                .map(|component| (parent.join("::"), cycles::shortest(arrows, &component)))
        });
        let lines =
            found.map(|(parent, cycle)| format!("{parent}: {}", cycle.lines().next().unwrap()));
        lines.collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    // By `use`, by a path in a body, and by a path in a macro's tokens.
    let ring = "
        mod a { use crate::{b::B, b as c}; }
        mod b { pub struct B; fn f() { let _ = crate::c::one(); } }
        mod c { pub fn one() { println!(\"{}\", crate::a::x()); } }";
    assert_eq!(cycles(ring), [": a -> b -> c -> a"]);
    // An item that the root exports is its module's.
    let exported = "
        pub use b::B;
        use a::A as Renamed;
        mod a { use crate::B; pub struct A; }
        mod b { pub struct B(super::Renamed); }";
    assert_eq!(cycles(exported), [": a -> b -> a"]);
    // Siblings in a folder, deeper levels included; the folder is none of its own.
    let folder = "
        mod outer {
            pub use one::One;
            pub struct Mine;
            mod one { pub struct One(super::two::deep::Two, super::Mine); }
            mod two { pub mod deep { pub struct Two(super::super::One); } }
        }";
    assert_eq!(cycles(folder), ["outer: one -> two -> one"]);
    // By a glob, and within a function.
    let glob = "
        mod a { pub struct A; fn f() { use crate::b::*; B::new(); } }
        mod b { use crate::a::*; pub struct B(A); }";
    assert_eq!(cycles(glob), [": a -> b -> a"]);
    // Tests, docs, other crates and visibilities are no arrows; a parent and its child may know each other.
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

/// What `package` depends on of the workspace, its tests apart.
fn dependencies(package: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join(package).join("Cargo.toml")).unwrap();
    let (_, behind) = manifest.split_once("[dependencies]").unwrap();
    let section = behind.lines().take_while(|line| !line.starts_with('['));
    let names = section.filter_map(|line| line.split(['.', ' ']).next());
    let ours = names.filter_map(|name| name.strip_prefix("millstream-"));
    ours.map(str::to_owned).collect()
}

/// Clients and the server meet in the protocol alone, which is also all that a backend knows.
#[test]
fn crates_know_only_what_they_stand_on() {
    assert!(!dependencies("runtime/protocol").contains("client"));
    for package in [
        "runtime/client",
        "runtime/server",
        "backends/cpu",
        "backends/sim",
        "backends/cuda",
    ] {
        let known = dependencies(package);
        assert!(known.contains("protocol"), "{package}");
        for above in ["client", "server", "actors", "graph"] {
            assert!(!known.contains(above), "{package} -> {above}");
        }
    }
}
