//! Collects the names that the items of a module define, import and use, from the syntax alone.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, ImplItem, Item, Lit, Meta, TraitItem, UseTree};

/// A name that a `use` item brings into scope, or a glob.
pub(crate) struct Import {
    /// The name in scope, or `None` for a glob.
    pub(crate) name: Option<String>,
    /// The imported path.
    pub(crate) path: Vec<String>,
}

/// The names of one module. Of child modules only their own names are collected.
#[derive(Default)]
pub(crate) struct Names {
    /// The names of defined modules and items.
    pub(crate) defined: BTreeSet<String>,
    /// The imports of `use` items, including those within functions.
    pub(crate) imports: Vec<Import>,
    /// All paths in the code, including those of `use` items.
    pub(crate) paths: Vec<Vec<String>>,
}

/// Returns the attributes of an item, and its name if it has one.
fn described(item: &Item) -> Option<(&[Attribute], Option<String>)> {
    let (attributes, ident) = match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::ExternCrate(item) => (&item.attrs, None),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::ForeignMod(item) => (&item.attrs, None),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Mod(item) => (&item.attrs, Some(&item.ident)),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Use(item) => (&item.attrs, None),
        _ => return None,
    };
    Some((attributes, ident.map(ToString::to_string)))
}

/// Whether the attributes restrict an item to tests: `#[test]`, `#[cfg(test)]` or `#[cfg(all(test, ..))]`.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => requires_test(list.tokens.clone()),
        _ => false,
    })
}

fn requires_test(condition: TokenStream) -> bool {
    let tokens: Vec<_> = condition.into_iter().collect();
    match &tokens[..] {
        [TokenTree::Ident(word)] => word == "test",
        [TokenTree::Ident(word), TokenTree::Group(all)] if word == "all" => all
            .stream()
            .into_iter()
            .any(|token| matches!(&token, TokenTree::Ident(word) if word == "test")),
        _ => false,
    }
}

/// Returns the file of a `#[path = ".."]` attribute.
pub(crate) fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes
        .iter()
        .find_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                Expr::Lit(ExprLit {
                    lit: Lit::Str(file),
                    ..
                }) => Some(file.value()),
                _ => None,
            },
            _ => None,
        })
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast Item) {
        let tests = described(item).is_some_and(|(attributes, _)| is_test(attributes));
        // Child modules are collected separately.
        if !tests && !matches!(item, Item::Mod(_)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let tests = match item {
            ImplItem::Const(item) => is_test(&item.attrs),
            ImplItem::Fn(item) => is_test(&item.attrs),
            ImplItem::Type(item) => is_test(&item.attrs),
            _ => false,
        };
        if !tests {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        if !matches!(item, TraitItem::Fn(item) if is_test(&item.attrs)) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_test(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        if !is_test(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_test(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_expr_block(&mut self, block: &'ast syn::ExprBlock) {
        if !is_test(&block.attrs) {
            visit::visit_expr_block(self, block);
        }
    }

    // Doc links, arguments of lints and `pub(in path)` are no dependencies.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.add_use(&mut Vec::new(), &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let segments = path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string());
            self.paths.push(segments.collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.add_tokens(call.tokens.clone());
    }
}

impl Names {
    /// Adds the names of items.
    pub(crate) fn add(&mut self, items: &[Item]) {
        for item in items {
            if let Some((attributes, defined)) = described(item)
                && !is_test(attributes)
            {
                self.defined.extend(defined);
                self.visit_item(item);
            }
        }
    }

    fn add_use(&mut self, before: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(step) => {
                before.push(step.ident.to_string());
                self.add_use(before, &step.tree);
                before.pop();
            }
            UseTree::Name(last) => self.add_import(before, &last.ident.to_string(), None),
            UseTree::Rename(last) => {
                let renamed = last.rename.to_string();
                self.add_import(before, &last.ident.to_string(), Some(renamed));
            }
            UseTree::Glob(_) => {
                self.paths.push(before.clone());
                let path = before.clone();
                self.imports.push(Import { name: None, path });
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(before, tree);
                }
            }
        }
    }

    fn add_import(&mut self, before: &[String], last: &str, renamed: Option<String>) {
        let mut path = before.to_vec();
        if last != "self" {
            path.push(last.to_owned());
        }
        let name = renamed.or_else(|| path.last().cloned());
        self.paths.push(path.clone());
        self.imports.push(Import { name, path });
    }

    /// Adds the paths in the tokens of a macro, which may not be Rust: `name::name`, `crate::name`, `name::{name, ..}`.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at += match &tokens[at] {
                TokenTree::Group(group) => {
                    self.add_tokens(group.stream());
                    1
                }
                TokenTree::Ident(_) => self.add_token_path(&[], &tokens, at),
                // `$name::name` is resolved at the use of the macro; `::name` (below) is another crate's.
                TokenTree::Punct(dollar) if dollar.as_char() == '$' => match tokens.get(at + 1) {
                    Some(TokenTree::Ident(word)) if word != "crate" => {
                        1 + path_at(&tokens, at + 1).1
                    }
                    _ => 1,
                },
                TokenTree::Punct(_) if colons_at(&tokens, at) => 2 + path_at(&tokens, at + 2).1,
                _ => 1,
            };
        }
    }

    /// Adds the path that starts at `at`, prefixed by `before`, and returns its number of tokens.
    fn add_token_path(&mut self, before: &[String], tokens: &[TokenTree], at: usize) -> usize {
        let (segments, taken) = path_at(tokens, at);
        let path: Vec<_> = before.iter().cloned().chain(segments).collect();
        let group = tokens.get(at + taken + 2);
        if let (true, Some(TokenTree::Group(group))) = (colons_at(tokens, at + taken), group) {
            let inside: Vec<_> = group.stream().into_iter().collect();
            for one in inside
                .split(|token| matches!(token, TokenTree::Punct(comma) if comma.as_char() == ','))
            {
                self.add_token_path(&path, one, 0);
            }
            return taken + 3;
        }
        self.paths.push(path);
        taken.max(1)
    }
}

/// Returns the names joined by `::` from `at` on, and their number of tokens.
fn path_at(tokens: &[TokenTree], at: usize) -> (Vec<String>, usize) {
    let mut segments = Vec::new();
    let mut next = at;
    while let Some(TokenTree::Ident(word)) = tokens.get(next) {
        segments.push(word.to_string());
        next += 1;
        match tokens.get(next + 2) {
            Some(TokenTree::Ident(_)) if colons_at(tokens, next) => next += 2,
            _ => break,
        }
    }
    (segments, next - at)
}

fn colons_at(tokens: &[TokenTree], at: usize) -> bool {
    let is_colon =
        |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(one)) if one.as_char() == ':');
    is_colon(at) && is_colon(at + 1)
}
