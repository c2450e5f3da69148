//! Short forms of Rust, rewritten as what they stand for: `matches!`, `(a..b).contains(&x)`, `f32::from(x)`, `f32::max(a, b)`,
//! swaps, and `let` with patterns of structs and arrays.

use proc_macro2::TokenStream;
use quote::{format_ident, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Expr, ExprCall, ExprMatch, ExprMethodCall, Ident, Index, Macro, Member, Pat, RangeLimits, Stmt,
    Token, Type, parse_quote_spanned,
};

use super::Body;
use super::cheap::is_cheap;
use super::memory::single;
use crate::names::{COMPOSED, METHODS};
use crate::refused::is_number;
use crate::scope::Local;

impl Body<'_> {
    /// Rewrites `matches!(x, pattern if guard)`.
    pub(super) fn matches(&mut self, it: &Macro) -> TokenStream {
        match it.parse_body::<Matches>() {
            Ok(Matches(choice)) => self.choice(&choice),
            Err(error) => self.refuse(error.span(), error),
        }
    }

    /// Rewrites `x.is_empty()` and `(a..b).contains(&x)`.
    pub(super) fn short_method(&mut self, it: &ExprMethodCall) -> Option<TokenStream> {
        let (span, receiver) = (it.span(), &it.receiver);
        let arguments: Vec<&Expr> = it.args.iter().collect();
        match (it.method.to_string().as_str(), arguments.as_slice()) {
            // A struct may have a method of this name.
            ("is_empty", []) if self.is_memory(receiver) => {
                Some(self.expression(&parse_quote_spanned!(span=> #receiver.len() == 0)))
            }
            ("contains", [Expr::Reference(value)]) => {
                let Expr::Range(range) = innermost(receiver) else {
                    return None;
                };
                let value = &value.expr;
                let (mut bounds, mut tests): (Vec<Stmt>, Vec<Expr>) = Default::default();
                if let Some(start) = &range.start {
                    bounds.push(parse_quote_spanned!(span=> let __start = #start;));
                    tests.push(parse_quote_spanned!(span=> __value >= __start));
                }
                if let Some(end) = &range.end {
                    bounds.push(parse_quote_spanned!(span=> let __end = #end;));
                    tests.push(match range.limits {
                        RangeLimits::HalfOpen(_) => parse_quote_spanned!(span=> __value < __end),
                        RangeLimits::Closed(_) => parse_quote_spanned!(span=> __value <= __end),
                    });
                }
                Some(self.expression(&parse_quote_spanned!(span=> {
                    #(#bounds)*
                    let __value = #value;
                    #(#tests)&&*
                })))
            }
            // Of two elements; that of an atomic has one argument.
            ("swap", [_, _]) if !is_plain(receiver) => Some(self.refuse(receiver, TWICE)),
            ("swap", [a, b]) => Some(self.expression(&parse_quote_spanned!(span=> {
                let (__a, __b) = (#a, #b);
                let (__of_a, __of_b) = (#receiver[__a], #receiver[__b]);
                #receiver[__a] = __of_b;
                #receiver[__b] = __of_a;
            }))),
            _ => None,
        }
    }

    /// Returns whether an expression is the name of a buffer, a shared array or a constant.
    fn is_memory(&self, it: &Expr) -> bool {
        let local = single(it).and_then(|name| self.scopes.find(name));
        matches!(it, Expr::Path(_)) && !matches!(local, Some(Local::Value | Local::Variable))
    }

    /// Rewrites `std::mem::swap(&mut a, &mut b)`.
    pub(super) fn swap(&mut self, it: &ExprCall) -> Option<TokenStream> {
        let mut values = it.args.iter().map(|argument| match argument {
            Expr::Reference(value) if value.mutability.is_some() => Some(&*value.expr),
            _ => None,
        });
        let (Expr::Path(path), Some(Some(a)), Some(Some(b)), None) =
            (&*it.func, values.next(), values.next(), values.next())
        else {
            return None;
        };
        let names: Vec<String> = path
            .path
            .segments
            .iter()
            .map(|it| it.ident.to_string())
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if !matches!(names[..], ["swap"] | [.., "mem", "swap"])
            || self.is_memory(a)
            || self.is_memory(b)
        {
            return None;
        }
        if let Some(place) = [a, b].into_iter().find(|place| !is_plain(place)) {
            return Some(self.refuse(place, TWICE));
        }
        Some(self.expression(&parse_quote_spanned!(it.span()=> (#a, #b) = (#b, #a))))
    }

    /// Rewrites a function of a number's type: `f32::from(x)`, `f32::from_bits(x)`, `f32::max(a, b)`.
    pub(super) fn of_number(&mut self, it: &ExprCall) -> Option<TokenStream> {
        let Expr::Path(path) = &*it.func else {
            return None;
        };
        let segments: Vec<&Ident> = path.path.segments.iter().map(|it| &it.ident).collect();
        let [of, name] = segments[..] else {
            return None;
        };
        if !is_number(&of.to_string()) {
            return None;
        }
        let (span, text) = (it.span(), name.to_string());
        let (first, others) = (it.args.first()?, it.args.iter().skip(1));
        let convert = match text.as_str() {
            "from_bits" => Some("bit_cast"),
            "from" => Some("convert"),
            _ => None,
        };
        if let (Some(convert), 1) = (convert, it.args.len()) {
            let (convert, value) = (self.path(span, convert), self.expression(first));
            return Some(quote_spanned!(span=> #convert::<#of, _>(#value)));
        }
        let is_method = METHODS.iter().any(|(method, ..)| *method == text)
            || COMPOSED.iter().any(|(method, _)| *method == text)
            || matches!(text.as_str(), "clamp" | "is_nan");
        is_method.then(|| {
            self.expression(&parse_quote_spanned!(span=> {
                let __first: #of = #first;
                __first.#name(#(#others),*)
            }))
        })
    }

    /// Rewrites a `let` whose pattern has fields or elements, as a `let` of each. `None` if it has not.
    pub(super) fn declare_apart(
        &mut self,
        pattern: &Pat,
        of: Option<&Type>,
        value: &Expr,
    ) -> Option<TokenStream> {
        if !has_parts(pattern) {
            return None;
        }
        let mut statements = Vec::new();
        match take_apart(pattern, of, value, 0, &mut statements) {
            Ok(()) => Some(self.statements(&statements)),
            Err(error) => Some(self.refuse(error.span(), error)),
        }
    }
}

/// The arguments of `matches!`.
struct Matches(ExprMatch);

impl Parse for Matches {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let span = input.span();
        let value: Expr = input.parse()?;
        input.parse::<Token![,]>()?;
        let pattern = Pat::parse_multi_with_leading_vert(input)?;
        let guard: Option<Expr> = match input.parse::<Option<Token![if]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        input.parse::<Option<Token![,]>>()?;
        let guard = guard.map(|guard| quote_spanned!(span=> if #guard));
        Ok(Self(parse_quote_spanned!(span=> match #value {
            #pattern #guard => true,
            _ => false,
        })))
    }
}

const TWICE: &str =
    "a swap accesses each place twice: give the index a name before, `let at = ..;`";

/// Returns `true` for a place whose indices have no effects, and do not change.
fn is_plain(place: &Expr) -> bool {
    match place {
        Expr::Field(field) => is_plain(&field.base),
        Expr::Index(index) => is_plain(&index.expr) && is_cheap(&index.index),
        Expr::Paren(inner) => is_plain(&inner.expr),
        other => single(other).is_some(),
    }
}

/// Returns an expression without parentheses.
fn innermost(it: &Expr) -> &Expr {
    match it {
        Expr::Paren(inner) => innermost(&inner.expr),
        Expr::Group(inner) => innermost(&inner.expr),
        other => other,
    }
}

/// Returns `true` for a pattern of a struct or an array, and for a tuple with one.
fn has_parts(pattern: &Pat) -> bool {
    match pattern {
        Pat::Struct(_) | Pat::Slice(_) => true,
        Pat::Tuple(tuple) => tuple.elems.iter().any(has_parts),
        Pat::Paren(inner) => has_parts(&inner.pat),
        _ => false,
    }
}

/// Adds a `let` for each name of a pattern.
fn take_apart(
    pattern: &Pat,
    of: Option<&Type>,
    value: &Expr,
    depth: usize,
    to: &mut Vec<Stmt>,
) -> syn::Result<()> {
    let span = pattern.span();
    let whole = format_ident!("__whole_{depth}", span = span);
    let mut parts: Vec<(&Pat, Member)> = Vec::new();
    let declared: Type;
    let of = match pattern {
        Pat::Paren(inner) => return take_apart(&inner.pat, of, value, depth, to),
        Pat::Struct(fields) => {
            let all = fields.fields.iter();
            parts.extend(all.map(|field| (&*field.pat, field.member.clone())));
            let path = &fields.path;
            declared = parse_quote_spanned!(span=> #path);
            Some(&declared)
        }
        Pat::Slice(elements) => {
            let all = elements.elems.iter().enumerate();
            parts.extend(all.map(|(index, element)| (element, index.into())));
            let len = Index::from(parts.len());
            declared = parse_quote_spanned!(span=> [_; #len]);
            of.or(Some(&declared))
        }
        Pat::Tuple(tuple) if has_parts(pattern) => {
            let all = tuple.elems.iter().enumerate();
            parts.extend(all.map(|(index, element)| (element, index.into())));
            of
        }
        Pat::Rest(_) => {
            let why = "a pattern names each part: write `_` for those that are not used";
            return Err(syn::Error::new(span, why));
        }
        _ => {
            to.push(parse_quote_spanned!(span=> let #pattern = #value;));
            return Ok(());
        }
    };
    let of = of.map(|of| quote_spanned!(span=> : #of));
    to.push(parse_quote_spanned!(span=> let #whole #of = #value;));
    for (part, member) in parts {
        let span = part.span();
        let value: Expr = match (pattern, &member) {
            (Pat::Slice(_), Member::Unnamed(index)) => {
                parse_quote_spanned!(span=> #whole[#index])
            }
            _ => parse_quote_spanned!(span=> #whole.#member),
        };
        take_apart(part, None, &value, depth + 1, to)?;
    }
    Ok(())
}
