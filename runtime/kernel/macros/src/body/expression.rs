//! Expressions.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    BinOp, Expr, ExprBinary, ExprCall, ExprMethodCall, ExprPath, ExprStruct, ExprUnary, Path,
    PathArguments, Token, UnOp,
};

use super::cheap::{is_assignment, is_cheap};
use super::memory::{innermost, root, single};
use super::{Body, Form, line_of};
use crate::names::{COMPOSED, METHODS};
use crate::refused;
use crate::scope::Local;
use crate::signature::Mode;
use crate::types::refuse_type;

/// A list of arguments.
type Arguments = Punctuated<Expr, Token![,]>;

impl Body<'_> {
    /// Rewrites an expression.
    pub(super) fn expression(&mut self, it: &Expr) -> TokenStream {
        let span = it.span();
        match it {
            Expr::Lit(_) => self.literal(it),
            Expr::Path(path) => self.name(path),
            Expr::Paren(inner) => {
                let inner = self.expression(&inner.expr);
                quote_spanned!(span=> (#inner))
            }
            Expr::Group(inner) => self.expression(&inner.expr),
            Expr::Unary(unary) => self.unary(unary),
            Expr::Binary(binary) => self.binary(binary),
            Expr::Assign(it) => self.assign(&it.left, &it.right, None, span),
            Expr::Cast(it) => {
                if let Err(error) = refuse_type(&it.ty) {
                    return self.refuse(&it.ty, error);
                }
                if matches!(&*it.ty, syn::Type::Path(of) if of.path.is_ident("bool")) {
                    return self.refuse(it, "a `bool` is a comparison: `x != 0`");
                }
                let (cast, to) = (self.path(span, "cast"), &it.ty);
                let value = self.expression(&it.expr);
                quote_spanned!(span=> #cast::<#to, _>(#value))
            }
            Expr::Index(index) => self.load(index),
            Expr::Field(field) => {
                let member = &field.member;
                let of_variable = root(&field.base).and_then(|name| self.scopes.find(name));
                let is_place = of_variable == Some(Local::Variable) || innermost(it).is_some();
                if self.is_traced() && is_place {
                    let place = self.place(it);
                    return quote_spanned!(span=> ::millstream::__kernel::traced::Traced::load(#place));
                }
                let base = self.expression(&field.base);
                quote_spanned!(span=> #base.#member)
            }
            Expr::Tuple(tuple) => {
                let parts = tuple.elems.iter().map(|part| self.expression(part));
                let parts: Vec<_> = parts.collect();
                quote_spanned!(span=> (#(#parts,)*))
            }
            Expr::Array(array) => {
                let elements = array.elems.iter().map(|element| self.expression(element));
                let elements: Vec<_> = elements.collect();
                match self.form {
                    Form::Plain => quote_spanned!(span=> [#(#elements),*]),
                    Form::Traced => {
                        let array = self.path(span, "array");
                        quote_spanned!(span=> #array(__k, [#(#elements),*]))
                    }
                }
            }
            Expr::Repeat(repeat) => {
                let (element, len) = (self.expression(&repeat.expr), &repeat.len);
                match self.form {
                    Form::Plain => quote_spanned!(span=> [#element; #len]),
                    Form::Traced => {
                        let filled = self.path(span, "filled");
                        quote_spanned!(span=> #filled::<_, { #len }>(__k, #element))
                    }
                }
            }
            Expr::Struct(literal) => self.record(literal),
            Expr::Block(block) => match &block.label {
                Some(label) => self.refuse(
                    label.span(),
                    "a block of a kernel has no label: use a helper function, and `return`",
                ),
                None => self.block(&block.block),
            },
            Expr::If(it) => self.conditional(it),
            Expr::Match(it) => self.choice(it),
            Expr::ForLoop(it) => self.for_loop(it),
            Expr::While(it) => {
                let (label, k) = self.label(it.label.as_ref());
                if let Expr::Let(pattern) = &*it.cond {
                    let why = "kernels have no enums, so a pattern always fits: write `loop`";
                    return self.refuse(pattern, why);
                }
                let (condition, body) = (self.expression(&it.cond), self.block(&it.body));
                match self.form {
                    Form::Plain => quote_spanned!(span=> #label while #condition #body),
                    Form::Traced => {
                        let while_loop = self.path(it.while_token.span, "while_loop");
                        quote_spanned!(span=> #while_loop(#k, || #condition, || #body))
                    }
                }
            }
            Expr::Loop(it) => {
                let (label, k) = self.label(it.label.as_ref());
                let body = self.block(&it.body);
                match self.form {
                    Form::Plain => quote_spanned!(span=> #label loop #body),
                    Form::Traced => {
                        let repeat = self.path(it.loop_token.span, "repeat");
                        quote_spanned!(span=> #repeat(#k, || #body))
                    }
                }
            }
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => self.jump(it, false),
            Expr::Call(call) => self.call(call),
            Expr::MethodCall(call) => self.method(call),
            Expr::Macro(it) => {
                let (call, line) = (self.macro_call(&it.mac), line_of(span));
                match self.form {
                    Form::Plain => call,
                    // In an arm, whose statement began before it.
                    Form::Traced => quote_spanned!(span=> { __k.line(#line); #call }),
                }
            }
            other => {
                let why = why_not(other);
                self.refuse(other, why)
            }
        }
    }

    /// Rewrites a literal.
    pub(super) fn literal(&mut self, it: &Expr) -> TokenStream {
        match it {
            Expr::Lit(literal)
                if matches!(
                    literal.lit,
                    syn::Lit::Int(_) | syn::Lit::Float(_) | syn::Lit::Bool(_)
                ) =>
            {
                self.literal_of(quote!(#it))
            }
            Expr::Lit(_) => {
                self.refuse(it, "kernels have numbers and bools: write text as numbers")
            }
            Expr::Unary(ExprUnary {
                op: UnOp::Neg(_),
                expr,
                ..
            }) if matches!(**expr, Expr::Lit(_)) => self.literal_of(quote!(#it)),
            other => self.literal_of(quote!(#other)),
        }
    }

    /// Returns a constant.
    pub(super) fn literal_of(&mut self, value: TokenStream) -> TokenStream {
        match self.form {
            Form::Plain => value,
            Form::Traced => quote!(::millstream::__kernel::traced::lit(__k, #value)),
        }
    }

    /// Rewrites a name: of a local, or of a constant.
    fn name(&mut self, path: &ExprPath) -> TokenStream {
        let span = path.span();
        let local = path
            .path
            .get_ident()
            .and_then(|name| self.scopes.find(name));
        match (local, self.form) {
            (None, _) => match refused::constant(&path.path) {
                Some(why) => self.refuse(path, why),
                None => self.constant(path),
            },
            (Some(Local::Variable), Form::Traced) => {
                quote_spanned!(span=> ::millstream::__kernel::traced::Traced::load(#path))
            }
            (Some(Local::Number), Form::Plain) => quote_spanned!(span=> #path.number()),
            (Some(Local::Buffer(..) | Local::Shared), _) => self.refuse(
                path,
                "a buffer is not a value: use an element, `x[i]`, its length, `x.len()`, or pass it to a helper function",
            ),
            (Some(_), _) => quote!(#path),
        }
    }

    /// Returns a constant of this name.
    fn constant(&self, path: &ExprPath) -> TokenStream {
        match self.form {
            Form::Plain => quote!(#path),
            Form::Traced => {
                let constant = self.path(path.span(), "constant");
                let span = path.span().resolved_at(Span::call_site());
                quote_spanned!(span=> #constant(__k, #path))
            }
        }
    }

    fn unary(&mut self, it: &ExprUnary) -> TokenStream {
        let span = it.span();
        match it.op {
            UnOp::Neg(_) if matches!(*it.expr, Expr::Lit(_)) => self.literal_of(quote!(#it)),
            UnOp::Neg(_) => {
                let value = self.expression(&it.expr);
                self.operate(span, "negated", &[&value])
            }
            UnOp::Not(_) => {
                let (function, value) = (self.path(span, "not"), self.expression(&it.expr));
                quote_spanned!(span=> #function(#value))
            }
            _ => self.refuse(
                it,
                "kernels have no references to values: write the name without `*`",
            ),
        }
    }

    fn binary(&mut self, it: &ExprBinary) -> TokenStream {
        let span = it.span();
        let lazy = match it.op {
            BinOp::And(_) => Some(("all", "and")),
            BinOp::Or(_) => Some(("any", "or")),
            _ => None,
        };
        if let Some((lazy, both)) = lazy {
            let (a, b) = (self.expression(&it.left), self.expression(&it.right));
            let op = &it.op;
            return match self.form {
                Form::Plain => quote_spanned!(span=> (#a #op #b)),
                Form::Traced if is_cheap(&it.right) => {
                    let both = self.path(span, both);
                    quote_spanned!(span=> #both(#a, #b))
                }
                Form::Traced => {
                    let lazy = self.path(span, lazy);
                    quote_spanned!(span=> #lazy(__k, #a, || #b))
                }
            };
        }
        if is_assignment(&it.op) {
            return self.assign(&it.left, &it.right, Some(&it.op), span);
        }
        let (a, b) = (self.expression(&it.left), self.expression(&it.right));
        self.apply(&it.op, &a, &b)
    }

    /// Rewrites a method of a number or a buffer.
    fn method(&mut self, it: &ExprMethodCall) -> TokenStream {
        let span = it.span();
        let (name, given) = (it.method.to_string(), it.args.len());
        if let Some(turbofish) = &it.turbofish {
            return self.refuse(turbofish, "methods of kernels have no type arguments");
        }
        if name == "len" && given == 0 {
            return self.length(&it.receiver);
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
        if given != *wanted {
            let plural = if *wanted == 1 { "" } else { "s" };
            let why = format!("`{name}` takes {wanted} argument{plural}, got {given}");
            return self.refuse(it, why);
        }
        let function = self.path(it.method.span(), function);
        let receiver = self.expression(&it.receiver);
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
    fn call(&mut self, it: &ExprCall) -> TokenStream {
        let span = it.span();
        let Expr::Path(path) = &*it.func else {
            let why = "kernels have no closures and function pointers: call a function by its name";
            return self.refuse(&it.func, why);
        };
        let name = path.path.get_ident().map(ToString::to_string);
        let last = path.path.segments.last().map(|last| last.ident.to_string());
        if path.path.segments.len() == 2
            && let ("from_bits", [value]) =
                (last.as_deref().unwrap_or(""), args(&it.args).as_slice())
        {
            let of = &path.path.segments[0].ident;
            let (cast, value) = (self.path(span, "bit_cast"), self.expression(value));
            return quote_spanned!(span=> #cast::<#of, _>(#value));
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

    /// Rewrites a literal of a struct.
    fn record(&mut self, it: &ExprStruct) -> TokenStream {
        let (span, path) = (it.span(), &it.path);
        let fields = it.fields.iter().map(|field| {
            let (name, value) = (&field.member, self.expression(&field.expr));
            quote!(#name: #value)
        });
        let mut fields: Vec<_> = fields.collect();
        if let Some(rest) = &it.rest {
            let rest = self.expression(rest);
            fields.push(quote!(..#rest));
        }
        match self.form {
            Form::Traced if !path.is_ident("Self") => quote_spanned!(span=> {
                type __Struct<'__k> = ::millstream::__kernel::traced::Of<'__k, #path>;
                __Struct { #(#fields),* }
            }),
            _ => quote_spanned!(span=> #path { #(#fields),* }),
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
        match self.form {
            Form::Plain => quote_spanned!(span=> #path::plain #generics(#(#arguments),*)),
            Form::Traced => quote_spanned!(span=> #path::traced #generics(__k, #(#arguments),*)),
        }
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

fn args(arguments: &Arguments) -> Vec<&Expr> {
    arguments.iter().collect()
}

/// Returns the function of an operator.
pub(super) fn operator(op: &BinOp) -> &'static str {
    match op {
        BinOp::Add(_) | BinOp::AddAssign(_) => "plus",
        BinOp::Sub(_) | BinOp::SubAssign(_) => "minus",
        BinOp::Mul(_) | BinOp::MulAssign(_) => "times",
        BinOp::Div(_) | BinOp::DivAssign(_) => "over",
        BinOp::Rem(_) | BinOp::RemAssign(_) => "remainder",
        BinOp::BitXor(_) | BinOp::BitXorAssign(_) => "xor",
        BinOp::BitAnd(_) | BinOp::BitAndAssign(_) => "and",
        BinOp::BitOr(_) | BinOp::BitOrAssign(_) => "or",
        BinOp::Shl(_) | BinOp::ShlAssign(_) => "shl",
        BinOp::Shr(_) | BinOp::ShrAssign(_) => "shr",
        BinOp::Ne(_) => "ne",
        BinOp::Lt(_) => "lt",
        BinOp::Le(_) => "le",
        BinOp::Gt(_) => "gt",
        BinOp::Ge(_) => "ge",
        // `==`; `&&` and `||` are rewritten before.
        _ => "eq",
    }
}

/// Returns why kernels do not have an expression, and what to write instead.
fn why_not(it: &Expr) -> String {
    let why = match it {
        Expr::Async(_) | Expr::Await(_) => "kernels are not `async`: their launch is",
        Expr::Closure(_) => "kernels have no closures: write a helper function with `#[kernel]`",
        Expr::Const(_) => "kernels have no `const` blocks: put a `const` beside the kernel",
        Expr::Infer(_) => "`_` has no value here",
        Expr::Let(_) => "kernels have no enums, so a pattern always fits: write `let` before",
        Expr::Range(_) => "a range is only the bounds of a loop: `for i in a..b`",
        Expr::RawAddr(_) => "kernels have no pointers: use an index",
        Expr::Reference(_) => {
            "kernels have no references to values: copy the value; a buffer is passed by its name"
        }
        Expr::Try(_) | Expr::TryBlock(_) => {
            "kernels have no errors to return: `?` is for the caller; store a code in a buffer"
        }
        Expr::Unsafe(_) => {
            "kernels have no `unsafe` blocks: use `#[kernel(unsafe(unchecked))]` for unchecked accesses"
        }
        Expr::Yield(_) => "kernels are no generators: store to a buffer",
        _ => {
            "kernels do not have this expression: see the guide's page about kernels for what they have"
        }
    };
    why.to_owned()
}
