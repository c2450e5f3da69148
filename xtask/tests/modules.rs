//! Modules of a crate depend on each other one way. Where they do not yet, the largest knot is known, and does not grow.
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Modules of the crate, and those that each names.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Crates, with the modules of the largest knot: modules that reach each other. One is none. Lower a figure when it becomes smaller.
const KNOTS: &[(&str, usize)] = &[
    ("runtime/sync", 1),
    ("runtime/ir", 2),
    ("runtime/protocol", 1),
    ("runtime/client", 10),
    ("runtime/server", 1),
    ("runtime/graph", 4),
    ("runtime/tune", 2),
    ("actors", 4),
    ("backends/host", 1),
    ("backends/cpu", 6),
    ("backends/sim", 11),
    ("backends/host/tile", 2),
    ("backends/host/lockstep", 1),
    ("backends/cuda", 9),
    ("cli", 7),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// What a crate's modules name: by `crate::name`, `crate::{name, ..}`, and, in the file of a module itself, `super::name`. What the
/// crate's root has of a module is that module's.
fn arrows(package: &str) -> Arrows {
    let mut arrows = Arrows::new();
    let source = root().join(package).join("src");
    add_folder(&source, &source, &mut arrows);
    let modules: BTreeSet<_> = arrows.keys().cloned().collect();
    let exports = exports(&fs::read_to_string(source.join("lib.rs")).unwrap_or_default());
    for (module, named) in &mut arrows {
        let owner = |name: String| exports.get(&name).cloned().unwrap_or(name);
        *named = std::mem::take(named).into_iter().map(owner).collect();
        named.retain(|name| name != module && modules.contains(name));
    }
    arrows
}

/// The items that a root takes from its modules, each with its module.
fn exports(root: &str) -> BTreeMap<String, String> {
    let uses = root.split("use ").skip(1).filter_map(|rest| {
        let (path, _) = rest.split_once(';')?;
        let (module, items) = path.split_once("::")?;
        let items = items.trim_start_matches('{').trim_end_matches('}');
        Some(
            items
                .split(',')
                .map(move |item| (item.trim().to_owned(), module.to_owned())),
        )
    });
    uses.flatten().collect()
}

fn add_folder(source: &Path, folder: &Path, arrows: &mut Arrows) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let inside = path.strip_prefix(source).unwrap().with_extension("");
        let parts: Vec<_> = inside.iter().map(|part| part.to_str().unwrap()).collect();
        // Tests may use anything.
        if parts.contains(&"tests") || matches!(parts[..], ["lib" | "main"]) {
            continue;
        }
        if path.is_dir() {
            add_folder(source, &path, arrows);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let named = arrows.entry(parts[0].to_owned()).or_default();
        named.extend(names_behind("crate::", &text));
        if matches!(parts[..], [_] | [_, "mod"]) {
            named.extend(names_behind("super::", &text));
        }
    }
}

fn names_behind(prefix: &str, text: &str) -> Vec<String> {
    let (product, _) = text.split_once("#[cfg(test)]\nmod ").unwrap_or((text, ""));
    let code: String = product
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        let group = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let listed = group.map_or(rest, |(inside, _)| inside);
        let several = listed
            .split(',')
            .take(if group.is_some() { usize::MAX } else { 1 });
        names.extend(several.map(|name| {
            let is_part = |letter: &char| letter.is_alphanumeric() || *letter == '_';
            name.trim().chars().take_while(is_part).collect()
        }));
    }
    names
}

/// For each module those that it reaches.
fn reach(arrows: &Arrows) -> Arrows {
    let mut reach = arrows.clone();
    for through in arrows.keys() {
        let beyond = reach[through].clone();
        for reached in reach
            .values_mut()
            .filter(|reached| reached.contains(through))
        {
            reached.extend(beyond.iter().cloned());
        }
    }
    reach
}

fn largest_knot(package: &str) -> Vec<String> {
    let reach = reach(&arrows(package));
    let knots = reach.iter().map(|(module, reached)| {
        let knot = reached
            .iter()
            .filter(|other| reach[*other].contains(module));
        knot.cloned().collect::<Vec<_>>()
    });
    knots.max_by_key(Vec::len).unwrap()
}

#[test]
fn knots_of_modules_do_not_grow() {
    let found = KNOTS.iter().map(|(package, known)| {
        let knot = largest_knot(package);
        let changed = knot.len().max(1) != *known;
        changed.then(|| format!("{package}: {} of {}", knot.len(), knot.join(", ")))
    });
    let changed: Vec<_> = found.flatten().collect();
    assert!(changed.is_empty(), "{}", changed.join("\n"));
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

#[test]
fn a_knot_is_found() {
    let known = |pairs: &[(&str, &str)]| -> Arrows {
        let mut arrows = Arrows::new();
        for (from, to) in pairs {
            arrows.entry((*to).to_owned()).or_default();
            arrows
                .entry((*from).to_owned())
                .or_default()
                .insert((*to).to_owned());
        }
        arrows
    };
    let reach = reach(&known(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]));
    assert!(reach["a"].contains("a") && reach["b"].contains("d"));
    assert!(!reach["d"].contains("a"));
    let exported = exports("pub use one::{A, B};\npub(crate) use two::C;");
    assert_eq!(
        [&exported["A"], &exported["B"], &exported["C"]],
        ["one", "one", "two"]
    );
    let text = "use crate::{one::A, two};\n// crate::no\nfn f() { crate::three::g() }\n#[cfg(test)]\nmod tests { use crate::no; }";
    assert_eq!(names_behind("crate::", text), ["one", "two", "three"]);
}
