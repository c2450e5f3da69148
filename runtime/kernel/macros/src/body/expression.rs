//! Expressions.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprBinary, ExprPath, ExprStruct, ExprUnary, UnOp};

use super::cheap::{is_assignment, is_cheap};
use super::memory::root;
use super::places::innermost;
use super::{Body, Form, line_of};
use crate::refused;
use crate::scope::Local;
use crate::types::refuse_type;

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
            Expr::While(it) => self.while_loop(it),
            Expr::Loop(it) => self.endless(it, false),
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
                    syn::Lit::Bool(_) | syn::Lit::Byte(_) | syn::Lit::Float(_) | syn::Lit::Int(_)
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
            (Some(Local::Closure), _) => {
                self.refuse(path, "a closure is not a value: call it")
            }
            (Some(_), _) => quote!(#path),
        }
    }

    /// Returns a constant of this name.
    pub(super) fn constant(&self, path: &ExprPath) -> TokenStream {
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
            // In braces, so that a closure captures all of it: where it captures the fields alone, rustc 1.95 forgets what the
            // associated types are that the twins of structs have as fields, and fails inside.
            fields.push(quote!(..{ #rest }));
        }
        match self.form {
            Form::Traced if !path.is_ident("Self") => quote_spanned!(span=> {
                type __Struct<'__k> = ::millstream::__kernel::traced::Of<'__k, #path>;
                __Struct { #(#fields),* }
            }),
            _ => quote_spanned!(span=> #path { #(#fields),* }),
        }
    }
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
        Expr::Closure(_) => "a closure of a kernel has a name: `let square = |x: f32| x * x;`",
        Expr::Const(_) => "kernels have no `const` blocks: put a `const` beside the kernel",
        Expr::Infer(_) => "`_` has no value here",
        Expr::Let(_) => "kernels have no enums, so a pattern always fits: write `let` before",
        Expr::Range(_) => {
            "a range is the bounds of a loop, `for i in a..b`, or of `(a..b).contains(&x)`"
        }
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
