//! Parts of variables and of elements: `pair.0`, `x[i].position.x`, `m[i][j]`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprIndex, Ident};

use super::Body;
use super::memory::{Memory, place_at, root, single};
use crate::scope::Local;
use crate::signature::Mode;

impl Body<'_> {
    /// Assigns to a variable, or to a part of a variable or of an element.
    pub(super) fn assign_place(
        &mut self,
        place: &Expr,
        value: &TokenStream,
        operator: Option<&BinOp>,
        span: Span,
    ) -> TokenStream {
        let Some(name) = root(place) else {
            let why =
                "a kernel assigns to one variable or element at a time: `x = ..` or `y[i] = ..`";
            return self.refuse(place, why);
        };
        let local = self.scopes.find(name);
        let indexed = innermost(place);
        if let Some(why) = self.why_fixed(name) {
            return match indexed {
                Some(index) => self.refuse(&index.expr, why),
                None => self.refuse(place, why),
            };
        }
        match (local, indexed) {
            (Some(Local::Variable), _) | (Some(Local::Shared | Local::Buffer(..)), Some(_)) => {}
            _ => {
                let why = "a kernel assigns to one variable or element at a time: `x = ..` or `y[i] = ..`";
                return self.refuse(place, why);
            }
        }
        if self.is_traced() {
            let place = self.place(place);
            let now = quote!(::millstream::__kernel::traced::Traced::load(__place));
            let stored = match operator {
                Some(operator) => self.apply(operator, &now, &quote!(__value)),
                None => quote!(__value),
            };
            return quote_spanned!(span=> {
                let __value = #value;
                let __place = #place;
                ::millstream::__kernel::traced::Traced::assign(__place, #stored);
            });
        }
        let Some(indexed) = indexed else {
            return match operator {
                Some(operator) => {
                    let stored = self.apply(operator, &quote!(#place), &quote!(__value));
                    quote_spanned!(span=> { let __value = #value; #place = #stored; })
                }
                None => quote_spanned!(span=> #place = #value),
            };
        };
        let element = match local {
            Some(Local::Buffer(..)) => Some(indexed),
            _ => None,
        };
        let mut lets = Vec::new();
        let part = self.part(place, element, &mut lets);
        let assign = match operator {
            Some(operator) => {
                let stored = self.apply(operator, &quote!(*__part), &quote!(__value));
                quote_spanned!(span=> let __part = &mut #part; *__part = #stored;)
            }
            None => quote_spanned!(span=> #part = __value;),
        };
        let Some(indexed) = element else {
            return quote_spanned!(span=> { let __value = #value; #(#lets)* #assign });
        };
        let Some((memory, at)) = self.memory(indexed) else {
            return TokenStream::new();
        };
        let change = match memory {
            Memory::Own(buffer, thread) => {
                let place = place_at(&buffer.to_string(), indexed.span());
                quote_spanned!(span=> #buffer.change(#thread, |__element| { #assign }, #place);)
            }
            Memory::Other(memory, name) => {
                let (change, place) = (self.path(span, "change"), place_at(&name, indexed.span()));
                quote_spanned!(span=> {
                    let __at = #at;
                    #change(&mut #memory, __at, |__element| { #assign }, #place);
                })
            }
        };
        quote_spanned!(span=> { let __value = #value; #(#lets)* #change })
    }

    /// Returns why nothing assigns to what has this name.
    pub(super) fn why_fixed(&self, name: &Ident) -> Option<String> {
        Some(match self.scopes.find(name)? {
            Local::Buffer(_, Mode::Read) => {
                format!("`{name}` is read-only: declare it as `{name}: &mut [T]`")
            }
            Local::Buffer(_, Mode::Atomic) => format!(
                "`{name}` has atomics: use `{name}[i].store(value)`, or `{name}[i].fetch_add(value)`"
            ),
            Local::Value | Local::Number => {
                format!("`{name}` does not change: declare it as `let mut {name}`")
            }
            _ => return None,
        })
    }

    /// Returns `true` for an element of what has a name, or of a field of it: not for an element of an element.
    pub(super) fn is_direct(&self, index: &ExprIndex) -> bool {
        innermost(&index.expr).is_none()
    }

    /// Returns a traced place: what it holds is loaded when it is used.
    pub(super) fn place(&mut self, it: &Expr) -> TokenStream {
        match it {
            Expr::Paren(inner) => self.place(&inner.expr),
            Expr::Field(field) => {
                let (base, member) = (self.place(&field.base), &field.member);
                quote_spanned!(it.span()=> #base.#member)
            }
            Expr::Index(index) => {
                let Some((Memory::Other(memory, _), at)) = self.memory(index) else {
                    return TokenStream::new();
                };
                let place = self.path(it.span(), "place");
                quote_spanned!(it.span()=> #place(__k, #memory, #at))
            }
            other => match single(other).and_then(|name| self.scopes.find(name)) {
                Some(Local::Variable | Local::Value) => quote!(#other),
                _ => self.expression(other),
            },
        }
    }

    /// Returns a part of a variable in the plain form, or of an element of a buffer, `__element`. `lets` has its indices,
    /// which may use the same variable.
    fn part(
        &mut self,
        it: &Expr,
        element: Option<&ExprIndex>,
        lets: &mut Vec<TokenStream>,
    ) -> TokenStream {
        let span = it.span();
        match it {
            Expr::Paren(inner) => self.part(&inner.expr, element, lets),
            Expr::Field(field) => {
                let (base, member) = (self.part(&field.base, element, lets), &field.member);
                quote_spanned!(span=> #base.#member)
            }
            Expr::Index(index) if element.is_some_and(|it| std::ptr::eq(it, index)) => {
                quote_spanned!(span=> (*__element))
            }
            Expr::Index(index) => {
                let base = self.part(&index.expr, element, lets);
                let at = self.expression(&index.index);
                let name = format_ident!("__at_{}", lets.len());
                lets.push(quote_spanned!(span=> let #name = #at;));
                let slot = self.path(span, "slot");
                let text = &index.expr;
                let place = place_at(&quote!(#text).to_string(), span);
                quote_spanned!(span=> (*#slot(&mut #base, #name, #place)))
            }
            other => quote!(#other),
        }
    }
}

/// Returns the indexed element that a place begins with: `x[i]` of `x[i].position.x`.
pub(super) fn innermost(place: &Expr) -> Option<&ExprIndex> {
    match place {
        Expr::Paren(inner) => innermost(&inner.expr),
        Expr::Field(field) => innermost(&field.base),
        Expr::Index(index) => innermost(&index.expr).or(Some(index)),
        _ => None,
    }
}
