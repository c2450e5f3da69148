//! Collects the names that the items of a module define, import and use, from its tokens alone.
//!
//! An item, field or statement with `#[cfg(test)]`, and a function with `#[test]`, is left out.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A name that a `use` item brings into scope, or a glob.
pub(crate) struct Import {
    /// The name in scope, or `None` for a glob.
    pub(crate) name: Option<String>,
    /// The imported path.
    pub(crate) path: Vec<String>,
}

/// A `mod` item: its name, the file of its `#[path = ".."]`, and its content if that follows the name.
pub(crate) type Child = (String, Option<String>, Option<TokenStream>);

/// The names of one module. Of child modules only their own names are collected.
#[derive(Default)]
pub(crate) struct Names {
    /// The names of defined modules and items.
    pub(crate) defined: BTreeSet<String>,
    /// The imports of `use` items, including those within functions.
    pub(crate) imports: Vec<Import>,
    /// All paths in the code, including those of `use` items and of macros' tokens, which may not be Rust. Some are
    /// keywords, or names of fields and locals.
    pub(crate) paths: Vec<Vec<String>>,
    pub(crate) children: Vec<Child>,
}

/// The words before the name of an item.
const DEFINING: [&str; 9] = [
    "const", "enum", "fn", "mod", "static", "struct", "trait", "type", "union",
];

impl Names {
    /// Adds the names in tokens: the items of the module, or what is inside one of them.
    pub(crate) fn add(&mut self, tokens: TokenStream, are_items: bool) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let (mut at, mut file) = (0, None);
        while at < tokens.len() {
            at = match &tokens[at] {
                TokenTree::Group(group) => {
                    self.add(group.stream(), false);
                    at + 1
                }
                TokenTree::Ident(_) if are_items => self.add_item(&tokens, at, &mut file),
                TokenTree::Ident(_) => self.add_word(&tokens, at),
                // Doc links and arguments of lints are no dependencies.
                TokenTree::Punct(_) if is(&tokens, at, "#") => match group(&tokens, at + 1) {
                    None => at + 1,
                    Some(attribute) => {
                        let text = attribute.to_string().replace(char::is_whitespace, "");
                        let path = text.strip_prefix("path=\"");
                        file = path.map(|path| path.replace('"', "")).or(file);
                        match is_for_tests(&text) {
                            true => end_of_item(&tokens, at + 2),
                            false => at + 2,
                        }
                    }
                },
                _ => at + skipped(&tokens, at),
            };
        }
    }

    /// Adds what the word at `at` begins among the items of a module, and returns where that ends.
    fn add_item(&mut self, tokens: &[TokenTree], at: usize, file: &mut Option<String>) -> usize {
        let is_defining = |at: usize| DEFINING.iter().any(|defining| is(tokens, at, defining));
        let name = match is(tokens, at, "macro_rules") {
            true => word(tokens, at + 2),
            false => word(tokens, at + 1).filter(|_| is_defining(at)),
        };
        // In `const fn f`, the name comes later.
        let Some(name) = name.filter(|_| !is_defining(at + 1)) else {
            return self.add_word(tokens, at);
        };
        self.defined.insert(name.clone());
        if is(tokens, at, "mod") {
            self.children
                .push((name, file.take(), group(tokens, at + 2)));
            return at + 3;
        }
        at + 2
    }

    /// Adds the path or the `use` item that the word at `at` begins, and returns where that ends.
    fn add_word(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        match is(tokens, at, "pub") || is(tokens, at, "use") {
            // `pub(in path)` is no dependency, and `use ::name` is another crate's.
            true if group(tokens, at + 1).is_some() => at + 2,
            true if is(tokens, at, "pub") || colons_at(tokens, at + 1) => at + 1,
            true => self.add_path(&[], tokens, at + 1, true),
            false => self.add_path(&[], tokens, at, false),
        }
    }

    /// Adds the path at `at` behind `before`, or the paths in its braces, and returns where that ends.
    fn add_path(
        &mut self,
        before: &[String],
        tokens: &[TokenTree],
        at: usize,
        is_use: bool,
    ) -> usize {
        let (names, taken) = path_at(tokens, at);
        let (mut path, mut end) = ([before, &names].concat(), at + taken);
        if colons_at(tokens, end) {
            end += 2;
        }
        if let Some(inside) = group(tokens, end).filter(|_| is_use || end > at + taken) {
            let inside: Vec<_> = inside.into_iter().collect();
            let mut within = 0;
            while within < inside.len() {
                within = self.add_path(&path, &inside, within, is_use);
            }
            return end + 1;
        }
        let is_glob = is_use && is(tokens, end, "*");
        if names.is_empty() && !is_glob {
            return at + 1;
        }
        if is_use {
            if path.len() > 1 && path.ends_with(&["self".to_owned()]) {
                path.pop();
            }
            let renamed = word(tokens, end + 1).filter(|_| is(tokens, end, "as"));
            let name = renamed
                .or_else(|| path.last().cloned())
                .filter(|_| !is_glob);
            end += if is(tokens, end, "as") {
                2
            } else {
                usize::from(is_glob)
            };
            self.imports.push(Import {
                name,
                path: path.clone(),
            });
        }
        self.paths.push(path);
        end
    }
}

