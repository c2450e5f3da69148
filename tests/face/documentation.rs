//! Checks the links between the pages of the documentation, and the tables of contents of the guide and of the book.
//!
//! Examples in the pages are doc tests (`src/lib.rs`); rustdoc checks links in doc comments.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Folders with files of other projects, or with build outputs.
const SKIPPED_FOLDERS: [&str; 4] = ["target", "out", "book", "shared"];

/// The address of the repository's files.
const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every page of the repository.
fn pages() -> Vec<PathBuf> {
    let (mut pages, mut folders) = (Vec::new(), vec![root().to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            match path.is_dir() {
                true if name.starts_with('.') || SKIPPED_FOLDERS.contains(&name.as_str()) => {}
                true => folders.push(path),
                false if name.ends_with(".md") => pages.push(path),
                false => {}
            }
        }
    }
    pages.sort();
    pages
}

/// Returns the text without code, in which nothing is a link.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !line.starts_with("    ") {
            let parts = line.split('`').step_by(2);
            prose.extend(parts.map(|part| format!("{part} ")));
            prose.push('\n');
        }
    }
    prose
}

/// Returns the link targets of a page: `[..](target)` and `[..]: target`.
fn targets(text: &str) -> Vec<String> {
    let prose = prose(text);
    let inline = prose.split("](").skip(1).filter_map(|rest| {
        let (target, _) = rest.split_once(')')?;
        Some(target.trim().to_owned())
    });
    let defined = prose.lines().filter_map(|line| {
        let (_, target) = line.strip_prefix('[')?.split_once("]: ")?;
        Some(target.trim().to_owned())
    });
    inline.chain(defined).collect()
}

/// Returns the anchors of a page's headings, as GitHub generates them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let slug = title.trim().to_lowercase();
        let letters = slug.chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => letter.is_alphanumeric().then_some(letter),
        });
        anchors.insert(letters.collect());
    }
    anchors
}

/// Returns the path that a link on a page refers to, with `..` resolved.
fn joined(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap().to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            part => path.push(part),
        }
    }
    path
}

/// Returns the error of a link, if it is broken.
fn link_error(page: &Path, link: &str) -> Option<String> {
    let of_repository = link.strip_prefix(REPOSITORY);
    if link.is_empty() || (link.contains("://") && of_repository.is_none()) {
        return None;
    }
    let path = of_repository.unwrap_or(link);
    let (file, anchor) = path.split_once('#').unwrap_or((path, ""));
    let target = match file {
        "" => page.to_owned(),
        file if of_repository.is_some() => root().join(file),
        file => joined(page, file),
    };
    let broken = |why: &str| Some(format!("{}: `{link}` {why}", page.display()));
    match () {
        () if !target.starts_with(root()) => broken("leads out of the repository"),
        () if !target.exists() => broken("leads to no file"),
        () if anchor.is_empty() => None,
        () if anchors(&fs::read_to_string(&target).unwrap()).contains(anchor) => None,
        () => broken("names no heading of that page"),
    }
}

#[test]
fn every_relative_link_leads_to_a_page_and_heading() {
    let mut errors = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let links = targets(&text);
        errors.extend(links.iter().filter_map(|link| link_error(&page, link)));
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn the_guide_lists_each_of_its_pages_once() {
    let folder = root().join("docs/guide");
    let summary = fs::read_to_string(folder.join("SUMMARY.md")).unwrap();
    let mut listed = targets(&summary);
    listed.retain(|page| !page.is_empty());
    listed.sort();
    let own = pages().into_iter().filter(|page| page.starts_with(&folder));
    let names = own.map(|page| page.file_name().unwrap().to_str().unwrap().to_owned());
    let present: Vec<_> = names.filter(|name| name != "SUMMARY.md").collect();
    assert_eq!(listed, present);
}

/// `docs/SUMMARY.md` is the book's table of contents: mdBook leaves out the pages that it does not name.
#[test]
fn the_book_lists_each_of_its_pages_once() {
    let folder = root().join("docs");
    let summary = folder.join("SUMMARY.md");
    let listed = targets(&fs::read_to_string(&summary).unwrap());
    let mut listed: Vec<_> = listed.iter().map(|page| joined(&summary, page)).collect();
    listed.sort();
    let own = pages().into_iter();
    let present: Vec<_> = own
        .filter(|page| page.starts_with(&folder) && *page != summary)
        .collect();
    assert_eq!(listed, present);
}

/// mdBook turns the link to a page into one to its HTML, which exists only in the book.
#[test]
fn pages_of_the_book_link_to_other_pages_of_the_repository_by_their_address() {
    let folder = root().join("docs");
    let mut errors = Vec::new();
    for page in pages().iter().filter(|page| page.starts_with(&folder)) {
        let links = targets(&fs::read_to_string(page).unwrap());
        let leaves = |link: &&String| {
            let file = link.split('#').next().unwrap_or_default();
            let is_page = file.ends_with(".md") && !file.contains("://");
            is_page && !joined(page, file).starts_with(&folder)
        };
        let leaving = links.iter().filter(leaves);
        errors.extend(leaving.map(|link| format!("{}: `{link}`", page.display())));
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

/// The code that the guide shows is part of the example.
#[test]
fn the_backend_in_the_guide_is_that_of_the_example() {
    let folders = ["examples/backend", "examples/backend/tiny"];
    let files = folders.iter().flat_map(|folder| {
        let files = fs::read_dir(root().join(folder)).unwrap();
        files.map(|file| file.unwrap().path())
    });
    let example: String = files
        .filter(|path| path.is_file())
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let page = fs::read_to_string(root().join("docs/guide/backends.md")).unwrap();
    let shown: Vec<_> = page.split("```rust,ignore\n").skip(1).collect();
    assert!(shown.len() >= 5);
    for part in shown {
        let (part, _) = part.split_once("```").unwrap();
        assert!(example.contains(part), "no part of the example:\n{part}");
    }
}

/// The checks above detect broken links.
#[test]
fn a_broken_link_is_reported() {
    let page = root().join("docs/design.md");
    let text = "[a](testing.md) [b](none.md)\n```text\n[c](code.md)\n```\n`[d](code.md)`\n[e]: ../README.md\n";
    let links = targets(text);
    assert_eq!(links, ["testing.md", "none.md", "../README.md"]);
    let errors = |link: &str| link_error(&page, link).unwrap_or_default();
    assert_eq!(errors("testing.md"), "");
    assert_eq!(errors("testing.md#the-swarm"), "");
    assert_eq!(errors("https://example.org/none.md"), "");
    assert!(errors("none.md").ends_with("leads to no file"));
    assert_eq!(errors(&format!("{REPOSITORY}docs/testing.md")), "");
    assert!(errors(&format!("{REPOSITORY}none.md")).ends_with("leads to no file"));
    assert!(errors("testing.md#the-swan").ends_with("names no heading of that page"));
    assert!(errors("../../x.md").ends_with("leads out of the repository"));
}
