//! Assertions and prints: `debug_assert!(..)`, `println!(..)`.
//!
//! Their texts are Rust's format strings. The plain form hands them to Rust; the program has the values in order, so that both
//! forms get a string without names. rustc checks the string in the plain form.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, Ident, Lit, LitStr, Macro, MacroDelimiter, Token};

use super::{Body, Form, line_of};
use crate::refused;

/// The most values of a text: what a program has.
const VALUES_MAX: usize = 16;

/// A text with values in order.
#[derive(Default)]
struct Text {
    format: String,
    values: Vec<Expr>,
}

impl Body<'_> {
    /// Rewrites a call of a macro.
    pub(super) fn macro_call(&mut self, it: &Macro) -> TokenStream {
        let name = it.path.get_ident().map(ToString::to_string);
        let conditions = match name.as_deref() {
            Some("print" | "println") => 0,
            Some("matches") => return self.matches(it),
            Some("cfg") => return self.literal_of(quote!(::core::#it)),
            Some("debug_assert") => 1,
            Some("debug_assert_eq" | "debug_assert_ne") => 2,
            _ => return self.refuse(it, refused::macro_named(&it.path)),
        };
        let all = it.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
        let all: Vec<Expr> = match all {
            Ok(all) if all.len() >= conditions => all.into_iter().collect(),
            Ok(_) => return self.refuse(it, "the condition is missing"),
            Err(error) => return self.refuse(error.span(), error),
        };
        let (conditions, said) = all.split_at(conditions);
        let text = match self.text(said) {
            Ok(text) => text,
            Err((at, why)) => return self.refuse(at, why),
        };
        let shown = if conditions.len() == 2 { 2 } else { 0 };
        let values = shown + text.as_ref().map_or(0, |text| text.values.len());
        if values > VALUES_MAX {
            let why = format!(
                "a text of a kernel has at most {VALUES_MAX} values, got {values}: write two calls"
            );
            return self.refuse(it, why);
        }
        match (name.as_deref(), conditions) {
            (_, [condition]) => self.assert(it, condition, text),
            (Some("debug_assert_eq"), [left, right]) => self.compare(it, [left, right], "==", text),
            (_, [left, right]) => self.compare(it, [left, right], "!=", text),
            _ => self.print(it, text.unwrap_or_default()),
        }
    }

    /// Takes a text apart: a format string, and its values. `None` if there is none.
    fn text(&self, said: &[Expr]) -> Result<Option<Text>, (Span, String)> {
        let Some((first, arguments)) = said.split_first() else {
            return Ok(None);
        };
        let format = match first {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(format) => format,
                other => return Err((other.span(), FORMAT.to_owned())),
            },
            other => return Err((other.span(), FORMAT.to_owned())),
        };
        let (mut positional, mut named) = (Vec::new(), Vec::new());
        for argument in arguments {
            match argument {
                Expr::Assign(it) => named.push((it.left.to_token_stream().to_string(), &*it.right)),
                other => positional.push(other),
            }
        }
        let mut reader = Reader {
            format,
            positional: &positional,
            named: &named,
            used: Vec::new(),
            next: 0,
            text: Text::default(),
        };
        reader.read().map_err(|why| (format.span(), why))?;
        let total = arguments.len();
        if let Some(unused) = (0..total).find(|index| {
            let argument = &arguments[*index];
            let argument = match argument {
                Expr::Assign(it) => &*it.right,
                other => other,
            };
            !reader.used.iter().any(|used| std::ptr::eq(*used, argument))
        }) {
            let why = "the format string does not name this value: write `{}` for it".to_owned();
            return Err((arguments[unused].span(), why));
        }
        Ok(Some(reader.text))
    }

    /// Rewrites `println!`.
    fn print(&mut self, it: &Macro, Text { format, values }: Text) -> TokenStream {
        let span = it.path.span();
        let values = self.expressions(&values);
        let print = &it.path;
        match self.form {
            // Only where Rust calls a helper function: a kernel that prints runs as a program.
            Form::Plain => quote_spanned!(span=> ::std::#print!(#format #(, #values)*)),
            Form::Traced => {
                let format = format.strip_suffix('\n').unwrap_or(&format);
                quote_spanned!(span=> __k.print(#format, &[#(::millstream::__kernel::traced::said(#values)),*]))
            }
        }
    }

    /// Rewrites `debug_assert!`.
    fn assert(&mut self, it: &Macro, condition: &Expr, text: Option<Text>) -> TokenStream {
        let span = it.path.span();
        let holds = self.expression(condition);
        let assertion = sources(it, &[condition]).join("");
        let fails = self.fail(span, &assertion, text, &[]);
        checked(span, &self.unless(span, &holds, &fails))
    }

    /// Rewrites `debug_assert_eq!` and `debug_assert_ne!`.
    fn compare(
        &mut self,
        it: &Macro,
        [left, right]: [&Expr; 2],
        operator: &str,
        text: Option<Text>,
    ) -> TokenStream {
        let span = it.path.span();
        let (a, b) = (self.expression(left), self.expression(right));
        let name = if operator == "==" { "eq" } else { "ne" };
        let compare = self.path(span, name);
        let holds = quote_spanned!(span=> #compare(__left, __right));
        let assertion = sources(it, &[left, right]).join(&format!(" {operator} "));
        let both = [quote!(__left), quote!(__right)];
        let fails = self.fail(span, &assertion, text, &both);
        let unless = self.unless(span, &holds, &fails);
        checked(
            span,
            &quote_spanned!(span=> let (__left, __right) = (#a, #b); #unless),
        )
    }

    /// Returns a failure unless a condition holds.
    fn unless(&self, span: Span, holds: &TokenStream, fails: &TokenStream) -> TokenStream {
        match self.form {
            Form::Plain => quote_spanned!(span=> if !(#holds) { #fails }),
            Form::Traced => {
                let (when, not) = (self.path(span, "when"), self.path(span, "not"));
                quote_spanned!(span=> #when(__k, #not(#holds), || #fails))
            }
        }
    }

    /// Returns the failure of an assertion, which shows the values that were compared.
    fn fail(
        &mut self,
        span: Span,
        assertion: &str,
        text: Option<Text>,
        compared: &[TokenStream],
    ) -> TokenStream {
        let mut format = match compared {
            [] => String::new(),
            _ => ": left is {:?}, right is {:?}".to_owned(),
        };
        let mut values = compared.to_vec();
        if let Some(text) = text {
            format = format!("{format}: {}", text.format);
            values.extend(self.expressions(&text.values));
        }
        let line = line_of(span);
        match self.form {
            Form::Plain => {
                let position = match self.has_numbers() {
                    true => quote!(__thread.position::<__AXES>()),
                    false => quote!([0_usize; 0]),
                };
                quote_spanned!(span=> ::millstream::__kernel::plain::fail(
                    #assertion,
                    ::core::format_args!(#format #(, #values)*),
                    #position,
                    (::core::file!(), #line),
                ))
            }
            Form::Traced => quote_spanned!(span=> __k.fail(
                #assertion,
                #format,
                &[#(::millstream::__kernel::traced::said(#values)),*],
            )),
        }
    }

    fn expressions(&mut self, all: &[Expr]) -> Vec<TokenStream> {
        all.iter().map(|it| self.expression(it)).collect()
    }
}

/// Returns the texts of the first arguments of a macro.
fn sources(it: &Macro, arguments: &[&Expr]) -> Vec<String> {
    let delimiters = match &it.delimiter {
        MacroDelimiter::Paren(it) => it.span,
        MacroDelimiter::Brace(it) => it.span,
        MacroDelimiter::Bracket(it) => it.span,
    };
    let text = delimiters.join().source_text().unwrap_or_default();
    let (mut texts, mut depth) = (vec![String::new()], 0);
    for letter in text.chars() {
        match letter {
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 1 => texts.push(String::new()),
            _ => {}
        }
        if let (Some(last), true) = (texts.last_mut(), depth > 0) {
            last.push(letter);
        }
        depth += i32::from(matches!(letter, '(' | '[' | '{'));
    }
    // Of code that another macro has written there is no text.
    let mut texts = texts.into_iter();
    let of = |argument: &&Expr| {
        let mut text = texts.next().unwrap_or_default();
        // The comma of generic arguments, `f::<2, 3>(x)`, ends no argument.
        let mut rest = texts.clone();
        let mut longer = text.clone();
        while !is_expression(&longer)
            && let Some(more) = rest.next()
        {
            longer += &more;
            if is_expression(&longer) {
                (text, texts) = (longer.clone(), rest.clone());
            }
        }
        let words: Vec<&str> = text.trim_start_matches(',').split_whitespace().collect();
        match &words[..] {
            [] => argument.to_token_stream().to_string(),
            words => shortened(words.join(" ")),
        }
    };
    arguments.iter().map(of).collect()
}

/// Returns `true` for the text of an argument, perhaps with the comma before it.
fn is_expression(text: &str) -> bool {
    syn::parse_str::<Expr>(text.trim_start_matches(',')).is_ok()
}

/// The most letters of an argument in a message: the text of a program has a limit.
const LETTERS_MAX: usize = 200;

/// Returns a text, without its end if it is long.
fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LETTERS_MAX) {
        text.truncate(end);
        text += "...";
    }
    text
}

/// Returns statements that run where the crate of the kernel has debug assertions.
fn checked(span: Span, inner: &TokenStream) -> TokenStream {
    quote_spanned!(span=> if ::core::cfg!(debug_assertions) { #inner })
}

/// What a text is.
const FORMAT: &str = "a text is a format string: `\"x = {x}\"`";

/// Reads a format string.
struct Reader<'a> {
    format: &'a LitStr,
    positional: &'a [&'a Expr],
    named: &'a [(String, &'a Expr)],
    /// The arguments that the string has named.
    used: Vec<&'a Expr>,
    /// The next argument without a name.
    next: usize,
    text: Text,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), String> {
        let format = self.format.value();
        let mut rest = format.chars().peekable();
        while let Some(letter) = rest.next() {
            self.text.format.push(letter);
            if letter == '{' || letter == '}' {
                if rest.peek() == Some(&letter) {
                    rest.next();
                    self.text.format.push(letter);
                } else if letter == '{' {
                    let (mut value, mut ends) = (String::new(), false);
                    for letter in rest.by_ref() {
                        ends = letter == '}';
                        if ends {
                            break;
                        }
                        value.push(letter);
                    }
                    if !ends {
                        return Err("a `{` is not closed: write `{{` for the letter".to_owned());
                    }
                    self.value(&value)?;
                }
            }
        }
        Ok(())
    }

    /// Reads what stands between braces.
    fn value(&mut self, text: &str) -> Result<(), String> {
        let (name, spec) = match text.split_once(':') {
            Some((name, spec)) => (name.trim(), Some(spec)),
            None => (text.trim(), None),
        };
        let argument = match name.parse::<usize>() {
            Ok(index) => self.positional.get(index).copied(),
            Err(_) if name.is_empty() => {
                self.next += 1;
                self.positional.get(self.next - 1).copied()
            }
            Err(_) => {
                let named = self.named.iter().find(|(of, _)| of == name);
                named.map(|(_, value)| *value)
            }
        };
        let value = match argument {
            Some(argument) => {
                self.used.push(argument);
                argument.clone()
            }
            None if name.is_empty() || name.starts_with(|letter: char| letter.is_ascii_digit()) => {
                return Err(format!(
                    "`{{{text}}}` has no value: write it behind the text"
                ));
            }
            None => {
                let Ok(name) = syn::parse_str::<Ident>(name) else {
                    return Err(format!(
                        "`{{{text}}}` is no variable: write `{{}}`, and the value behind the text"
                    ));
                };
                let name = Ident::new(&name.to_string(), self.format.span());
                syn::parse_quote!(#name)
            }
        };
        self.text.values.push(value);
        if let Some(spec) = spec {
            let kind = spec.trim_start_matches(|letter: char| !letter.is_alphabetic());
            let is_known = matches!(kind, "" | "x" | "X" | "o" | "b" | "e");
            if !is_known || spec.contains(['$', '*']) {
                return Err(format!(
                    "kernels do not have `{{{text}}}`: write `{{}}`, `{{:?}}`, `{{:8.3}}`, `{{:#x}}` and the like"
                ));
            }
            self.text.format.push(':');
            self.text.format.push_str(spec);
        }
        self.text.format.push('}');
        Ok(())
    }
}
