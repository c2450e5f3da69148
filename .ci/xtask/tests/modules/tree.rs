//! Reads the modules of a crate, as its `mod` items declare them, with the names of each. `resolve` resolves the paths.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proc_macro2::TokenStream;

use crate::names::Names;

/// The path of a module from the root of the crate, whose path is empty.
pub(crate) type ModulePath = Vec<String>;

/// All modules of one crate, each without its children.
pub(crate) type Tree = BTreeMap<ModulePath, Names>;

/// Reads the crate with the root file `root`.
pub(crate) fn read(root: &Path) -> Tree {
    let mut tree = Tree::new();
    add_file(&mut tree, Vec::new(), root, root.parent().unwrap());
    tree
}

/// Reads a crate from the text `source`, for tests of this check.
pub(crate) fn read_text(source: &str) -> Tree {
    let mut tree = Tree::new();
    let items = source.parse().unwrap();
    add(&mut tree, Vec::new(), items, Path::new(""), Path::new(""));
    tree
}

/// Adds the module in `file`. `folder` has the files of its children.
fn add_file(tree: &mut Tree, place: ModulePath, file: &Path, folder: &Path) {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let items = text.parse();
    let items = items.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    add(tree, place, items, file, folder);
}

fn add(tree: &mut Tree, place: ModulePath, items: TokenStream, file: &Path, folder: &Path) {
    // A module with a file for each platform is declared several times.
    let names = tree.entry(place.clone()).or_default();
    names.add(items, true);
    for (name, path, content) in std::mem::take(&mut names.children) {
        let inside = folder.join(&name);
        let place: ModulePath = place.iter().cloned().chain([name]).collect();
        match (content, path) {
            (Some(items), _) => add(tree, place, items, file, &inside),
            (None, Some(path)) => {
                let path = file.parent().unwrap().join(path);
                add_file(tree, place, &path, path.parent().unwrap());
            }
            (None, None) => {
                let alone = inside.with_extension("rs");
                let within = inside.join("mod.rs");
                let path = if alone.exists() { alone } else { within };
                add_file(tree, place, &path, &inside);
            }
        }
    }
}