/// Returns the names joined by `::` from `at` on, and their number of tokens.
fn path_at(tokens: &[TokenTree], at: usize) -> (Vec<String>, usize) {
    let (mut names, mut next) = (Vec::new(), at);
    while let Some(name) = word(tokens, next) {
        names.push(name);
        next += 1;
        match colons_at(tokens, next) && word(tokens, next + 2).is_some() {
            true => next += 2,
            false => break,
        }
    }
    (names, next - at)
}

/// Returns the number of tokens from the punctuation at `at` on that are no path of this crate: `$name::name` is resolved
/// at the use of the macro, `::name` is another crate's, `'name` a lifetime, and `.name` a field or method.
fn skipped(tokens: &[TokenTree], at: usize) -> usize {
    let is_crate = is(tokens, at + 1, "crate");
    match ["$", "'", "."].iter().any(|mark| is(tokens, at, mark)) {
        // A range, which a path may follow.
        true if is(tokens, at + 1, ".") => 2,
        true if !is_crate => 1 + path_at(tokens, at + 1).1,
        false if colons_at(tokens, at) => 2 + path_at(tokens, at + 2).1,
        _ => 1,
    }
}

fn word(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at)? {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    }
}

fn group(tokens: &[TokenTree], at: usize) -> Option<TokenStream> {
    match tokens.get(at)? {
        TokenTree::Group(group) => Some(group.stream()),
        _ => None,
    }
}

/// Whether the token at `at` is this word or mark.
fn is(tokens: &[TokenTree], at: usize, text: &str) -> bool {
    match tokens.get(at) {
        Some(TokenTree::Ident(word)) => word == text,
        Some(TokenTree::Punct(mark)) => text.starts_with(mark.as_char()),
        _ => false,
    }
}

fn colons_at(tokens: &[TokenTree], at: usize) -> bool {
    is(tokens, at, ":") && is(tokens, at + 1, ":")
}

/// Whether an attribute restricts an item to tests: `test`, `cfg(test)` or `cfg(all(test, ..))`.
fn is_for_tests(attribute: &str) -> bool {
    let all = attribute.strip_prefix("cfg(all(").unwrap_or_default();
    let is_one = all.split([',', ')']).any(|condition| condition == "test");
    ["test", "cfg(test)"].contains(&attribute) || is_one
}

/// Returns where the item, field or statement at `at` ends: behind a semicolon or braces, or before the next field.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let mut is_item = false;
    let is_end = |end: &usize| match &tokens[*end] {
        TokenTree::Group(group) => {
            // Braces of a `use` item or of an expression are not the end.
            let goes_on = ["else", ".", ";"]
                .iter()
                .any(|next| is(tokens, end + 1, next));
            group.delimiter() == Delimiter::Brace && !is(tokens, end - 1, ":") && !goes_on
        }
        TokenTree::Punct(mark) => mark.as_char() == ';' || mark.as_char() == ',' && !is_item,
        word => {
            let word = word.to_string();
            is_item |= word == "impl" || DEFINING.contains(&&*word);
            false
        }
    };
    (at..tokens.len())
        .find(is_end)
        .map_or(tokens.len(), |end| end + 1)
}
