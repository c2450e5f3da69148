//! What all items have in common that the macro writes for functions: both bodies, generic parameters and types.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, GenericParam, Ident, Type};

use crate::body::{Body, Form};
use crate::scope::Use;
use crate::signature::{Function, Mode, Param, ParamKind};

/// The lints that the written code is exempt from.
pub(crate) fn allowed() -> TokenStream {
    quote!(#[allow(clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction, unreachable_pub, unused)])
}

/// As [`allowed`], but for what rustc says of unused items.
pub(crate) fn written() -> TokenStream {
    quote!(#[allow(clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction, unreachable_pub)])
}

/// As [`allowed`], around the form of a body whose variables rustc checks: the plain one, the traced one if there is no other.
/// In it all that the macro writes itself has [`quiet`] or a name with `_`.
pub(crate) fn checked() -> TokenStream {
    quote!(#[allow(
        clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction, unreachable_pub, dead_code, path_statements,
        redundant_semicolons, unreachable_code, unused_braces, unused_imports, unused_labels, unused_must_use, unused_parens
    )])
}

/// The lints of variables, for what the macro writes.
pub(crate) fn quiet() -> TokenStream {
    quote!(#[allow(unused)])
}

/// Returns the attributes of a function about lints, for the form of its body that rustc checks.
pub(crate) fn lints(function: &Function) -> TokenStream {
    if function.is_broken {
        return quiet();
    }
    let attributes = levels(function).filter(|it| !names_dead_code(it));
    quote!(#(#attributes)*)
}

/// Returns the attributes of a function about its use, for what rustc warns of if it is never used.
pub(crate) fn use_lints(function: &Function) -> TokenStream {
    let attributes = levels(function).filter(|it| names_dead_code(it));
    quote!(#(#attributes)*)
}

/// Returns the attributes of a function that set the level of a lint.
fn levels(function: &Function) -> impl Iterator<Item = &Attribute> {
    let levels = ["allow", "deny", "expect", "warn"];
    let attributes = function.item.attrs.iter();
    attributes.filter(move |it| levels.iter().any(|level| it.path().is_ident(level)))
}

fn names_dead_code(attribute: &Attribute) -> bool {
    attribute
        .to_token_stream()
        .to_string()
        .contains("dead_code")
}

/// Returns the traced body of a helper function or a method.
pub(crate) fn traced(function: &Function, known: &[Use]) -> syn::Result<TokenStream> {
    let (traced, returns) = body(function, Form::Traced, known)?;
    let name = function.item.sig.ident.to_string();
    let traced = match returns {
        true => quote!(::millstream::__kernel::traced::call(__k, |__exit| #traced)),
        false => traced,
    };
    Ok(quote!({ ::millstream::__kernel::traced::helper(__k, #name, |__k| #traced) }))
}

/// The generic parameters of a function in the forms that items need.
pub(crate) struct Generics {
    /// Declared: `T: Number, const N: usize`.
    pub(crate) declared: Vec<TokenStream>,
    /// As arguments: `T, N`.
    pub(crate) arguments: Vec<TokenStream>,
    /// The `where` clause, with what buffers need.
    pub(crate) bounds: TokenStream,
}

impl Generics {
    pub(crate) fn of(function: &Function) -> Self {
        let params = &function.item.sig.generics.params;
        let declared = params.iter().map(|param| quote!(#param)).collect();
        let arguments = params.iter().map(|param| match param {
            GenericParam::Type(of) => of.ident.to_token_stream(),
            GenericParam::Const(of) => of.ident.to_token_stream(),
            GenericParam::Lifetime(of) => of.to_token_stream(),
        });
        let arguments = arguments.collect();
        let written = function.item.sig.generics.where_clause.iter();
        let written = written
            .flat_map(|clause| clause.predicates.iter())
            .map(|it| quote!(#it));
        let elements = function.generic_types().filter(|name| {
            function
                .buffers()
                .any(|(_, of, _)| quote!(#of).to_string() == name.to_string())
        });
        let elements = elements.map(|name| quote!(#name: ::millstream::Element));
        let scalars = function.generic_types().filter(|name| {
            function
                .scalars()
                .any(|(_, of)| quote!(#of).to_string() == name.to_string())
        });
        let scalars = scalars.map(|name| quote!(#name: ::millstream::__kernel::call::Parameter));
        let all: Vec<_> = written.chain(elements).chain(scalars).collect();
        let bounds = quote!(where #(#all),*);
        Self {
            declared,
            arguments,
            bounds,
        }
    }
}

/// Returns the body in one form, and whether it has `return`.
pub(crate) fn body(
    function: &Function,
    form: Form,
    known: &[Use],
) -> syn::Result<(TokenStream, bool)> {
    let mut body = Body::new(function, form, Some(known.to_vec()));
    let tokens = body.rewrite()?;
    Ok((tokens, body.returns))
}

/// Returns a type that a parameter of the plain form may have.
pub(crate) fn example(param: &Param) -> TokenStream {
    match &param.kind {
        ParamKind::Value(of) => quote!(#of),
        ParamKind::Buffer(of, Mode::Read) => quote!(&::millstream::__kernel::plain::In<'_, #of>),
        ParamKind::Buffer(of, Mode::Atomic) => {
            quote!(&::millstream::__kernel::plain::Atomics<'_, #of>)
        }
        ParamKind::Buffer(of, _) => {
            quote!(&mut ::millstream::__kernel::plain::Shared<'_, #of, false>)
        }
    }
}

/// Returns a type of a parameter or result as a traced body has it. Generic types are numbers.
pub(crate) fn types(of: &Type, generics: &[&Ident]) -> TokenStream {
    match of {
        Type::Tuple(tuple) => {
            let parts = tuple.elems.iter().map(|part| types(part, generics));
            quote!((#(#parts,)*))
        }
        Type::Array(array) => {
            let (element, len) = (&array.elem, &array.len);
            quote!(::millstream::__kernel::traced::Array<'__k, #element, { #len }>)
        }
        Type::Paren(inner) => types(&inner.elem, generics),
        Type::Group(inner) => types(&inner.elem, generics),
        Type::Path(path) if path.path.segments[0].ident == "Self" => quote!(#of),
        Type::Path(path) if generics.iter().any(|name| path.path.is_ident(*name)) => {
            quote!(::millstream::__kernel::traced::V<'__k, #of>)
        }
        other => quote!(::millstream::__kernel::traced::Of<'__k, #other>),
    }
}
