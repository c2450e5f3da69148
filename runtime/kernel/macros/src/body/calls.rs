//! Calls: of methods of numbers and structs, of functions that kernels have, and of helper functions.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, ExprCall, ExprMethodCall, Ident, Path, PathArguments, Token};

use super::memory::single;
use super::{Body, Form};
use crate::names::{COMPOSED, METHODS};
use crate::refused;
use crate::scope::Local;
use crate::signature::Mode;

/// A list of arguments.
type Arguments = Punctuated<Expr, Token![,]>;

impl Body<'_> {
    /// Rewrites a method of a number or a buffer.
    pub(super) fn method(&mut self, it: &ExprMethodCall) -> TokenStream {
        let span = it.span();
        let (name, given) = (it.method.to_string(), it.args.len());
        if let Some(turbofish) = &it.turbofish {
            return self.refuse(turbofish, "methods of kernels have no type arguments");
        }
        if name == "len" && given == 0 {
            return self.length(&it.receiver);
        }
        if let Some(short) = self.short_method(it) {
            return short;
        }
        if let Some(atomic) = self.atomic(it) {
            return atomic;
        }
        if name == "clamp" && given == 2 {
            let (min, max) = (self.path(span, "min"), self.path(span, "max"));
            let value = self.expression(&it.receiver);
            let (low, high) = (self.expression(&it.args[0]), self.expression(&it.args[1]));
            return quote_spanned!(span=> #min(#max(#value, #low), #high));
        }
        if name == "is_nan" && given == 0 {
            let (ne, value) = (self.path(span, "ne"), self.expression(&it.receiver));
            return quote_spanned!(span=> { let __value = #value; #ne(__value, __value) });
        }
        let composed = COMPOSED.iter().find(|(method, _)| *method == name);
        let method = METHODS.iter().find(|(method, ..)| *method == name);
        let Some((function, wanted)) = composed
            .map(|(name, wanted)| (name, wanted))
            .or(method.map(|(_, function, wanted)| (function, wanted)))
        else {
            return match refused::method(&name) {
                Some(why) => self.refuse(&it.method, why),
                None => self.own_method(it),
            };
        };
        let receiver = self.expression(&it.receiver);
        // What is wrong with the receiver may be why.
        if given != *wanted && self.errors.is_some() {
            return TokenStream::new();
        }
        if given != *wanted {
            let plural = if *wanted == 1 { "" } else { "s" };
            let why = format!("`{name}` takes {wanted} argument{plural}, got {given}");
            return self.refuse(it, why);
        }
        let function = self.path(it.method.span(), function);
        let arguments = self.arguments(&it.args);
        let k = (composed.is_some() && self.is_traced()).then(|| quote!(__k,));
        quote_spanned!(span=> #function(#k #receiver #(, #arguments)*))
    }

    /// Rewrites `x.len()`.
    fn length(&mut self, of: &Expr) -> TokenStream {
        let (span, len) = (of.span(), self.path(of.span(), "len"));
        if let Expr::Path(path) = of
            && single(of).is_none_or(|name| self.scopes.find(name).is_none())
        {
            let constant = self.constant(path);
            return match self.form {
                Form::Plain => quote_spanned!(span=> #len(&#constant)),
                Form::Traced => quote_spanned!(span=> #len(__k, #constant)),
            };
        }
        // A buffer or a shared array is no value.
        let of = match (single(of), self.form) {
            (Some(name), _) => quote!(#name),
            (None, Form::Plain) => self.expression(of),
            (None, Form::Traced) => self.place(of),
        };
        match self.form {
            Form::Plain => quote_spanned!(span=> #len(&#of)),
            Form::Traced => quote_spanned!(span=> #len(__k, #of)),
        }
    }

    pub(super) fn arguments(&mut self, arguments: &Arguments) -> Vec<TokenStream> {
        arguments
            .iter()
            .map(|argument| self.expression(argument))
            .collect()
    }

    /// Rewrites a call: of a function that kernels have, or of a helper function.
    pub(super) fn call(&mut self, it: &ExprCall) -> TokenStream {
        let span = it.span();
        let Expr::Path(path) = &*it.func else {
            let why = "a kernel calls a function or a closure by its name";
            return self.refuse(&it.func, why);
        };
        let name = path.path.get_ident().map(ToString::to_string);
        let last = path.path.segments.last().map(|last| last.ident.to_string());
        if let Some(name) = path.path.get_ident()
            && self.scopes.find(name) == Some(Local::Closure)
        {
            return self.call_closure(it, name);
        }
        if let Some(short) = self.of_number(it).or_else(|| self.swap(it)) {
            return short;
        }
        match name.as_deref() {
            Some("thread") if it.args.is_empty() => return self.thread(span),
            Some("threads") if it.args.is_empty() => {
                if !self.function.is_kernel() {
                    return self.refuse(
                        it,
                        "a helper function gets numbers from its caller: pass `threads()`",
                    );
                }
                return match self.form {
                    Form::Plain => quote_spanned!(span=> __thread.threads()),
                    Form::Traced => quote_spanned!(span=> __threads),
                };
            }
            Some("position" | "position_in_cube" | "cube_position") => {
                let why = "a position is taken apart, the slowest axis first: `let [row, column] = position();`";
                return self.refuse(span, why);
            }
            _ => {}
        }
        let of_itself = match self.function.is_method {
            true => is_path(
                &path.path,
                &["Self", &self.function.item.sig.ident.to_string()],
            ),
            false => path.path.is_ident(&self.function.item.sig.ident),
        };
        if of_itself {
            return self.refuse(path, RECURSION);
        }
        if let Some(why) = refused::function(&path.path) {
            return self.refuse(path, why);
        }
        let alone = (path.path.segments.len() == 1).then_some(last).flatten();
        let of_cubes = alone.and_then(|name| self.together(it, &path.path, &name));
        of_cubes.unwrap_or_else(|| self.helper(it, &path.path))
    }

    fn thread(&mut self, span: Span) -> TokenStream {
        if !self.function.is_kernel() {
            let why = "a helper function gets numbers from its caller: pass `thread()`";
            return self.refuse(span, why);
        }
        match self.form {
            Form::Plain => quote_spanned!(span=> __thread.number()),
            Form::Traced => quote_spanned!(span=> __number),
        }
    }

    /// Rewrites a method of a struct.
    fn own_method(&mut self, it: &ExprMethodCall) -> TokenStream {
        let (span, name) = (it.span(), &it.method);
        let is_own = single(&it.receiver).is_some_and(|receiver| receiver == "self");
        if is_own && *name == self.function.item.sig.ident {
            return self.refuse(name, RECURSION);
        }
        let receiver = self.expression(&it.receiver);
        let arguments = self.arguments(&it.args);
        match self.form {
            Form::Plain => quote_spanned!(span=> #receiver.#name(#(#arguments),*)),
            Form::Traced => quote_spanned!(span=> #receiver.#name(__k, #(#arguments),*)),
        }
    }

    /// Rewrites a call of an associated function: `Vector::new(a, b)`.
    fn associated(&mut self, it: &ExprCall, path: &Path) -> TokenStream {
        let span = it.span();
        let arguments = self.arguments(&it.args);
        if self.form == Form::Plain {
            return quote_spanned!(span=> #path(#(#arguments),*));
        }
        let mut of = path.clone();
        let name = of.segments.pop();
        of.segments.pop_punct();
        match of.is_ident("Self") {
            true => quote_spanned!(span=> Self::#name(__k, #(#arguments),*)),
            false => {
                quote_spanned!(span=> <::millstream::__kernel::traced::Of<'_, #of>>::#name(__k, #(#arguments),*))
            }
        }
    }

    /// Rewrites a call of a helper function.
    fn helper(&mut self, it: &ExprCall, path: &Path) -> TokenStream {
        let span = it.span();
        let owner = path.segments.iter().rev().nth(1);
        let is_type =
            owner.is_some_and(|owner| owner.ident.to_string().starts_with(char::is_uppercase));
        if is_type {
            return self.associated(it, path);
        }
        let mut path = path.clone();
        let generics = path
            .segments
            .last_mut()
            .map(|last| std::mem::take(&mut last.arguments));
        let generics = match generics {
            Some(PathArguments::AngleBracketed(arguments)) => {
                let arguments = arguments.args;
                Some(quote!(::<#arguments>))
            }
            _ => None,
        };
        let arguments: Vec<_> = it
            .args
            .iter()
            .map(|argument| self.passed(argument))
            .collect();
        // rustc shows this name at a function that has no forms.
        let callee = Ident::new(NO_HELPER, path.span());
        let call = match self.form {
            Form::Plain => quote_spanned!(span=> #callee::plain #generics(#(#arguments),*)),
            Form::Traced => quote_spanned!(span=> #callee::traced #generics(__k, #(#arguments),*)),
        };
        quote_spanned!(path.span()=> {
            #[allow(unused_imports)]
            use #path as #callee;
            #call
        })
    }

    /// Rewrites an argument of a helper function: a value, or a buffer.
    fn passed(&mut self, argument: &Expr) -> TokenStream {
        let inner = match argument {
            Expr::Reference(reference) => &reference.expr,
            other => other,
        };
        let local = single(inner).and_then(|name| self.scopes.find(name));
        match (local, self.form) {
            (Some(Local::Buffer(number, mode)), form) => {
                self.uses[number].elsewhere = true;
                match (form, mode) {
                    (Form::Traced, _) => quote!(#inner),
                    (Form::Plain, Mode::Read | Mode::Atomic) => quote!(&#inner),
                    (Form::Plain, _) => quote!(&mut #inner),
                }
            }
            (Some(Local::Shared), _) => quote!(#inner),
            _ => self.expression(argument),
        }
    }
}

/// The name of a helper function in a call.
const NO_HELPER: &str = "this_function_needs_the_attribute_kernel";

/// Why a function does not call itself.
const RECURSION: &str =
    "kernels have no recursion: write a loop, and keep what is left to do in an array";

/// Returns `true` for a path of these names.
fn is_path(path: &Path, names: &[&str]) -> bool {
    let segments = path
        .segments
        .iter()
        .map(|segment| segment.ident.to_string());
    segments.eq(names.iter().copied())
}
