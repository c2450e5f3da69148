//! `let`: of values, positions, the number of the thread, and what is set later.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Local as Let, Pat, PatType};

use super::{Body, Form, is_named, together};
use crate::scope::Local;

impl Body<'_> {
    /// Rewrites `let`.
    pub(super) fn declare(&mut self, local: &Let) -> TokenStream {
        let span = local.span();
        let (pattern, declared) = match &local.pat {
            Pat::Type(PatType { pat, ty, .. }) => (&**pat, Some(&**ty)),
            pattern => (pattern, None),
        };
        let of = declared.map(|of| {
            let of = self.type_of(of);
            quote!(: #of)
        });
        let Some(init) = &local.init else {
            return self.declare_later(pattern, of, span);
        };
        if let Some((_, other)) = &init.diverge {
            return self.refuse(
                other,
                "kernels have no enums, so a pattern always fits: write `let` without `else`",
            );
        }
        // `let i = thread();`
        if let (Pat::Ident(name), true) = (pattern, is_thread(&init.expr))
            && name.mutability.is_none()
            && self.has_numbers()
        {
            self.scopes.bind(&name.ident, Local::Number);
            let name = &name.ident;
            return match self.form {
                Form::Plain => quote_spanned!(span=> let #name = __thread;),
                Form::Traced => quote_spanned!(span=> let #name = __number;),
            };
        }
        if let Some(positions) = self.positions(pattern, &init.expr) {
            return positions;
        }
        if let Expr::Closure(closure) = &*init.expr {
            return self.declare_closure(pattern, closure);
        }
        if let Some(parts) = self.declare_apart(pattern, declared, &init.expr) {
            return parts;
        }
        let value = self.declared(pattern, &init.expr);
        let (bound, mut variables) = self.bind(pattern);
        self.bind_shared(pattern, &init.expr);
        // The elements of a shared array change, and its name never does, with or without `mut`.
        variables.retain(|name| self.scopes.find(name) != Some(Local::Shared));
        // Plain bodies bind as the text does.
        let fresh = self.is_traced().then(|| {
            let variables = variables.iter();
            quote!(#(let #variables = ::millstream::__kernel::traced::Traced::fresh(#variables, __k);)*)
        });
        quote_spanned!(span=> let #bound #of = #value; #fresh)
    }

    /// Rewrites the value of a `let`, whose names shared arrays have.
    fn declared(&mut self, pattern: &Pat, value: &Expr) -> TokenStream {
        match (pattern, value) {
            (Pat::Tuple(names), Expr::Tuple(values)) if names.elems.len() == values.elems.len() => {
                let parts = names.elems.iter().zip(&values.elems);
                let parts: Vec<_> = parts
                    .map(|(pattern, value)| self.declared(pattern, value))
                    .collect();
                quote_spanned!(value.span()=> (#(#parts,)*))
            }
            _ => {
                self.shared_name = together::name_of_shared(pattern, value).cloned();
                self.expression(value)
            }
        }
    }

    /// Rewrites `let [row, column] = position();`, and likewise those of cubes.
    fn positions(&mut self, pattern: &Pat, value: &Expr) -> Option<TokenStream> {
        let Expr::Call(call) = value else {
            return None;
        };
        let all = ["position", "position_in_cube", "cube_position"];
        let function = all.into_iter().find(|name| is_named(&call.func, name))?;
        let span = call.span();
        let in_cube = function != "position";
        let refused = match pattern {
            _ if in_cube && !self.function.works_together() => Some(format!(
                "`{function}` is for threads that work together: {}",
                self.how_to_work_together("[16, 16]")
            )),
            _ if !in_cube && !self.function.is_kernel() => {
                Some("a helper function gets numbers from its caller: pass the position".to_owned())
            }
            Pat::Slice(names) if (1..=3).contains(&names.elems.len()) => {
                let axes = names.elems.len();
                let declared = *self.axes.get_or_insert(axes);
                (declared != axes).then(|| {
                    format!(
                        "the launch has {declared} axes, and the pattern {axes}: name each axis"
                    )
                })
            }
            _ => Some(format!(
                "a position is taken apart, the slowest axis first: `let [row, column] = {function}();`"
            )),
        };
        if let Some(why) = refused {
            return Some(self.refuse(span, why));
        }
        let Pat::Slice(names) = pattern else {
            return None;
        };
        let mut variables = Vec::new();
        let parts = names
            .elems
            .iter()
            .map(|name| self.bind_into(name, &mut variables));
        let parts: Vec<_> = parts.collect();
        if let Some(variable) = variables.first() {
            let why = "a position does not change: copy it, `let mut column = column;`";
            return Some(self.refuse(variable.span(), why));
        }
        let position = self.path(span, function);
        Some(match self.form {
            Form::Plain => quote_spanned!(span=> let [#(#parts),*] = __thread.position();),
            Form::Traced => quote_spanned!(span=> let [#(#parts),*] = #position(__k);),
        })
    }

    /// Rewrites `let x;`, which is set later.
    fn declare_later(&mut self, pattern: &Pat, of: Option<TokenStream>, span: Span) -> TokenStream {
        let Pat::Ident(name) = pattern else {
            return self.refuse(pattern, "a pattern needs a value: `let (a, b) = ..;`");
        };
        let (name, mutability) = (&name.ident, name.mutability);
        self.scopes.bind(name, Local::Variable);
        match self.form {
            Form::Plain => quote_spanned!(span=> let #mutability #name #of;),
            Form::Traced => {
                quote_spanned!(span=> let #name #of = ::millstream::__kernel::traced::Traced::unset(__k);)
            }
        }
    }
}

/// Returns `true` for `thread()`.
pub(super) fn is_thread(expression: &Expr) -> bool {
    matches!(expression, Expr::Call(call) if is_named(&call.func, "thread") && call.args.is_empty())
}
