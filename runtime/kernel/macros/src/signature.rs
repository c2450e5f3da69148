//! The parameters of a kernel, and the options of the attribute.

use proc_macro2::{Span, TokenStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, FnArg, GenericArgument, GenericParam, Ident, ItemFn, Lit, Pat,
    PathArguments, Result, ReturnType, Stmt, Type,
};

use crate::types::refuse_type;
use crate::{attributes, generics};

/// A function with the attribute.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) item: ItemFn,
    pub(crate) params: Vec<Param>,
    /// The threads of a cube along each axis, the slowest first, if the attribute declares that they work together.
    pub(crate) cube: Option<Vec<Expr>>,
    /// Whether it is a helper function of kernels with a cube.
    pub(crate) in_cube: bool,
    /// Whether accesses are unchecked on GPUs.
    pub(crate) unchecked: bool,
    /// Whether devices may contract.
    pub(crate) contract: bool,
    /// Whether it is a method or an associated function of a struct.
    pub(crate) is_method: bool,
    /// Whether this kernel is written as the helper function that other kernels call.
    is_called: bool,
    /// Whether its body is wrong, and is replaced by one that is not.
    pub(crate) is_broken: bool,
}

/// A parameter.
#[derive(Clone)]
pub(crate) struct Param {
    pub(crate) name: Ident,
    pub(crate) kind: ParamKind,
}

/// What a parameter is.
#[derive(Clone)]
pub(crate) enum ParamKind {
    /// A value.
    Value(Type),
    /// A buffer with elements of this type.
    Buffer(Type, Mode),
}

/// How a kernel accesses a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `&[T]`.
    Read,
    /// `&mut [T]`.
    Update,
    /// `#[whole] &mut [T]`: the launch stores each element and loads none.
    Whole,
    /// `&[Atomic<T>]`.
    Atomic,
}

impl Function {
    /// Reads a function, with the tokens of the attribute.
    pub(crate) fn parse(attribute: TokenStream, item: ItemFn) -> Result<Self> {
        Self::read(attribute, item, false)
    }

    /// Reads a method of a struct.
    pub(crate) fn parse_method(item: ItemFn) -> Result<Self> {
        Self::read(TokenStream::new(), item, true)
    }

    fn read(attribute: TokenStream, mut item: ItemFn, is_method: bool) -> Result<Self> {
        let (mut cube, mut in_cube, mut unchecked, mut contract) = (None, false, false, false);
        let options = syn::meta::parser(|meta| {
            if meta.path.is_ident("cube") {
                cube = Some(cube_of(meta.value()?.parse::<Expr>()?)?);
                return Ok(());
            }
            if meta.path.is_ident("in_cube") {
                in_cube = true;
                return Ok(());
            }
            if meta.path.is_ident("contract") {
                contract = true;
                return Ok(());
            }
            if meta.path.is_ident("unsafe") {
                return meta.parse_nested_meta(|inner| {
                    unchecked = inner.path.is_ident("unchecked");
                    match unchecked {
                        true => Ok(()),
                        false => Err(inner.error("expected `unsafe(unchecked)`")),
                    }
                });
            }
            Err(meta.error(
                "a kernel has the options `cube = 256`, `contract` and `unsafe(unchecked)`, a helper function `in_cube`",
            ))
        });
        let span = attribute.span();
        syn::parse::Parser::parse2(options, attribute)?;
        if in_cube && (cube.is_some() || unchecked || contract) {
            let why = "a helper function has the cube, the checks and the roundings of the kernel that calls it: write `#[kernel(in_cube)]`";
            return Err(Error::new(span, why));
        }
        refuse(&mut item)?;
        let params = item.sig.inputs.iter_mut();
        let params = params.map(|argument| Param::parse(argument, is_method));
        let (params, copies): (Vec<_>, Vec<_>) =
            params.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        item.block.stmts.splice(..0, copies.into_iter().flatten());
        let function = Self {
            item,
            params,
            cube,
            in_cube,
            unchecked,
            contract,
            is_method,
            is_called: false,
            is_broken: false,
        };
        if contract && !function.is_kernel() {
            let why = "a helper function has the roundings of the kernel that calls it: remove `contract`";
            return Err(Error::new(span, why));
        }
        Ok(function)
    }

    /// Returns the function with another body, which no thread reaches.
    pub(crate) fn without_body(self) -> Self {
        Self {
            is_broken: true,
            ..self
        }
    }

    /// Returns the kernel as the helper function that other kernels call.
    pub(crate) fn called(&self) -> Self {
        Self {
            is_called: true,
            ..self.clone()
        }
    }

    /// Returns whether its threads work together.
    pub(crate) fn works_together(&self) -> bool {
        self.in_cube || self.cube.is_some()
    }

