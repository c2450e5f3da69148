//! What kernels refuse: `refusals.txt` has each case as rustc shows it, with the error below the text it is about.
//!
//! `MILLSTREAM_WRITE_REFUSALS=1 cargo test -p millstream-kernel-macros` writes the errors of changed cases.

use std::fmt::Write as _;
use std::ops::Range;
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

use crate::expand;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/refusals.txt");

/// An error: the bytes of the text that it is about, and the message.
struct Refusal {
    at: Range<usize>,
    why: String,
}

/// Returns the errors of a kernel, in the order of the text.
fn refusals(kernel: &str) -> Vec<Refusal> {
    let tokens = TokenStream::from_str(kernel).unwrap_or_else(|why| panic!("{why}:\n{kernel}"));
    let base = tokens
        .clone()
        .into_iter()
        .next()
        .map_or(0, |first| first.span().byte_range().start);
    // `#[kernel(..)]`, then the item.
    let mut tokens = tokens.into_iter();
    let attribute = tokens.by_ref().nth(1);
    let Some(TokenTree::Group(attribute)) = attribute else {
        panic!("a case begins with `#[kernel]`:\n{kernel}");
    };
    let options = attribute
        .stream()
        .into_iter()
        .nth(1)
        .map(|options| match options {
            TokenTree::Group(options) => options.stream(),
            _ => panic!("a case begins with `#[kernel]`:\n{kernel}"),
        });
    let expanded = expand(options.unwrap_or_default(), tokens.collect());
    let mut found: Vec<Refusal> = Vec::new();
    let expanded: Vec<TokenTree> = expanded.into_iter().collect();
    // `::core::compile_error! { ".." }`: the first token has the start of the span, the braces its end.
    for (index, token) in expanded.iter().enumerate() {
        if !matches!(token, TokenTree::Ident(name) if name == "compile_error") {
            continue;
        }
        let Some(TokenTree::Group(group)) = expanded.get(index + 2) else {
            panic!("`compile_error!` has a message");
        };
        let message = syn::parse2::<syn::LitStr>(group.stream()).expect("the message is text");
        let at = token.span().byte_range().start - base..group.span().byte_range().end - base;
        found.push(Refusal {
            at,
            why: message.value(),
        });
    }
    found.sort_by_key(|refusal| refusal.at.start);
    found
}

/// Returns a kernel with its errors, each below the line where it begins.
fn rendered(kernel: &str) -> String {
    let refusals = refusals(kernel);
    let (mut out, mut start) = (String::new(), 0);
    for line in kernel.split_inclusive('\n') {
        out += line;
        let end = start + line.trim_end().len();
        for refusal in refusals
            .iter()
            .filter(|it| (start..=end).contains(&it.at.start))
        {
            let before = " ".repeat(refusal.at.start - start);
            let carets = "^".repeat(refusal.at.end.min(end) - refusal.at.start);
            let more = if refusal.at.end > end { ".." } else { "" };
            writeln!(out, "{before}{carets}{more} {}", refusal.why).expect("a string has room");
        }
        start += line.len();
    }
    out
}

/// Returns `true` for a line that shows an error.
fn shows_error(line: &str) -> bool {
    line.trim_start().starts_with('^')
}

#[test]
fn what_kernels_refuse_is_shown_at_its_place() {
    let file = std::fs::read_to_string(FILE).expect("the file of cases");
    let (mut out, mut cases, mut wrong) = (String::new(), 0, String::new());
    for part in file.split_inclusive("\n\n") {
        if part.starts_with("//") {
            out += part;
            continue;
        }
        cases += 1;
        let kernel = part.trim_end().lines().filter(|line| !shows_error(line));
        let kernel: String = kernel.map(|line| format!("{line}\n")).collect();
        let now = rendered(&kernel);
        assert!(
            now.lines().any(shows_error),
            "nothing is wrong with it:\n{kernel}"
        );
        if now.trim_end() != part.trim_end() {
            writeln!(wrong, "expected:\n{}\n\ngot:\n{now}", part.trim_end())
                .expect("a string has room");
        }
        out += &now;
        out += "\n";
    }
    assert!(cases >= 150, "{cases} cases");
    if std::env::var_os("MILLSTREAM_WRITE_REFUSALS").is_some() {
        std::fs::write(FILE, out.trim_end().to_owned() + "\n").expect("the file is written");
    } else {
        assert!(wrong.is_empty(), "{wrong}");
    }
}
