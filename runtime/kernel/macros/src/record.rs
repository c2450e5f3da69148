//! Structs of numbers, and their methods: each has a twin whose fields are traced.

use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::{
    Attribute, Error, Fields, GenericArgument, Ident, ImplItem, ImplItemFn, ItemFn, ItemImpl,
    ItemStruct, Path, PathArguments, Result, ReturnType, Type,
};

use crate::body::Form;
use crate::forms::{allowed, body, checked, traced, types};
use crate::scope::Use;
use crate::signature::{Function, ParamKind};
use crate::types::refuse_type;

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
        return Err(Error::new_spanned(param, why));
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
    let of: Vec<_> = fields.named.iter().map(|field| &field.ty).collect();
    let texts = names
        .iter()
        .map(|name| name.as_ref().map(ToString::to_string));
    let texts: Vec<_> = texts.collect();
    let allowed = allowed();
    let stored = has_layout(item).then(|| stored(item, &of));
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
            // By names that neither structs nor their twins have.
            use ::millstream::__kernel::call::Parameter as __kernel_Parameter;
            use ::millstream::__kernel::traced::{
                Inside as __kernel_Inside, Kind as __kernel_Kind, Traced as __kernel_Traced, Tracer as __kernel_Tracer, Words as __kernel_Words,
            };
            use ::millstream::__kernel::{DType as __kernel_DType, NativeArgs as __kernel_NativeArgs};

            impl __kernel_Kind for #name {
                type Of<'__k> = #twin<'__k>;
                const WORD: __kernel_DType = __kernel_DType::common(&[#(<#of as __kernel_Kind>::WORD),*]);
                const BYTES: usize = 0 #(+ <#of as __kernel_Kind>::BYTES)*;

                fn element<'__k>(__k: __kernel_Tracer<'__k>, __words: __kernel_Words<'__k>) -> #twin<'__k> {
                    let mut __bytes = 0;
                    #(
                        let #names = <#of as __kernel_Kind>::element(__k, __words.behind(__bytes));
                        __bytes += <#of as __kernel_Kind>::BYTES;
                    )*
                    #twin { #(#names),* }
                }

                fn parameter<'__k>(__k: __kernel_Tracer<'__k>, __name: &str) -> #twin<'__k> {
                    #twin {
                        #(#names: <#of as __kernel_Kind>::parameter(__k, &::std::format!("{__name}_{}", #texts)),)*
                    }
                }

                fn constant(self, __k: __kernel_Tracer<'_>) -> #twin<'_> {
                    #twin { #(#names: <#of as __kernel_Kind>::constant(self.#names, __k),)* }
                }

                fn each_number(&self, __each: &mut dyn FnMut(u64, __kernel_DType)) {
                    #(<#of as __kernel_Kind>::each_number(&self.#names, __each);)*
                }
            }

            impl<'__k> __kernel_Inside<'__k> for #twin<'__k> {
                type Kind = #name;
            }

            impl __kernel_Parameter for #name {
                const SCALARS: usize = 0 #(+ <#of as __kernel_Parameter>::SCALARS)*;

                #[inline(always)]
                fn put(self, __words: &mut [u64], mut __at: usize) {
                    #(
                        <#of as __kernel_Parameter>::put(self.#names, __words, __at);
                        __at += <#of as __kernel_Parameter>::SCALARS;
                    )*
                }

                #[inline(always)]
                fn of(__arguments: &__kernel_NativeArgs<'_>, mut __at: usize) -> Self {
                    #(
                        let #names = <#of as __kernel_Parameter>::of(__arguments, __at);
                        __at += <#of as __kernel_Parameter>::SCALARS;
                    )*
                    #name { #(#names),* }
                }
            }

            impl<'__k> __kernel_Traced<'__k> for #twin<'__k> {
                fn unset(__k: __kernel_Tracer<'__k>) -> Self {
                    Self { #(#names: __kernel_Traced::unset(__k),)* }
                }

                fn load(self) -> Self {
                    Self { #(#names: __kernel_Traced::load(self.#names),)* }
                }

                fn assign(self, value: Self) {
                    #(__kernel_Traced::assign(self.#names, value.#names);)*
                }
            }

            #stored
        };
    })
}

