//! Reads the modules of a crate, as its `mod` items declare them, with the names of each.
//!
//! Items with `#[cfg(test)]` and functions with `#[test]` are ignored. `resolve` resolves the paths.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Item, ItemMod};

use crate::names::{self, Names};

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
    let items = syn::parse_file(source).unwrap().items;
    add(&mut tree, Vec::new(), &items, Path::new(""), Path::new(""));
    tree
}

/// Adds the module in `file`. `folder` has the files of its children.
fn add_file(tree: &mut Tree, place: ModulePath, file: &Path, folder: &Path) {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed =
        syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    add(tree, place, &parsed.items, file, folder);
}

fn add(tree: &mut Tree, place: ModulePath, items: &[Item], file: &Path, folder: &Path) {
    tree.entry(place.clone()).or_default().add(items);
    for item in items {
        let Item::Mod(child) = item else { continue };
        if names::is_test(&child.attrs) {
            continue;
        }
        let name = child.ident.to_string();
        let inside = folder.join(&name);
        let place: ModulePath = place.iter().cloned().chain([name]).collect();
        if let Some((_, items)) = &child.content {
            add(tree, place, items, file, &inside);
            continue;
        }
        let (path, folder) = file_of(child, file, &inside);
        add_file(tree, place, &path, &folder);
    }
}

/// Returns the file of a module that `parent` declares, and the folder of its children.
fn file_of(child: &ItemMod, parent: &Path, inside: &Path) -> (PathBuf, PathBuf) {
    if let Some(path) = names::path_attribute(&child.attrs) {
        let path = parent.parent().unwrap().join(path);
        let folder = path.parent().unwrap().to_owned();
        return (path, folder);
    }
    let alone = inside.with_extension("rs");
    let path = if alone.exists() {
        alone
    } else {
        inside.join("mod.rs")
    };
    (path, inside.to_owned())
}
