//! Patterns: what they bind, and when they fit.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident, Pat, RangeLimits};

use super::Body;
use crate::refused;
use crate::scope::Local;

impl Body<'_> {
    /// Binds the names of a pattern that always fits. Returns the pattern as the body has it, and the names of variables,
    /// which a traced body binds again.
    pub(super) fn bind(&mut self, pattern: &Pat) -> (TokenStream, Vec<Ident>) {
        let mut variables = Vec::new();
        let bound = self.bind_into(pattern, &mut variables);
        (bound, variables)
    }

    pub(super) fn bind_into(&mut self, pattern: &Pat, variables: &mut Vec<Ident>) -> TokenStream {
        match pattern {
            Pat::Wild(_) => quote!(#pattern),
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                let ident = &name.ident;
                let local = match name.mutability {
                    Some(_) => {
                        variables.push(ident.clone());
                        Local::Variable
                    }
                    None => Local::Value,
                };
                self.scopes.bind(ident, local);
                match self.is_traced() {
                    true => quote!(#ident),
                    false => quote!(#pattern),
                }
            }
            Pat::Tuple(tuple) => {
                let parts = tuple
                    .elems
                    .iter()
                    .map(|part| self.bind_into(part, variables));
                let parts: Vec<_> = parts.collect();
                quote_spanned!(pattern.span()=> (#(#parts,)*))
            }
            Pat::Paren(inner) => self.bind_into(&inner.pat, variables),
            Pat::Ident(name) => self.refuse(
                name,
                "a `let` of a kernel has no `ref` and `@`: write the name alone",
            ),
            other => self.refuse(
                other,
                "a `let` of a kernel has names and tuples: take other values apart by their fields",
            ),
        }
    }

    /// Returns the condition that a value, by its name, fits a pattern of `match`; `None` if it always does. Names that the
    /// pattern binds are bound in the open scope; `lets` binds them.
    pub(super) fn fits(
        &mut self,
        value: &TokenStream,
        pattern: &Pat,
        lets: &mut TokenStream,
    ) -> Option<TokenStream> {
        let span = pattern.span();
        match pattern {
            Pat::Wild(_) => None,
            // As rustc does, but by its spelling: the macro does not know which constants there are.
            Pat::Ident(name) if name.ident.to_string().starts_with(char::is_uppercase) => {
                if let Some(why) = refused::constant(&name.ident.clone().into()) {
                    self.refuse(name, why);
                }
                let (equal, literal) = (self.path(span, "eq"), self.literal_of(quote!(#name)));
                Some(quote_spanned!(span=> #equal(#value, #literal)))
            }
            Pat::Ident(name) if name.by_ref.is_none() && name.mutability.is_none() => {
                let ident = &name.ident;
                self.scopes.bind(ident, Local::Value);
                lets.extend(quote_spanned!(span=> let #ident = #value;));
                let (_, inner) = name.subpat.as_ref()?;
                self.fits(value, inner, lets)
            }
            Pat::Lit(literal) => {
                let (equal, literal) = (
                    self.path(span, "eq"),
                    self.literal(&Expr::Lit(literal.clone())),
                );
                Some(quote_spanned!(span=> #equal(#value, #literal)))
            }
            Pat::Const(_) | Pat::Path(_) => {
                let (equal, literal) = (self.path(span, "eq"), self.literal_of(quote!(#pattern)));
                Some(quote_spanned!(span=> #equal(#value, #literal)))
            }
            Pat::Range(range) => {
                let (at_least, both) = (self.path(span, "ge"), self.path(span, "and"));
                let below = match range.limits {
                    RangeLimits::HalfOpen(_) => self.path(span, "lt"),
                    RangeLimits::Closed(_) => self.path(span, "le"),
                };
                let start = range.start.as_ref().map(|start| {
                    let start = self.literal(start);
                    quote_spanned!(span=> #at_least(#value, #start))
                });
                let end = range.end.as_ref().map(|end| {
                    let end = self.literal(end);
                    quote_spanned!(span=> #below(#value, #end))
                });
                match (start, end) {
                    (Some(start), Some(end)) => Some(quote_spanned!(span=> #both(#start, #end))),
                    (start, end) => start.or(end),
                }
            }
            Pat::Or(cases) => {
                let either = self.path(span, "or");
                let mut any: Option<TokenStream> = None;
                for case in &cases.cases {
                    let fits = self.fits(value, case, lets)?;
                    any = Some(match any {
                        Some(any) => quote_spanned!(span=> #either(#any, #fits)),
                        None => fits,
                    });
                }
                any
            }
            Pat::Tuple(tuple) => {
                let both = self.path(span, "and");
                let mut all: Option<TokenStream> = None;
                for (index, part) in tuple.elems.iter().enumerate() {
                    let index = syn::Index::from(index);
                    let Some(fits) = self.fits(&quote!(#value.#index), part, lets) else {
                        continue;
                    };
                    all = Some(match all {
                        Some(all) => quote_spanned!(span=> #both(#all, #fits)),
                        None => fits,
                    });
                }
                all
            }
            Pat::Paren(inner) => self.fits(value, &inner.pat, lets),
            Pat::TupleStruct(of) if let Some(why) = refused::function(&of.path) => {
                self.refuse(of, why);
                None
            }
            other => {
                self.refuse(
                    other,
                    "a `match` of a kernel has numbers, ranges, tuples, `|`, `_` and names",
                );
                None
            }
        }
    }
}
