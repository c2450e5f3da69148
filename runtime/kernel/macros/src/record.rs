//! Structs of numbers, and their methods: each has a twin whose fields are traced.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Error, Fields, ImplItem, ItemFn, ItemImpl, ItemStruct, Path, Result, ReturnType, Type};

use crate::body::Form;
use crate::emit::{allowed, body, traced, types};
use crate::scope::Use;
use crate::signature::{Function, ParamKind, refuse_type};

/// Returns the path of a struct's twin.
fn twin(of: &Path) -> Path {
    let mut twin = of.clone();
    if let Some(last) = twin.segments.last_mut() {
        last.ident = format_ident!("__{}", last.ident);
    }
    twin
}

/// Returns a struct and its twin.
pub(crate) fn of_struct(item: &ItemStruct) -> Result<TokenStream> {
    if let Some(param) = item.generics.params.first() {
        let why = "a struct of kernels has no generic parameters: name the types of its fields";
        return Err(Error::new(param.span(), why));
    }
    let Fields::Named(fields) = &item.fields else {
        let why = "a struct of kernels has named fields; use a tuple for fields without names";
        return Err(Error::new(item.ident.span(), why));
    };
    if fields.named.is_empty() {
        let why = "a struct of kernels has at least one field";
        return Err(Error::new(item.ident.span(), why));
    }
    fields
        .named
        .iter()
        .try_for_each(|field| refuse_type(&field.ty))?;
    let (name, visibility) = (&item.ident, &item.vis);
    let twin = format_ident!("__{name}");
    let names: Vec<_> = fields.named.iter().map(|field| &field.ident).collect();
    let visible: Vec<_> = fields.named.iter().map(|field| &field.vis).collect();
    let traced: Vec<_> = fields
        .named
        .iter()
        .map(|field| types(&field.ty, &[]))
        .collect();
    let allowed = allowed();
    Ok(quote! {
        #item

        #[doc(hidden)]
        #[derive(Clone, Copy)]
        #allowed
        #visibility struct #twin<'__k> {
            #(#visible #names: #traced,)*
        }

        #allowed
        const _: () = {
            use ::millstream::__kernel::traced::{Kind, Traced, Tracer};

            impl Kind for #name {
                type Of<'__k> = #twin<'__k>;
            }

            impl<'__k> Traced<'__k> for #twin<'__k> {
                fn unset(__k: Tracer<'__k>) -> Self {
                    Self { #(#names: Traced::unset(__k),)* }
                }

                fn load(self) -> Self {
                    Self { #(#names: Traced::load(self.#names),)* }
                }

                fn assign(self, value: Self) {
                    let value = Traced::load(value);
                    #(Traced::assign(self.#names, value.#names);)*
                }
            }
        };
    })
}

/// Returns the methods of a struct, and those of its twin.
pub(crate) fn of_impl(item: &ItemImpl) -> Result<TokenStream> {
    if let Some(of) = &item.trait_ {
        let why = "kernels have the methods of structs, not of traits: write `impl Type`";
        return Err(Error::new(of.1.span(), why));
    }
    let Type::Path(of) = &*item.self_ty else {
        let why = "methods are of a struct with `#[kernel]`";
        return Err(Error::new(item.self_ty.span(), why));
    };
    let twin = twin(&of.path);
    let (mut plain, mut traced, mut errors) = (Vec::new(), Vec::new(), TokenStream::new());
    for member in &item.items {
        match member {
            ImplItem::Fn(method) => {
                let function = Function::parse_method(ItemFn {
                    attrs: method.attrs.clone(),
                    vis: method.vis.clone(),
                    sig: method.sig.clone(),
                    block: Box::new(method.block.clone()),
                    modifiers: Default::default(),
                })?;
                let (mine, of_twin) = method_of(&function).or_else(|error| {
                    errors.extend(error.to_compile_error());
                    method_of(&function.without_body())
                })?;
                plain.push(mine);
                traced.push(of_twin);
            }
            // A constant is one in both.
            ImplItem::Const(constant) => plain.push(quote!(#constant)),
            other => {
                let why = "an `impl` of kernels has methods and constants";
                return Err(Error::new(other.span(), why));
            }
        }
    }
    let allowed = allowed();
    Ok(quote! {
        #errors
        #allowed
        impl #of {
            #(#plain)*
        }

        #allowed
        #[doc(hidden)]
        impl<'__k> #twin<'__k> {
            #(#traced)*
        }
    })
}

/// Returns a method, and the twin's.
fn method_of(function: &Function) -> Result<(TokenStream, TokenStream)> {
    let signature = &function.item.sig;
    if let Some(param) = signature.generics.params.first() {
        let why = "a method of kernels has no generic parameters: make it a helper function";
        return Err(Error::new(param.span(), why));
    }
    let (name, visibility) = (&signature.ident, &function.item.vis);
    let docs: Vec<_> = function.item.attrs.iter().collect();
    let known: Vec<Use> = Vec::new();
    let (plain, _) = body(function, Form::Plain, &known)?;
    let traced = traced(function, &known)?;
    let output = &signature.output;
    let output_traced = match output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, of) => types(of, &[]),
    };
    let (mut receiver, mut mine, mut of_twin) = (None, Vec::new(), Vec::new());
    for param in &function.params {
        let name = &param.name;
        match &param.kind {
            ParamKind::Value(_) if name == "self" => receiver = Some(quote!(self,)),
            ParamKind::Value(of) => {
                let traced = types(of, &[]);
                mine.push(quote!(#name: #of));
                of_twin.push(quote!(#name: #traced));
            }
            ParamKind::Buffer(..) => {
                let why = "a method of kernels takes no buffers: make it a helper function";
                return Err(Error::new(name.span(), why));
            }
        }
    }
    let plain = quote! {
        #(#docs)*
        #[inline]
        #visibility fn #name(#receiver #(#mine),*) #output #plain
    };
    let traced = quote! {
        #visibility fn #name(
            #receiver
            __k: ::millstream::__kernel::traced::Tracer<'__k>,
            #(#of_twin),*
        ) -> #output_traced #traced
    };
    Ok((plain, traced))
}
