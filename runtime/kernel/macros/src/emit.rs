//! The items that the macro writes.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ItemFn;
use syn::spanned::Spanned;

use crate::body::{Body, Form};
use crate::forms::{Generics, allowed, body, checked, lints, quiet, use_lints, written};
use crate::gate::{self, Gate};
use crate::helper::{self, called};
use crate::scope::Use;
use crate::signature::{Function, Mode, ParamKind};

/// Returns what the macro writes for a function, with the tokens of the attribute.
pub(crate) fn of_function(attribute: TokenStream, item: ItemFn) -> syn::Result<TokenStream> {
    let function = Function::parse(attribute, item)?;
    self::function(&function).or_else(|error| {
        // The items without the body, so that one mistake is not an error of each call as well.
        let rest = self::function(&function.without_body())?;
        let error = error.to_compile_error();
        Ok(quote!(#error #rest))
    })
}

/// Returns the items of a function.
fn function(function: &Function) -> syn::Result<TokenStream> {
    match function.is_kernel() {
        true => kernel(function),
        false => helper::helper(function),
    }
}

/// Returns the items of a kernel: a struct of its arguments, a function that makes one, and its definition.
fn kernel(function: &Function) -> syn::Result<TokenStream> {
    let signature = &function.item.sig;
    let (name, visibility) = (&signature.ident, &function.item.vis);
    let docs = function
        .item
        .attrs
        .iter()
        .filter(|it| it.path().is_ident("doc"));
    let docs: Vec<_> = docs.collect();
    let mut first = Body::new(function, Form::Plain, None);
    first.rewrite()?;
    let (uses, axes) = (first.uses, first.axes.unwrap_or(1));
    let (mut traced, _) = body(function, Form::Traced, &uses)?;
    if function.cube.is_none() {
        let names: Vec<_> = function.params.iter().map(|param| &param.name).collect();
        traced = gate::traced(&quote!(__PLAIN), &names, &traced);
    }
    let (checked, quiet) = (checked(), quiet());

    let generics = Generics::of(function);
    let Generics {
        declared,
        arguments,
        bounds,
    } = &generics;
    let names: Vec<_> = function.params.iter().map(|param| &param.name).collect();
    let types = function.params.iter().map(|param| match &param.kind {
        ParamKind::Value(of) => quote!(#of),
        ParamKind::Buffer(of, Mode::Read | Mode::Atomic) => {
            quote_spanned!(of.span()=> &'a ::millstream::Handle<#of>)
        }
        ParamKind::Buffer(of, _) => quote_spanned!(of.span()=> &'a mut ::millstream::Handle<#of>),
    });
    let types: Vec<_> = types.collect();
    let definition = definition(function, &generics, &traced, axes);
    let of_threads = match axes {
        1 => quote!(usize),
        axes => quote!([usize; #axes]),
    };
    let plain = match function.cube {
        Some(_) => None,
        None => Some(plain(function, &generics, &uses, axes)?),
    };
    // Other devices need no other form, and rustc computes constants of generic items late.
    let checked_threads = match (&function.cube, generics.declared.is_empty()) {
        (Some(_), true) => Some(quote! {
            const _: [u32; 3] = <#name<'static> as ::millstream::__kernel::call::Definition>::THREADS;
        }),
        _ => None,
    };
    let (called, is_callable) = called(function)?;
    // rustc warns of a kernel that is never used, unless others may call it as a helper function.
    let constructor = match is_callable {
        true => allowed(),
        false => written(),
    };
    let native = match function.cube {
        Some(_) => quote!(::core::option::Option::None),
        None => quote!(::core::option::Option::Some(
            ::millstream::__kernel::call::native::<Self::Key>()
        )),
    };
    // What changes by atomic operations has no element for each thread, such as the bins of a histogram.
    let mut buffers = function.buffers();
    let changed = buffers.find(|(_, _, mode)| !matches!(mode, Mode::Read | Mode::Atomic));
    let each = changed.filter(|_| axes == 1).map(|(buffer, ..)| {
        let doc =
            format!("Launches `{name}` with a thread for each element of `{buffer}` on a stream.");
        quote! {
            #[doc = #doc]
            ///
            /// # Errors
            /// Those of [`Self::launch`].
            #[inline]
            pub fn launch_each(
                self,
                stream: &::millstream::Stream,
            ) -> ::core::result::Result<(), ::millstream::Error> {
                let threads = self.#buffer.len();
                self.launch(stream, threads)
            }
        }
    });
    let along = match axes {
        1 => "",
        _ => ", along each axis, the slowest first,",
    };
    let threads = format!("Launches `{name}` with this number of threads{along} on a stream.");
    let records =
        format!("Adds a launch of `{name}` with this number of threads{along} to a recording.");
    let use_lints = use_lints(function);
    // rustc does not warn of what a macro wrote.
    let span = signature.ident.span().resolved_at(signature.fn_token.span);
    let constructs = quote_spanned! {span=>
        #visibility fn #name<'a #(, #declared)*>(#(#names: #types),*) -> #name<'a #(, #arguments)*> #bounds {
            #name { #(#names,)* __of: ::core::marker::PhantomData }
        }
    };
    Ok(quote! {
        #(#docs)*
        #[allow(non_camel_case_types, dead_code)]
        #[must_use = "a kernel runs when it is launched: `.launch(&stream, threads)`"]
        #visibility struct #name<'a #(, #declared)*> #bounds {
            #(#names: #types,)*
            __of: ::core::marker::PhantomData<&'a ()>,
        }

        #(#docs)*
        #constructor
        #use_lints
        #constructs

        #checked
        const _: () = {
            #quiet
            impl<'a #(, #declared)*> #name<'a #(, #arguments)*> #bounds {
                #[doc = #threads]
                /// Compiles the kernel for the device the first time. May block while there is no room for the task, unless
                /// the stream is a [`nowait`](::millstream::Stream::nowait).
                ///
                /// # Errors
                /// Those of [`Stream::launch`](::millstream::Stream::launch), and of
                /// [`ComputeClient::kernel`](::millstream::ComputeClient::kernel).
                #[inline]
                pub fn launch(
                    self,
                    stream: &::millstream::Stream,
                    threads: #of_threads,
                ) -> ::core::result::Result<(), ::millstream::Error> {
                    ::millstream::__kernel::call::launch(&self, stream, threads.into())
                }

                #each

                /// Compiles the kernel for the stream's device, if that has not been done. The first launch does it
                /// otherwise: call this if that launch must not take the time.
                ///
                /// # Errors
                /// Those of [`ComputeClient::kernel`](::millstream::ComputeClient::kernel).
                pub fn prepare(
                    stream: &::millstream::Stream,
                ) -> ::core::result::Result<::millstream::KernelHandle, ::millstream::Error> {
                    ::millstream::__kernel::call::prepare::<Self>(stream)
                }

                #[doc = #records]
                ///
                /// # Errors
                /// Those of [`Recorder::launch`](::millstream::Recorder::launch), and of
                /// [`ComputeClient::kernel`](::millstream::ComputeClient::kernel).
                pub fn record(
                    self,
                    recorder: &mut ::millstream::Recorder<'_>,
                    threads: #of_threads,
                ) -> ::core::result::Result<(), ::millstream::Error> {
                    ::millstream::__kernel::call::record(&self, recorder, threads.into())
                }
            }

            impl<'a #(, #declared)*> ::millstream::__kernel::call::Definition for #name<'a #(, #arguments)*> #bounds {
                #definition
                #quiet
                fn native() -> ::core::option::Option<::millstream::__kernel::call::Native> {
                    #native
                }
            }

            #plain
            #checked_threads
            #called
        };
    })
}

/// Returns the definition of a kernel, up to its native form.
fn definition(
    function: &Function,
    generics: &Generics,
    traced: &TokenStream,
    axes: usize,
) -> TokenStream {
    let name = &function.item.sig.ident;
    let text = name.to_string();
    let arguments = &generics.arguments;
    let threads = match (&function.cube, axes) {
        (Some(cube), _) => {
            let axes = cube.iter().rev().map(|axis| quote!((#axis) as u64));
            let axes = axes.chain(std::iter::repeat(quote!(1))).take(3);
            quote!(::millstream::__kernel::call::cube([#(#axes),*]))
        }
        (None, 1) => quote!([256, 1, 1]),
        (None, _) => quote!([32, 8, 1]),
    };
    let (checked, contract) = (!function.unchecked, function.contract);
    let quiet = quiet();
    // The plain form has the same variables.
    let lints = match function.cube {
        Some(_) => lints(function),
        None => quiet.clone(),
    };
    let types: Vec<_> = function.scalars().map(|(_, of)| of).collect();
    let others = function.buffers().count() + axes;
    let parameter = quote!(::millstream::__kernel::call::Parameter);
    let buffers = function.buffers().map(|(name, of, mode)| {
        let text = name.to_string();
        let mode = match mode {
            Mode::Read => return quote!(let #name = __k.buffer::<#of>(#text);),
            Mode::Whole => quote!(Write),
            Mode::Update => quote!(Update),
            Mode::Atomic => return quote!(let #name = __k.atomics::<#of>(#text);),
        };
        quote!(let #name = __k.buffer_mut::<#of>(#text, ::millstream::ir::nest::BufferMode::#mode);)
    });
    let scalars = function.scalars().map(|(name, of)| {
        let text = name.to_string();
        quote!(let #name = __k.scalar::<#of>(#text);)
    });
    let lengths = function
        .buffers()
        .map(|(name, ..)| quote!(__k.length(#name);));
    // Threads that work together run in whole cubes. Of others exactly as many run as the launch says.
    let body = match function.cube {
        Some(_) => quote!(let _: () = #traced;),
        None => quote!(::millstream::__kernel::traced::when(__k, __runs, || #traced);),
    };
    let written = function.buffers().map(|(name, _, mode)| match mode {
        Mode::Read => quote!(::millstream::read(self.#name)),
        Mode::Whole => quote!(::millstream::write(&*self.#name)),
        Mode::Update => quote!(::millstream::update(&*self.#name)),
        Mode::Atomic => quote!(::millstream::update(self.#name)),
    });
    let names = function.scalars().map(|(name, _)| name);
    let lens = function
        .buffers()
        .map(|(name, ..)| quote!(::millstream::__kernel::call::length(self.#name)));
    let counts = (0..axes).map(|axis| quote!(__threads.along(#axis)));
    let others_of = lens.chain(counts);
    quote! {
        type Key = #name<'static #(, #arguments)*>;
        const NAME: &'static str = #text;
        const FILE: &'static str = ::core::file!();
        const THREADS: [u32; 3] = #threads;
        const CHECKED: bool = #checked;
        const CONTRACT: bool = #contract;
        const AXES: usize = #axes;
        const SCALARS: usize = #(<#types as #parameter>::SCALARS +)* #others;

        #lints
        fn trace(__k: ::millstream::__kernel::traced::Tracer<'_>) {
            #(#buffers)*
            #(#scalars)*
            #(#lengths)*
            let ::millstream::__kernel::traced::Numbers { threads: __threads, number: __number, runs: __runs } =
                __k.numbers::<#axes>();
            #body
        }

        #quiet
        #[inline(always)]
        fn write<'h>(
            &'h self,
            __threads: ::millstream::__kernel::call::Threads,
            __writer: &mut ::millstream::kernel::ArgumentWriter<'_, 'h>,
        ) -> ::core::result::Result<(), ::std::boxed::Box<::millstream::Error>> {
            #(::millstream::Argument::write(&#written, __writer)?;)*
            ::millstream::__kernel::call::write_words::<Self>(__writer, |__words| {
                let mut __at = 0;
                #(
                    #parameter::put(self.#names, __words, __at);
                    __at += <#types as #parameter>::SCALARS;
                )*
                #(
                    __words[__at] = #others_of;
                    __at += 1;
                )*
            })
        }
    }
}

/// Returns the plain form of a kernel.
fn plain(
    function: &Function,
    generics: &Generics,
    uses: &[Use],
    axes: usize,
) -> syn::Result<TokenStream> {
    let (body, _) = body(function, Form::Plain, uses)?;
    // For messages of assertions.
    let body = quote!({ const __AXES: usize = #axes; #body });
    let name = &function.item.sig.ident;
    let Generics {
        declared,
        arguments,
        bounds,
    } = generics;
    let buffers: Vec<_> = function.buffers().zip(uses).collect();
    let views = pairs(buffers.iter().map(|((_, of, mode), it)| {
        let view = match (mode, it.elsewhere, it.at_number) {
            (Mode::Read, _, true) => quote!(Along<'a, #of>),
            (Mode::Read, _, false) => quote!(In<'a, #of>),
            (Mode::Update, false, true) => quote!(Own<'a, #of, false>),
            (Mode::Update, ..) => quote!(Shared<'a, #of, false>),
            (Mode::Whole, false, true) => quote!(Own<'a, #of, true>),
            (Mode::Whole, ..) => quote!(Shared<'a, #of, true>),
            (Mode::Atomic, ..) => quote!(Atomics<'a, #of>),
        };
        quote_spanned!(of.span()=> ::millstream::__kernel::plain::#view)
    }));
    let names = pairs(buffers.iter().map(|((name, ..), _)| quote!(#name)));
    let scalar_types: Vec<_> = function.scalars().map(|(_, of)| of).collect();
    let scalar_names: Vec<_> = function.scalars().map(|(name, _)| name).collect();
    let parameter = quote!(::millstream::__kernel::call::Parameter);
    let indices = (0..scalar_types.len()).map(|index| {
        let before = &scalar_types[..index];
        quote!(0 #(+ <#before as #parameter>::SCALARS)*)
    });
    let this = quote!(<#name<'static #(, #arguments)*> as ::millstream::__kernel::plain::Body>);
    let (thread, scalars, of_views) = (
        quote!(::millstream::__kernel::plain::Thread<'_>),
        quote!(#this::Scalars),
        quote!(#this::Views<'_>),
    );
    let gate = Gate {
        name: &format_ident!("__plain"),
        path: quote!(__plain),
        types: vec![thread.clone(), scalars.clone(), of_views.clone()],
        lints: lints(function),
        changed: function.changed().collect(),
    };
    let params = [
        quote!(__thread: #thread),
        quote!((#(#scalar_names,)*): #scalars),
        quote!(#names: #of_views),
    ];
    let body = gate.plain([declared, &params], &quote!(()), bounds, &body);
    let constant = gate.constant(&format_ident!("__PLAIN"), function);
    let quiet = quiet();
    Ok(quote! {
        #body
        #constant

        #quiet
        impl<#(#declared),*> ::millstream::__kernel::plain::Body for #name<'static #(, #arguments)*> #bounds {
            type Views<'a> = #views;
            type Scalars = (#(#scalar_types,)*);

            fn scalars(__arguments: &::millstream::NativeArgs<'_>) -> Self::Scalars {
                (#(<#scalar_types as #parameter>::of(__arguments, #indices),)*)
            }

            #[inline(always)]
            fn thread(
                __thread: ::millstream::__kernel::plain::Thread<'_>,
                __scalars: Self::Scalars,
                __views: Self::Views<'_>,
            ) {
                __plain::<#(#arguments),*>(__thread, __scalars, __views);
            }
        }
    })
}

/// Returns nested pairs of the items: `(a, (b, ()))`.
fn pairs(items: impl DoubleEndedIterator<Item = TokenStream>) -> TokenStream {
    items
        .rev()
        .fold(quote!(()), |rest, item| quote!((#item, #rest)))
}
