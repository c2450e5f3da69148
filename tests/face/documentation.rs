//! What readers follow: links between the pages of the documentation, and the guide's table of contents.
//!
//! Examples in the pages are doc tests (`src/lib.rs`); links from the documentation of the code are rustdoc's to check.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Folders that hold what others wrote, or what was built.
const NOT_OURS: [&str; 3] = ["target", "out", "shared"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every page of the repository.
fn pages() -> Vec<PathBuf> {
    let (mut pages, mut folders) = (Vec::new(), vec![root().to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            match path.is_dir() {
                true if name.starts_with('.') || NOT_OURS.contains(&name.as_str()) => {}
                true => folders.push(path),
                false if name.ends_with(".md") => pages.push(path),
                false => {}
            }
        }
    }
    pages.sort();
    pages
}

/// The text without what is code, where nothing is a link.
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

/// Where the links of a page lead: `[..](here)` and `[..]: here`.
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

/// The anchors of a page's headings, as those make them who show it.
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
        let kept = slug.chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => letter.is_alphanumeric().then_some(letter),
        });
        anchors.insert(kept.collect());
    }
    anchors
}

/// The path without `..`: where a link from a page leads.
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

/// What is wrong with a link, if anything is.
fn fault(page: &Path, link: &str) -> Option<String> {
    if link.is_empty() || link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_owned(),
        file => joined(page, file),
    };
    let told = |why: &str| Some(format!("{}: `{link}` {why}", page.display()));
    match () {
        () if !target.starts_with(root()) => told("leads out of the repository"),
        () if !target.exists() => told("leads nowhere"),
        () if anchor.is_empty() => None,
        () if anchors(&fs::read_to_string(&target).unwrap()).contains(anchor) => None,
        () => told("names no heading of that page"),
    }
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut faults = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let links = targets(&text);
        faults.extend(links.iter().filter_map(|link| fault(&page, link)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
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
    let there: Vec<_> = names.filter(|name| name != "SUMMARY.md").collect();
    assert_eq!(listed, there);
}

/// What a page shows of an example is what the example says.
#[test]
fn the_backend_of_the_guide_is_that_of_the_example() {
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

/// These tests find what they look for.
#[test]
fn a_link_that_leads_nowhere_is_told() {
    let page = root().join("docs/design.md");
    let text = "[a](testing.md) [b](none.md)\n```text\n[c](code.md)\n```\n`[d](code.md)`\n[e]: ../README.md\n";
    let links = targets(text);
    assert_eq!(links, ["testing.md", "none.md", "../README.md"]);
    let faults = |link: &str| fault(&page, link).unwrap_or_default();
    assert_eq!(faults("testing.md"), "");
    assert_eq!(faults("testing.md#the-swarm"), "");
    assert_eq!(faults("https://example.org/none.md"), "");
    assert!(faults("none.md").ends_with("leads nowhere"));
    assert!(faults("testing.md#the-swan").ends_with("names no heading of that page"));
    assert!(faults("../../x.md").ends_with("leads out of the repository"));
}
