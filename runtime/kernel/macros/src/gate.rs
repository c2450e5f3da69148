//! One mistake is one error: rustc checks the plain and the traced form of a body, and would show a wrong type twice.
//!
//! The plain form is a function `-> (Output, impl Sized)`, and the second part is `()`. If rustc finds an error in the
//! function, it does not know this type, so a constant that has its size cannot be computed. The types of the tracer and
//! the parameters in the traced form depend on the constant (`[(); CONSTANT]`), and rustc shows no errors about types that
//! it does not know. Methods do without: the type of `self` cannot depend on a constant.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{GenericParam, Ident, Type, TypeParamBound, WherePredicate};

use crate::signature::Function;

/// A plain form, and what makes the traced one depend on it.
pub(crate) struct Gate<'a> {
    /// The name of the function that is the plain form.
    pub(crate) name: &'a Ident,
    /// The path of the function, without generic arguments.
    pub(crate) path: TokenStream,
    /// The types of its parameters, with the generic parameters of the body.
    pub(crate) types: Vec<TokenStream>,
    /// The attributes about lints.
    pub(crate) lints: TokenStream,
    /// The parameters that accesses take `&mut` of.
    pub(crate) changed: Vec<&'a Ident>,
}

impl Gate<'_> {
    /// Returns the plain form.
    pub(crate) fn plain(
        &self,
        [declared, params]: [&[TokenStream]; 2],
        output: &TokenStream,
        bounds: &TokenStream,
        body: &TokenStream,
    ) -> TokenStream {
        let Self {
            name,
            lints,
            changed,
            ..
        } = self;
        quote! {
            #lints
            #[inline(always)]
            fn #name<#(#declared),*>(#(#params),*) -> (#output, impl ::core::marker::Sized) #bounds {
                #(
                    #[allow(unused_mut)]
                    let mut #changed = #changed;
                )*
                let __value: #output = #body;
                (__value, ())
            }
        }
    }

    /// Returns the constant, of this name: the size of the plain form's second part for one choice of its generic arguments.
    pub(crate) fn constant(&self, name: &Ident, function: &Function) -> TokenStream {
        let (path, types) = (&self.path, &self.types);
        let size = generics(function).map(|(choice, arguments)| {
            let names: Vec<_> = (0..types.len())
                .map(|index| format_ident!("__{index}"))
                .collect();
            quote!({
                #choice
                ::millstream::__kernel::traced::size_of_output(
                    &|(#(#names,)*): (#(#types,)*)| #path::<#(#arguments),*>(#(#names),*).1
                )
            })
        });
        let size = size.unwrap_or_else(|| quote!(0));
        quote!(const #name: usize = #size;)
    }
}

/// Returns a traced body in which the types of the tracer and of these parameters depend on a constant.
pub(crate) fn traced(constant: &TokenStream, params: &[&Ident], body: &TokenStream) -> TokenStream {
    quote!({
        let (__k, #(#params,)*) =
            <[(); #constant] as ::millstream::__kernel::traced::Gate>::open((__k, #(#params,)*));
        #body
    })
}

/// Returns a choice for the generic parameters of a function: items that define them, and their names. `None` if the
/// macro knows no type that has the bounds.
fn generics(function: &Function) -> Option<(TokenStream, Vec<TokenStream>)> {
    let (mut choice, mut arguments) = (TokenStream::new(), Vec::new());
    for param in &function.item.sig.generics.params {
        match param {
            GenericParam::Type(of) => {
                let name = &of.ident;
                let chosen = chosen(function, name, &of.bounds.iter().collect::<Vec<_>>())?;
                choice.extend(quote!(type #name = #chosen;));
                arguments.push(quote!(#name));
            }
            GenericParam::Const(of) => {
                let (name, of) = (&of.ident, &of.ty);
                let value = match quote!(#of).to_string().as_str() {
                    "bool" => quote!(true),
                    _ => quote!(1),
                };
                choice.extend(quote!(const #name: #of = #value;));
                arguments.push(quote!(#name));
            }
            GenericParam::Lifetime(_) => return None,
        }
    }
    Some((choice, arguments))
}

/// Returns a type with the bounds of a parameter.
pub(crate) fn chosen(
    function: &Function,
    name: &Ident,
    bounds: &[&TypeParamBound],
) -> Option<TokenStream> {
    let clause = function.item.sig.generics.where_clause.iter();
    let predicates = clause.flat_map(|clause| &clause.predicates);
    let of_name = predicates.filter_map(|predicate| match predicate {
        WherePredicate::Type(of) => match &of.bounded_ty {
            Type::Path(path) if path.path.is_ident(name) => Some(&of.bounds),
            _ => None,
        },
        _ => None,
    });
    let mut is_int = false;
    for bound in of_name.flatten().chain(bounds.iter().copied()) {
        let TypeParamBound::Trait(of) = bound else {
            return None;
        };
        match of.path.segments.last()?.ident.to_string().as_str() {
            "Int" => is_int = true,
            "Number" | "Float" | "Copy" | "PartialOrd" => {}
            _ => return None,
        }
    }
    Some(if is_int { quote!(i32) } else { quote!(f32) })
}
