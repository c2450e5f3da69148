//! Functions of threads that work together: of a cube, or of a subgroup of it.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ExprCall, GenericArgument, Ident, Pat, Path, PathArguments};

use super::{Body, is_named};
use crate::names::{OF_CUBES, OF_SUBGROUPS};
use crate::scope::Local;

impl Body<'_> {
    /// Rewrites a call of a function of this name, if it is one of threads that work together.
    pub(super) fn together(
        &mut self,
        it: &ExprCall,
        path: &Path,
        name: &str,
    ) -> Option<TokenStream> {
        let arguments_of = |names: &[(&str, usize)]| {
            let found = names.iter().find(|(known, _)| *known == name);
            found.map(|(_, wanted)| *wanted)
        };
        let (of_cube, of_subgroup) = (arguments_of(OF_CUBES), arguments_of(OF_SUBGROUPS));
        let wanted = match name {
            "shared" => 0,
            _ => of_cube.or(of_subgroup)?,
        };
        if !self.function.works_together() {
            let why = format!(
                "`{name}` is for threads that work together: {}",
                self.how_to_work_together("256")
            );
            return Some(self.refuse(it, why));
        }
        if it.args.len() != wanted {
            let plural = if wanted == 1 { "" } else { "s" };
            let why = format!(
                "`{name}` takes {wanted} argument{plural}, got {}",
                it.args.len()
            );
            return Some(self.refuse(it, why));
        }
        let generics = match &path.segments[0].arguments {
            PathArguments::AngleBracketed(generics) => generics.args.iter().collect(),
            _ => Vec::new(),
        };
        if name == "shared" {
            return Some(self.shared(it, &generics));
        }
        let (span, function) = (it.span(), self.path(it.func.span(), name));
        let width = match (of_subgroup, generics.as_slice()) {
            (Some(_), [width]) => Some(quote!(, #width)),
            (None, []) => None,
            (Some(_), _) => {
                let example = ["", "x", "x, n"][wanted];
                let why = format!(
                    "`{name}` has the number of threads of a subgroup: `{name}::<32>({example})`"
                );
                return Some(self.refuse(it, why));
            }
            (None, _) => {
                let why = format!("`{name}` has no type arguments");
                return Some(self.refuse(&it.func, why));
            }
        };
        let arguments = self.arguments(&it.args);
        Some(quote_spanned!(span=> #function(__k #width #(, #arguments)*)))
    }

    /// Returns how the function becomes one of threads that work together.
    pub(super) fn how_to_work_together(&self, cube: &str) -> String {
        match (self.function.is_method, self.function.is_kernel()) {
            (true, _) => {
                "methods have none; write a helper function with `#[kernel(in_cube)]`".to_owned()
            }
            (_, true) => format!(
                "declare their number, `#[kernel(cube = {cube})]`; for a helper function write `#[kernel(in_cube)]`"
            ),
            (_, false) => {
                "write `#[kernel(in_cube)]` for a helper function of kernels with a cube".to_owned()
            }
        }
    }

    /// Rewrites `shared::<T, N>()`. The length is an argument, so it may be an expression of generic constants.
    fn shared(&mut self, it: &ExprCall, generics: &[&GenericArgument]) -> TokenStream {
        let [of, len] = generics else {
            let why = "a shared array has a type and a number of elements: `shared::<f32, 256>()`";
            return self.refuse(it, why);
        };
        // The elements of every shared array may be changed by atomic operations.
        let of = of_atomic(of).unwrap_or(of);
        let (span, shared) = (it.span(), self.path(it.func.span(), "shared"));
        let name = self.shared_name.take();
        let name = name.map_or_else(|| "shared".to_owned(), |name| name.to_string());
        quote_spanned!(span=> #shared::<#of>(__k, #name, #len))
    }

    /// Binds the names of arrays that the threads of a cube share.
    pub(super) fn bind_shared(&mut self, pattern: &Pat, value: &syn::Expr) {
        match (pattern, value) {
            (Pat::Tuple(names), syn::Expr::Tuple(values)) => {
                let parts = names.elems.iter().zip(&values.elems);
                parts.for_each(|(pattern, value)| self.bind_shared(pattern, value));
            }
            _ => {
                if let Some(name) = name_of_shared(pattern, value) {
                    self.scopes.bind(name, Local::Shared);
                }
            }
        }
    }
}

/// Returns the `T` of `Atomic<T>`.
fn of_atomic(of: &GenericArgument) -> Option<&GenericArgument> {
    let GenericArgument::Type(syn::Type::Path(path)) = of else {
        return None;
    };
    let atomic = path
        .path
        .segments
        .last()
        .filter(|it| it.ident == "Atomic")?;
    match &atomic.arguments {
        PathArguments::AngleBracketed(generics) => generics.args.first(),
        _ => None,
    }
}

/// Returns the name that a pattern gives to a shared array.
pub(super) fn name_of_shared<'a>(pattern: &'a Pat, value: &syn::Expr) -> Option<&'a Ident> {
    match (pattern, value) {
        (Pat::Ident(name), syn::Expr::Call(call)) if is_named(&call.func, "shared") => {
            Some(&name.ident)
        }
        _ => None,
    }
}
