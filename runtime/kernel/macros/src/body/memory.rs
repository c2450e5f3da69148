//! Accesses of buffers and arrays, and assignments.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprIndex, ExprMethodCall, Ident, Member};

use super::lets::is_thread;
use super::{Body, line_of};
use crate::names::ATOMICS;
use crate::scope::Local;
use crate::signature::Mode;

/// Where an indexed element is.
pub(super) enum Memory {
    /// In a buffer that each thread accesses at its number; the tokens of the thread.
    Own(Ident, TokenStream),
    /// In other memory: its tokens, and its name for messages.
    Other(TokenStream, String),
}

impl Body<'_> {
    /// Rewrites a load: `x[i]`.
    pub(super) fn load(&mut self, index: &ExprIndex) -> TokenStream {
        let span = index.span();
        if let Some(name) = single(&index.expr)
            && let Some(Local::Buffer(_, Mode::Atomic)) = self.scopes.find(name)
        {
            let why = format!("`{name}` has atomics: use `{name}[i].load()`");
            return self.refuse(index, why);
        }
        let Some((memory, at)) = self.memory(index) else {
            return TokenStream::new();
        };
        match memory {
            Memory::Own(buffer, thread) => {
                let place = place_at(&buffer.to_string(), span);
                quote_spanned!(span=> #buffer.get(#thread, #place))
            }
            Memory::Other(memory, name) => {
                let get = self.path(span, "get");
                match self.is_traced() {
                    true => quote_spanned!(span=> #get(__k, #memory, #at)),
                    false => {
                        let place = place_at(&name, span);
                        quote_spanned!(span=> #get(&#memory, #at, #place))
                    }
                }
            }
        }
    }

    /// Rewrites `place = value`, or `place op= value` with the function of the operator.
    pub(super) fn assign(
        &mut self,
        place: &Expr,
        value: &Expr,
        operator: Option<&BinOp>,
        span: Span,
    ) -> TokenStream {
        // As for numbers in Rust, the value is computed before the place.
        let value = self.expression(value);
        self.assign_value(place, &value, operator, span)
    }

    /// Assigns a value that is rewritten.
    fn assign_value(
        &mut self,
        place: &Expr,
        value: &TokenStream,
        operator: Option<&BinOp>,
        span: Span,
    ) -> TokenStream {
        match place {
            Expr::Tuple(parts) if operator.is_none() => {
                let names = (0..parts.elems.len()).map(|part| format_ident!("__part{part}"));
                let names: Vec<_> = names.collect();
                let parts = parts.elems.iter().zip(&names);
                let parts =
                    parts.map(|(place, name)| self.assign_value(place, &quote!(#name), None, span));
                let parts: Vec<_> = parts.collect();
                quote_spanned!(span=> { let (#(#names,)*) = #value; #(#parts;)* })
            }
            Expr::Index(index) if self.is_direct(index) => self.store(index, value, operator),
            Expr::Paren(inner) => self.assign_value(&inner.expr, value, operator, span),
            Expr::Infer(_) => quote_spanned!(span=> { let _ = #value; }),
            other => self.assign_place(other, value, operator, span),
        }
    }

    /// Assigns to an element.
    fn store(
        &mut self,
        index: &ExprIndex,
        value: &TokenStream,
        operator: Option<&BinOp>,
    ) -> TokenStream {
        let span = index.span();
        if let Some(why) = root(&index.expr).and_then(|name| self.why_fixed(name)) {
            return self.refuse(&index.expr, why);
        }
        let Some((memory, at)) = self.memory(index) else {
            return TokenStream::new();
        };
        match memory {
            Memory::Own(buffer, thread) => {
                let place = place_at(&buffer.to_string(), span);
                let stored = match operator {
                    Some(operator) => {
                        let now = quote!(#buffer.get(#thread, #place));
                        self.apply(operator, &now, &quote!(__value))
                    }
                    None => quote!(__value),
                };
                quote_spanned!(span=> { let __value = #value; #buffer.set(#thread, #stored, #place); })
            }
            Memory::Other(memory, name) => {
                let (get, set) = (self.path(span, "get"), self.path(span, "set"));
                let (from, to, place) = match self.is_traced() {
                    true => (quote!(__k, #memory), quote!(__k, #memory), None),
                    false => {
                        let place = place_at(&name, span);
                        (
                            quote!(&#memory),
                            quote!(&mut #memory),
                            Some(quote!(, #place)),
                        )
                    }
                };
                let stored = match operator {
                    Some(operator) => {
                        let now = quote!(#get(#from, __at #place));
                        self.apply(operator, &now, &quote!(__value))
                    }
                    None => quote!(__value),
                };
                quote_spanned!(span=> {
                    let __value = #value;
                    let __at = #at;
                    let __stored = #stored;
                    #set(#to, __at, __stored #place);
                })
            }
        }
    }

    /// Rewrites an atomic operation, `bins[i].fetch_add(value)`. `None` for another method of the name: `load`, `store` and
    /// `swap` are those of an atomic only if the element is in memory that has atomics.
    pub(super) fn atomic(&mut self, it: &ExprMethodCall) -> Option<TokenStream> {
        let name = it.method.to_string();
        let (_, wanted) = ATOMICS.iter().find(|(atomic, _)| *atomic == name)?;
        let is_only_atomic = !matches!(name.as_str(), "load" | "store" | "swap");
        let why = format!(
            "an atomic is an element of a buffer `&[Atomic<T>]` or of a shared array: `bins[i].{name}(..)`"
        );
        let Expr::Index(index) = &*it.receiver else {
            return is_only_atomic.then(|| self.refuse(&it.receiver, why));
        };
        let local = single(&index.expr).and_then(|name| self.scopes.find(name));
        if !matches!(local, Some(Local::Buffer(_, Mode::Atomic) | Local::Shared)) {
            return is_only_atomic.then(|| self.refuse(&it.receiver, why));
        }
        if it.args.len() != *wanted {
            let (given, plural) = (it.args.len(), if *wanted == 1 { "" } else { "s" });
            let why = match name.as_str() {
                "compare_exchange" if given == 4 => {
                    "atomics of kernels are relaxed and return the value before: `x[i].compare_exchange(expected, new)`".to_owned()
                }
                _ if given == wanted + 1 => {
                    format!("atomics of kernels are relaxed: `{name}` takes no ordering")
                }
                _ => format!("`{name}` takes {wanted} argument{plural}, got {given}"),
            };
            return Some(self.refuse(it, why));
        }
        let (span, method) = (it.span(), &it.method);
        let values = it.args.iter().map(|value| self.expression(value));
        let values: Vec<_> = values.collect();
        let Some((Memory::Other(memory, name), at)) = self.memory(index) else {
            return Some(TokenStream::new());
        };
        Some(match self.is_traced() {
            true => {
                quote_spanned!(span=> ::millstream::__kernel::traced::Atomics::#method(#memory, #at #(, #values)*))
            }
            false => {
                let place = place_at(&name, span);
                quote_spanned!(span=> #memory.#method(#at #(, #values)*, #place))
            }
        })
    }

    /// Returns the memory of an element, and its index. Notes how a buffer is used.
    pub(super) fn memory(&mut self, index: &ExprIndex) -> Option<(Memory, TokenStream)> {
        if let Expr::Range(range) = &*index.index {
            let why =
                "kernels have no slices: index the whole buffer, and pass where a part begins";
            self.refuse(range, why);
            return None;
        }
        let base = match &*index.expr {
            Expr::Paren(inner) => &inner.expr,
            base => base,
        };
        let name = single(base);
        let local = name.and_then(|name| self.scopes.find(name));
        let (Some(name), Some(Local::Buffer(number, mode))) = (name, local) else {
            let at = self.expression(&index.index);
            let memory = self.array(base);
            return Some((Memory::Other(memory, quote!(#base).to_string()), at));
        };
        let is_number = self.is_number(&index.index);
        match is_number {
            true => self.uses[number].at_number = true,
            false => self.uses[number].elsewhere = true,
        }
        let is_own = match &self.known {
            Some(known) => !known[number].elsewhere && known[number].at_number,
            None => false,
        };
        if is_own && !self.is_traced() && matches!(mode, Mode::Update | Mode::Whole) {
            let thread = match single(&index.index) {
                Some(number) => quote!(#number),
                None => quote!(__thread),
            };
            return Some((Memory::Own(name.clone(), thread), TokenStream::new()));
        }
        let at = self.expression(&index.index);
        Some((Memory::Other(quote!(#name), name.to_string()), at))
    }

    /// Returns `true` if an index is the number of the thread.
    fn is_number(&self, index: &Expr) -> bool {
        match single(index) {
            Some(name) => self.scopes.find(name) == Some(Local::Number),
            None => self.has_numbers() && is_thread(index),
        }
    }

    /// Returns an array as memory: the place itself of a variable, otherwise the value.
    fn array(&mut self, base: &Expr) -> TokenStream {
        match root(base).and_then(|name| self.scopes.find(name)) {
            Some(Local::Variable | Local::Value | Local::Shared) if is_place(base) => quote!(#base),
            _ if self.is_traced() && matches!(base, Expr::Index(_) | Expr::Field(_)) => {
                self.place(base)
            }
            _ => {
                let value = self.expression(base);
                quote!((#value))
            }
        }
    }
}

/// Returns the place of an access, for messages.
pub(super) fn place_at(name: &str, span: Span) -> TokenStream {
    let line = line_of(span);
    quote_spanned! {span=>
        &::millstream::__kernel::plain::At { name: #name, file: ::core::file!(), line: #line }
    }
}

/// Returns the name that a path of one segment is.
pub(super) fn single(expression: &Expr) -> Option<&Ident> {
    match expression {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident(),
        Expr::Paren(inner) => single(&inner.expr),
        _ => None,
    }
}

/// Returns the name that a place begins with: `p` of `p.position.x`.
pub(super) fn root(place: &Expr) -> Option<&Ident> {
    match place {
        Expr::Field(field) => root(&field.base),
        Expr::Index(index) => root(&index.expr),
        Expr::Paren(inner) => root(&inner.expr),
        other => single(other),
    }
}

/// Returns `true` for a name, and fields of one.
fn is_place(expression: &Expr) -> bool {
    match expression {
        Expr::Field(field) => {
            matches!(field.member, Member::Named(_) | Member::Unnamed(_)) && is_place(&field.base)
        }
        other => single(other).is_some(),
    }
}
