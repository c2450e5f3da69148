//! Closures that have a name and are called by it: `let square = |x: f32| x * x;`. They stay closures of Rust in both forms, so
//! a call traces the body once more.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Expr, ExprCall, ExprClosure, Ident, Pat};

use super::{Body, Form};
use crate::scope::Local;

impl Body<'_> {
    /// Rewrites `let name = |a, b| ..;`.
    pub(super) fn declare_closure(&mut self, pattern: &Pat, it: &ExprClosure) -> TokenStream {
        let span = it.span();
        let Pat::Ident(name) = pattern else {
            return self.refuse(
                pattern,
                "a closure of a kernel has a name: `let square = |x: f32| x * x;`",
            );
        };
        if let Some(token) = &it.capture {
            return self.refuse(
                token,
                "a closure of a kernel uses the variables themselves: remove `move`, and copy what must not change",
            );
        }
        self.scopes.open();
        let (mut params, mut typed, mut variables) = (Vec::new(), Vec::new(), Vec::new());
        for input in &it.inputs {
            let (pattern, of) = match input {
                Pat::Type(input) => (&*input.pat, Some(&*input.ty)),
                pattern => (pattern, None),
            };
            if !is_simple(pattern) {
                let why = "a parameter of a closure is a name or a tuple: take other values apart in the body";
                return self.refuse(pattern, why);
            }
            let bound = self.bind_into(pattern, &mut variables);
            let of = of.map(|of| self.type_of(of));
            match (self.form, of) {
                (Form::Plain, Some(of)) => params.push(quote_spanned!(span=> #bound: #of)),
                // A type of a parameter would have a lifetime of its own.
                (Form::Traced, Some(_)) if matches!(pattern, Pat::Wild(_)) => params.push(bound),
                (Form::Traced, Some(of)) => {
                    typed.push(quote_spanned!(span=> let #bound: #of = #bound;));
                    params.push(bound);
                }
                (_, None) => params.push(bound),
            }
        }
        let (loops, outer) = (std::mem::take(&mut self.loops), self.in_closure);
        self.in_closure = true;
        let body = self.expression(&it.body);
        (self.loops, self.in_closure) = (loops, outer);
        self.scopes.close();
        self.scopes.bind(&name.ident, Local::Closure);
        let (mutability, ident, output) = (name.mutability, &name.ident, &it.output);
        match self.form {
            Form::Plain => {
                let body = match output {
                    syn::ReturnType::Default => body,
                    syn::ReturnType::Type(..) => quote_spanned!(span=> { #body }),
                };
                quote_spanned!(span=> #[allow(unused_mut)] let #mutability #ident = |#(#params),*| #output #body;)
            }
            Form::Traced => quote_spanned!(span=> let #ident = |#(#params),*| {
                #(#typed)*
                #(let #variables = ::millstream::__kernel::traced::Traced::fresh(#variables, __k);)*
                #body
            };),
        }
    }

    /// Rewrites a call of a closure by its name.
    pub(super) fn call_closure(&mut self, it: &ExprCall, name: &Ident) -> TokenStream {
        let arguments = self.arguments(&it.args);
        quote_spanned!(it.span()=> #name(#(#arguments),*))
    }

    /// Refuses a jump out of a closure. Returns `true` for one.
    pub(super) fn leaves_closure(&mut self, it: &Expr, span: Span) -> bool {
        let leaves = match it {
            Expr::Return(_) => self.in_closure,
            _ => self.in_closure && self.loops.is_empty(),
        };
        if leaves {
            self.refuse(span, "a closure of a kernel has its value at its end: write a helper function with `#[kernel]`");
        }
        leaves
    }
}

/// Returns `true` for a pattern of names and tuples, also of such.
fn is_simple(pattern: &Pat) -> bool {
    match pattern {
        Pat::Ident(_) | Pat::Wild(_) => true,
        Pat::Tuple(tuple) => tuple.elems.iter().all(is_simple),
        Pat::Paren(inner) => is_simple(&inner.pat),
        _ => false,
    }
}