/// Returns `true` for a struct with `#[repr(C)]`, whose elements a buffer may have.
fn has_layout(item: &ItemStruct) -> bool {
    has(&item.attrs, "repr", "C")
}

/// Returns `true` if an attribute has an argument of this name: `#[derive(.., bytemuck::Pod)]`.
fn has(attributes: &[Attribute], attribute: &str, argument: &str) -> bool {
    let mut found = false;
    for it in attributes.iter().filter(|it| it.path().is_ident(attribute)) {
        // Whether the arguments are right is for rustc to say.
        let _ = it.parse_nested_meta(|meta| {
            found |= meta
                .path
                .segments
                .last()
                .is_some_and(|last| last.ident == argument);
            Ok(())
        });
    }
    found
}

/// Returns what makes a struct the element of buffers.
fn stored(item: &ItemStruct, of: &[&Type]) -> TokenStream {
    let name = &item.ident;
    let padded = format!(
        "`{name}` has padding, which buffers do not have: order its fields by size, the largest first, and add fields that fill it up"
    );
    // A struct that derives it has been checked by bytemuck.
    let pod = (!has(&item.attrs, "derive", "Pod")).then(|| {
        quote! {
            // SAFETY: the struct is `repr(C)`, all bits are a value of each field (`Stored` is `Pod`), and the constant below
            // finds padding.
            unsafe impl ::millstream::__kernel::bytemuck::Zeroable for #name {}
            // SAFETY: as above.
            unsafe impl ::millstream::__kernel::bytemuck::Pod for #name {}
        }
    });
    let empty = format!("`{name}` has no bytes: an element of a buffer has at least one number");
    quote! {
        #pod

        impl ::millstream::__kernel::Stored for #name {
            const WORD: ::millstream::__kernel::DType = ::millstream::__kernel::DType::common(&[#(<#of as ::millstream::__kernel::Stored>::WORD),*]);
        }

        const _: () = ::core::assert!(
            ::core::mem::size_of::<#name>() == 0 #(+ ::core::mem::size_of::<#of>())*,
            #padded
        );
        const _: () = ::core::assert!(::core::mem::size_of::<#name>() > 0, #empty);
    }
}

/// The traits of operators: that of Rust, that of `plain` and `traced`, and the functions of both.
const OPERATORS: &[(&str, &str, &str, &str)] = &[
    ("Add", "add", "Plus", "plus"),
    ("Sub", "sub", "Minus", "minus"),
    ("Mul", "mul", "Times", "times"),
    ("Div", "div", "Over", "over"),
    ("Rem", "rem", "Remainder", "remainder"),
    ("Neg", "neg", "Negated", "negated"),
];

/// Returns a type as the twin has it: a struct's twin, or a traced number.
fn twin_of(of: &Type) -> Result<TokenStream> {
    let Type::Path(path) = of else {
        let why = "operators are of structs with `#[kernel]` and numbers";
        return Err(Error::new_spanned(of, why));
    };
    let name = path.path.segments.last().map(|last| last.ident.to_string());
    let is_number = name.is_some_and(|name| !name.starts_with(char::is_uppercase));
    Ok(match is_number {
        true => quote!(::millstream::__kernel::traced::V<'__k, #path>),
        false => {
            let twin = twin(&path.path);
            quote!(#twin<'__k>)
        }
    })
}

/// Returns the methods of a struct, or an operator, and those of its twin.
pub(crate) fn of_impl(item: &ItemImpl) -> Result<TokenStream> {
    if let Some(of) = &item.trait_ {
        return of_operator(item, &of.0);
    }
    let of = &item.self_ty;
    let twin = twin_of(of)?;
    let (mut plain, mut traced, mut errors) = (Vec::new(), Vec::new(), TokenStream::new());
    for member in &item.items {
        match member {
            ImplItem::Fn(method) => {
                let function = function_of(method)?;
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
                return Err(Error::new_spanned(other, why));
            }
        }
    }
    let (allowed, checked) = (allowed(), checked());
    Ok(quote! {
        #errors
        #checked
        impl #of {
            #(#plain)*
        }

        #allowed
        #[doc(hidden)]
        impl<'__k> #twin {
            #(#traced)*
        }
    })
}

/// Returns an operator of a struct, for Rust and for kernels.
fn of_operator(item: &ItemImpl, name: &Path) -> Result<TokenStream> {
    let last = name.segments.last();
    let found = OPERATORS
        .iter()
        .find(|(of, ..)| last.is_some_and(|last| last.ident == of));
    let Some((rust, function, own, own_function)) = found else {
        let why = "kernels have the operators `Add`, `Sub`, `Mul`, `Div`, `Rem` and `Neg` of traits: make others methods, `impl Type`";
        return Err(Error::new_spanned(name, why));
    };
    let names = [rust, function, own, own_function].map(|name| format_ident!("{name}"));
    let [rust, function, own, own_function] = names;
    let of = &item.self_ty;
    let twin = twin_of(of)?;
    let mut output = None;
    let mut method = None;
    for member in &item.items {
        match member {
            ImplItem::Fn(it) => method = Some(function_of(it)?),
            ImplItem::Type(it) => output = Some(&it.ty),
            other => {
                return Err(Error::new_spanned(
                    other,
                    "an operator has a type and a function",
                ));
            }
        }
    }
    let (Some(method), Some(output)) = (method, output) else {
        let why = "an operator has its `type Output` and its function";
        return Err(Error::new_spanned(item, why));
    };
    let other = match last.map(|last| &last.arguments) {
        Some(PathArguments::AngleBracketed(arguments)) => arguments.args.first(),
        _ => None,
    };
    let other = match other {
        Some(GenericArgument::Type(of)) => of.clone(),
        _ => (**of).clone(),
    };
    let traced_output = match output {
        Type::Path(path) if path.path.is_ident("Self") => twin.clone(),
        output => twin_of(output)?,
    };
    let (mine, of_twin) = method_of(&method)?;
    // The twin's has the name of the trait's function.
    let of_twin = renamed(of_twin, &function, &own_function);
    let (arguments, traced_arguments, parameter, passed) = match rust == "Neg" {
        true => (None, quote!(<'__k>), None, None),
        false => {
            let traced = twin_of(&other)?;
            (
                Some(quote!(<#other>)),
                quote!(<'__k, #traced>),
                Some(quote!(, other: #other)),
                Some(quote!(, other)),
            )
        }
    };
    let (allowed, checked) = (allowed(), checked());
    Ok(quote! {
        #checked
        impl #name for #of {
            type Output = #output;
            #mine
        }

        #allowed
        const _: () = {
            impl ::millstream::__kernel::plain::#own #arguments for #of {
                type Output = #output;

                #[inline(always)]
                fn #own_function(self #parameter) -> #output {
                    ::core::ops::#rust::#function(self #passed)
                }
            }

            impl<'__k> ::millstream::__kernel::traced::#own #traced_arguments for #twin {
                type Output = #traced_output;
                #of_twin
            }
        };
    })
}

/// Replaces the name of a function in its tokens.
fn renamed(tokens: TokenStream, from: &Ident, to: &Ident) -> TokenStream {
    let mut is_name = false;
    let tokens = tokens.into_iter().map(|token| match token {
        TokenTree::Ident(it) if is_name && it == *from => {
            is_name = false;
            TokenTree::Ident(to.clone())
        }
        token => {
            is_name = matches!(&token, TokenTree::Ident(it) if it == "fn");
            token
        }
    });
    tokens.collect()
}

/// Returns a method as a function.
fn function_of(method: &ImplItemFn) -> Result<Function> {
    Function::parse_method(ItemFn {
        attrs: method.attrs.clone(),
        vis: method.vis.clone(),
        sig: method.sig.clone(),
        block: Box::new(method.block.clone()),
        modifiers: Default::default(),
    })
}

/// Returns a method, and the twin's.
fn method_of(function: &Function) -> Result<(TokenStream, TokenStream)> {
    let signature = &function.item.sig;
    if let Some(param) = signature.generics.params.first() {
        let why = "a method of kernels has no generic parameters: make it a helper function";
        return Err(Error::new_spanned(param, why));
    }
    let (name, visibility) = (&signature.ident, &function.item.vis);
    let docs: Vec<_> = function.item.attrs.iter().collect();
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
                return Err(Error::new_spanned(name, why));
            }
        }
    }
    let known: Vec<Use> = Vec::new();
    let (plain, _) = body(function, Form::Plain, &known)?;
    let traced = traced(function, &known)?;
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
