//! The items for helper functions: a type of the function's name, which has both forms of the body.
//!
//! | function | `plain` | `traced` |
//! | --- | --- | --- |
//! | a helper function | the body | the body |
//! | a helper function of kernels with a cube | an error | the body |
//! | a kernel | the body, unless it has a cube | the body |
//! | a kernel that names its threads | an error | an error |
//!
//! A form that is an error has a bound that nothing fulfils, so rustc shows the message of the bound's trait at the call.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{GenericParam, ReturnType};

use crate::body::Form;
use crate::forms::{Generics, allowed, body, checked, example, lints, quiet, traced, types};
use crate::gate::{self, Gate};
use crate::scope::Use;
use crate::signature::{Function, Mode, ParamKind};

/// Returns the items of a helper function: itself, for Rust, and a type of its name that has both forms.
pub(crate) fn helper(function: &Function) -> syn::Result<TokenStream> {
    let item = &function.item;
    let (name, visibility, span) = (&item.sig.ident, &item.vis, item.sig.span());
    let docs = item.attrs.iter().filter(|it| it.path().is_ident("doc"));
    let docs: Vec<_> = docs.collect();
    let forms = forms(function, &quote!(#name))?;
    let Generics {
        declared,
        bounds,
        arguments,
    } = &Generics::of(function);
    let (allowed, checked) = (allowed(), checked());
    let (params, names) = (plain_params(function), names(function));
    let output = output(function);
    // Rust cannot call what only threads of a cube do.
    let of_rust = match function.works_together() {
        true => quote!(#(#docs)*),
        false => quote_spanned! {span=>
            #(#docs)*
            #allowed
            #[inline]
            #visibility fn #name<#(#declared),*>(#(#params),*) -> #output #bounds {
                #name::plain::<#(#arguments),*>(#(#names),*)
            }

            #[doc(hidden)]
        },
    };
    Ok(quote_spanned! {span=>
        #of_rust
        #[allow(non_camel_case_types, dead_code)]
        #visibility enum #name {}

        #checked
        impl #name {
            #forms
        }
    })
}

/// Returns the forms of a kernel for other kernels, which call it as a helper function, and whether they can.
pub(crate) fn called(function: &Function) -> syn::Result<(Option<TokenStream>, bool)> {
    // A generic kernel is one type for each choice of its parameters, and a call names none: one type has the forms.
    let params = function.item.sig.generics.params.iter();
    let choice = params.map(|param| match param {
        GenericParam::Type(of) => {
            let bounds: Vec<_> = of.bounds.iter().collect();
            gate::chosen(function, &of.ident, &bounds)
        }
        GenericParam::Const(of) if of.ty.to_token_stream().to_string() == "bool" => {
            Some(quote!(true))
        }
        GenericParam::Const(_) => Some(quote!(1)),
        GenericParam::Lifetime(_) => None,
    });
    let Some(choice) = choice.collect::<Option<Vec<_>>>() else {
        return Ok((None, false));
    };
    let name = &function.item.sig.ident;
    let of = quote!(#name<'static #(, #choice)*>);
    let called = function.called();
    let forms = forms(&called, &of);
    let is_callable = forms.is_ok();
    let forms = match forms {
        Ok(forms) => forms,
        // It names its threads, which a helper function does not have: the kernel itself has no other mistake.
        Err(_) => {
            let calls = quote!(::millstream::__kernel::plain::Calls<#of>);
            let plain = refused(&called, &quote!(for<'__b> (): #calls));
            let Generics {
                declared, bounds, ..
            } = &Generics::of(&called);
            let (params, visibility) = (traced_params(&called), &called.item.vis);
            quote! {
                #plain

                #[doc(hidden)]
                #visibility fn traced<'__k #(, #declared)*>(__k: impl #calls, #(#params),*) #bounds {}
            }
        }
    };
    let allowed = allowed();
    let called = quote! {
        #allowed
        impl #of {
            #forms
        }
    };
    Ok((Some(called), is_callable))
}

/// Returns both forms, as functions of a type.
fn forms(function: &Function, of: &TokenStream) -> syn::Result<TokenStream> {
    let visibility = &function.item.vis;
    let known = vec![Use::default(); function.buffers().count()];
    let traced = traced(function, &known)?;
    let Generics {
        declared,
        bounds,
        arguments,
    } = &Generics::of(function);
    let (names, traced_params) = (names(function), traced_params(function));
    let output_traced = output_traced(function);
    let quiet = quiet();
    let traced_of = |body: TokenStream| {
        quote! {
            #[doc(hidden)]
            #visibility fn traced<'__k #(, #declared)*>(
                __k: ::millstream::__kernel::traced::Tracer<'__k>,
                #(#traced_params),*
            ) -> #output_traced #bounds #body
        }
    };
    if function.works_together() {
        let bound = quote!(for<'__b> #of: ::millstream::__kernel::plain::InCube);
        let (plain, traced) = (refused(function, &bound), traced_of(traced));
        let lints = lints(function);
        return Ok(quote!(#quiet #plain #lints #traced));
    }
    let (params, output) = (plain_params(function), output(function));
    let (plain, _) = body(function, Form::Plain, &known)?;
    let gate = Gate {
        name: &format_ident!("__plain"),
        path: quote!(<#of>::__plain),
        types: function.params.iter().map(example).collect(),
        lints: lints(function),
        changed: function.changed().collect(),
    };
    let inner = gate.plain([declared, &params], &output, bounds, &plain);
    let constant = gate.constant(&format_ident!("__PLAIN"), function);
    let traced = traced_of(gate::traced(&quote!({ <#of>::__PLAIN }), &names, &traced));
    Ok(quote! {
        #[doc(hidden)]
        #quiet
        #[inline(always)]
        #visibility fn plain<#(#declared),*>(#(#params),*) -> #output #bounds {
            Self::__plain::<#(#arguments),*>(#(#names),*).0
        }

        #inner
        #constant
        #quiet
        #traced
    })
}

/// Returns a plain form whose call is an error, by a bound.
fn refused(function: &Function, bound: &TokenStream) -> TokenStream {
    let visibility = &function.item.vis;
    let Generics {
        declared, bounds, ..
    } = &Generics::of(function);
    // `where` is there without bounds, too.
    let bounds = match bounds.clone().into_iter().count() {
        ..=1 => quote!(where #bound),
        _ => quote!(#bounds, #bound),
    };
    let (params, output) = (plain_params(function), output(function));
    quote! {
        #[doc(hidden)]
        #visibility fn plain<#(#declared),*>(#(#params),*) -> #output #bounds {
            ::core::unreachable!()
        }
    }
}

fn names(function: &Function) -> Vec<&syn::Ident> {
    function.params.iter().map(|param| &param.name).collect()
}

fn output(function: &Function) -> TokenStream {
    match &function.item.sig.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, of) => quote!(#of),
    }
}

fn output_traced(function: &Function) -> TokenStream {
    let generic_types: Vec<_> = function.generic_types().collect();
    match &function.item.sig.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, of) => types(of, &generic_types),
    }
}

fn plain_params(function: &Function) -> Vec<TokenStream> {
    let params = function.params.iter().map(|param| {
        let name = &param.name;
        match &param.kind {
            ParamKind::Value(of) => quote!(#name: #of),
            ParamKind::Buffer(of, Mode::Read) => {
                quote!(#name: &(impl ::millstream::__kernel::plain::Get<Element = #of> + ?Sized))
            }
            ParamKind::Buffer(of, Mode::Atomic) => {
                quote!(#name: &::millstream::__kernel::plain::Atomics<'_, #of>)
            }
            ParamKind::Buffer(of, _) => {
                quote!(#name: &mut (impl ::millstream::__kernel::plain::Set<Element = #of> + ?Sized))
            }
        }
    });
    params.collect()
}

fn traced_params(function: &Function) -> Vec<TokenStream> {
    let generic_types: Vec<_> = function.generic_types().collect();
    let params = function.params.iter().map(|param| {
        let name = &param.name;
        match &param.kind {
            ParamKind::Value(of) => {
                let of = types(of, &generic_types);
                quote!(#name: #of)
            }
            ParamKind::Buffer(of, Mode::Atomic) => {
                quote!(#name: impl ::millstream::__kernel::traced::Atomics<'__k, Element = #of>)
            }
            ParamKind::Buffer(of, Mode::Read) => {
                quote!(#name: impl ::millstream::__kernel::traced::Memory<'__k, Element = #of>)
            }
            ParamKind::Buffer(of, _) => {
                quote!(#name: impl ::millstream::__kernel::traced::MemoryMut<'__k, Element = #of>)
            }
        }
    });
    params.collect()
}