    /// Returns `true` for a kernel, `false` for a helper function of kernels.
    pub(crate) fn is_kernel(&self) -> bool {
        matches!(self.item.sig.output, ReturnType::Default)
            && !(self.is_method || self.in_cube || self.is_called)
            && self
                .params
                .iter()
                .any(|param| matches!(param.kind, ParamKind::Buffer(..)))
    }

    /// Returns the buffers, with their types and modes.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = (&Ident, &Type, Mode)> {
        self.params.iter().filter_map(|param| match &param.kind {
            ParamKind::Buffer(of, mode) => Some((&param.name, of, *mode)),
            ParamKind::Value(_) => None,
        })
    }

    /// Returns the names of the buffers that the function stores to.
    pub(crate) fn changed(&self) -> impl Iterator<Item = &Ident> {
        let changed = |mode| matches!(mode, Mode::Update | Mode::Whole);
        self.buffers()
            .filter(move |(_, _, mode)| changed(*mode))
            .map(|(name, ..)| name)
    }

    /// Returns the scalars, with their types.
    pub(crate) fn scalars(&self) -> impl Iterator<Item = (&Ident, &Type)> {
        self.params.iter().filter_map(|param| match &param.kind {
            ParamKind::Value(of) => Some((&param.name, of)),
            ParamKind::Buffer(..) => None,
        })
    }

    /// Returns the names of the generic types.
    pub(crate) fn generic_types(&self) -> impl Iterator<Item = &Ident> {
        let params = self.item.sig.generics.params.iter();
        params.filter_map(|param| match param {
            GenericParam::Type(of) => Some(&of.ident),
            _ => None,
        })
    }
}

/// The most threads of a cube.
const THREADS_MAX: u64 = 1024;

/// Returns the threads of a cube along each axis: of `256`, `[16, 16]`, `[ROWS, 2 * COLUMNS]`. The code that the macro
/// writes checks those that are no literals.
fn cube_of(value: Expr) -> Result<Vec<Expr>> {
    let refused = |at: &Expr, why| Err(Error::new_spanned(at, why));
    let axes: Vec<Expr> = match &value {
        Expr::Array(axes) => axes.elems.iter().cloned().collect(),
        _ => vec![value.clone()],
    };
    let mut all = Some(1);
    for axis in &axes {
        let Expr::Lit(literal) = axis else {
            all = None;
            continue;
        };
        let threads = match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        };
        match threads {
            Some(threads @ 1..=THREADS_MAX) => all = all.map(|all: u64| all * threads),
            _ => return refused(axis, "a cube has 1 to 1024 threads"),
        }
    }
    match (axes.len(), all) {
        (1..=3, None | Some(..=THREADS_MAX)) => Ok(axes),
        _ => refused(&value, "a cube has 1 to 3 axes, and at most 1024 threads"),
    }
}

/// Refuses what no device can do.
fn refuse(item: &mut ItemFn) -> Result<()> {
    // `-> ()` is no result.
    if matches!(&item.sig.output, ReturnType::Type(_, of) if matches!(&**of, Type::Tuple(of) if of.elems.is_empty()))
    {
        item.sig.output = ReturnType::Default;
    }
    attributes::refuse(item)?;
    let signature = &item.sig;
    let refused = |span: Span, what: &str| Err(Error::new(span, what));
    if let Some(token) = signature.asyncness {
        return refused(
            token.span,
            "a kernel cannot be `async`: its launch is; remove `async`",
        );
    }
    if let Some(token) = signature.constness {
        return refused(token.span, "a kernel cannot be `const`; remove it");
    }
    if let syn::Safety::Unsafe(token) = signature.safety {
        let why = "a kernel cannot be `unsafe`: use `#[kernel(unsafe(unchecked))]` for unchecked accesses";
        return refused(token.span, why);
    }
    if let Some(abi) = &signature.abi {
        let why = "a kernel has no ABI: remove `extern`";
        return Err(Error::new_spanned(abi, why));
    }
    if let Some(dots) = &signature.variadic {
        let why = "a kernel has a fixed number of parameters: pass a buffer";
        return Err(Error::new_spanned(dots, why));
    }
    generics::refuse(&signature.generics)?;
    match &signature.output {
        ReturnType::Type(_, of) => refuse_type(of),
        ReturnType::Default => Ok(()),
    }
}

impl Param {
    /// Returns a parameter; and the statement that makes it a variable, if it is `mut`.
    fn parse(argument: &mut FnArg, is_method: bool) -> Result<(Self, Option<Stmt>)> {
        let argument = match argument {
            FnArg::Receiver(receiver) if is_method => {
                if !matches!(receiver.kind, syn::ReceiverKind::Value) {
                    let why = "kernels have no references to values: write `self`, which copies";
                    return Err(Error::new_spanned(receiver, why));
                }
                if let Some(token) = receiver.mutability {
                    let why = "`self` does not change in a method of kernels: copy it, `let mut changed = self;`";
                    return Err(Error::new(token.span, why));
                }
                let of_self = Self {
                    name: Ident::new("self", receiver.self_token.span),
                    kind: ParamKind::Value(syn::parse_quote!(Self)),
                };
                return Ok((of_self, None));
            }
            FnArg::Receiver(receiver) => {
                let why =
                    "a kernel has no `self`: make it a function, and pass fields as parameters";
                return Err(Error::new_spanned(receiver, why));
            }
            FnArg::Typed(argument) => argument,
        };
        let (name, mutability) = match &mut *argument.pat {
            Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => {
                (pat.ident.clone(), pat.mutability.take())
            }
            other => {
                let why = "a parameter of a kernel has a name: take the tuple apart in the body";
                return Err(Error::new_spanned(other, why));
            }
        };
        let is_whole = |attribute: &Attribute| attribute.path().is_ident("whole");
        let whole = argument.attrs.iter().any(is_whole);
        argument.attrs.retain(|attribute| !is_whole(attribute));
        let kind = ParamKind::parse(&argument.ty, whole)?;
        let copy = match (&kind, mutability) {
            (ParamKind::Value(_), Some(mutability)) => {
                Some(syn::parse_quote!(let #mutability #name = #name;))
            }
            _ => None,
        };
        Ok((Self { name, kind }, copy))
    }
}

impl ParamKind {
    fn parse(of: &Type, whole: bool) -> Result<Self> {
        let Type::Reference(reference) = of else {
            if whole {
                let why = "`#[whole]` is for buffers: `#[whole] y: &mut [T]`";
                return Err(Error::new_spanned(of, why));
            }
            return refuse_type(of).map(|()| Self::Value(of.clone()));
        };
        if let Some(lifetime) = &reference.lifetime {
            let why = "a kernel has no lifetimes: write `&[T]` or `&mut [T]`";
            return Err(Error::new_spanned(lifetime, why));
        }
        let Type::Slice(slice) = &*reference.elem else {
            let why = match last_of(&reference.elem).as_deref() {
                Some("Vec") => {
                    "a kernel takes buffers: write `&[T]` or `&mut [T]`, and pass a `Handle`"
                }
                Some("str" | "String") => "kernels have no text: pass numbers, such as `&[u8]`",
                _ if reference.mutability.is_some() => {
                    "a kernel has its results in buffers: write `&mut [T]`, and store to an element"
                }
                _ => {
                    "a kernel takes buffers, `&[T]`, and values: pass a number as `f32`, not by reference"
                }
            };
            return Err(Error::new_spanned(of, why));
        };
        let element = &*slice.elem;
        refuse_element(element)?;
        let atomic = atomic_of(element);
        match (reference.mutability, atomic, whole) {
            (None, Some(of), false) => Ok(Self::Buffer(of, Mode::Atomic)),
            (Some(token), Some(_), _) => {
                let why = "a buffer of atomics is shared by all threads: write `&[Atomic<T>]`";
                Err(Error::new(token.span, why))
            }
            (None, _, true) => {
                let why = "`#[whole]` is for buffers that the kernel stores to: `&mut [T]`";
                Err(Error::new_spanned(of, why))
            }
            (None, None, false) => Ok(Self::Buffer(element.clone(), Mode::Read)),
            (Some(_), None, true) => Ok(Self::Buffer(element.clone(), Mode::Whole)),
            (Some(_), None, false) => Ok(Self::Buffer(element.clone(), Mode::Update)),
        }
    }
}

/// Returns the last name of a path.
fn last_of(of: &Type) -> Option<String> {
    let Type::Path(path) = of else { return None };
    Some(path.path.segments.last()?.ident.to_string())
}

/// Refuses elements that no buffer has.
fn refuse_element(of: &Type) -> Result<()> {
    let why = match of {
        Type::Tuple(_) => "a buffer has numbers: pass a buffer for each part of the tuple",
        Type::Array(of) => return refuse_element(&of.elem),
        Type::Slice(_) | Type::Reference(_) => {
            "a buffer has numbers: pass all rows in one buffer, with the length of a row"
        }
        _ => match last_of(of).as_deref() {
            Some("bool") => "a buffer has numbers: pass `u8`, and compare with 0",
            Some("usize") => "a buffer has numbers of the same size on every machine: pass `u64`",
            Some("isize") => "a buffer has numbers of the same size on every machine: pass `i64`",
            _ => return refuse_type(of),
        },
    };
    Err(Error::new_spanned(of, why))
}

/// Returns `T` of `Atomic<T>`.
fn atomic_of(of: &Type) -> Option<Type> {
    let Type::Path(path) = of else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.first()? {
        GenericArgument::Type(of) if last.ident == "Atomic" => Some(of.clone()),
        _ => None,
    }
}
