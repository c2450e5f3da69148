//! Rewrites a body: as plain Rust, or as calls that trace it.
//!
//! Both have the same names and types up to `T` and `V<T>`, so rustc infers the types of both in the same way.

mod calls;
mod cheap;
mod closure;
mod control;
mod expression;
mod lets;
mod memory;
mod pattern;
mod places;
mod say;
mod short;
mod together;

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{BinOp, Block, Error, Expr, Item, Stmt, Type};

use self::expression::operator;
use crate::scope::{Local, Scopes, Use};
use crate::signature::{Function, ParamKind};
use crate::types::refuse_type;

/// What a body becomes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Plain Rust, for the CPU.
    Plain,
    /// Calls that add to a program.
    Traced,
}

/// A body that is rewritten.
pub(crate) struct Body<'a> {
    form: Form,
    function: &'a Function,
    scopes: Scopes,
    /// How the body uses each buffer, as far as it is rewritten.
    pub(crate) uses: Vec<Use>,
    /// How the whole body uses each buffer, once that is known.
    known: Option<Vec<Use>>,
    errors: Option<Error>,
    /// Whether the body has `return`.
    pub(crate) returns: bool,
    /// The loops around what is being rewritten, the innermost last.
    loops: Vec<control::OpenLoop>,
    /// Whether it is the body of a closure.
    in_closure: bool,
    /// The name of the shared array that is being declared.
    shared_name: Option<syn::Ident>,
    /// The axes of the launch, if the body or the attribute tells: the names in `let [row, column] = position();`.
    pub(crate) axes: Option<usize>,
}

impl<'a> Body<'a> {
    /// Starts with the parameters of a function. `known` is how its body uses each buffer.
    pub(crate) fn new(function: &'a Function, form: Form, known: Option<Vec<Use>>) -> Self {
        let mut scopes = Scopes::default();
        scopes.open();
        let mut buffers = 0;
        for param in &function.params {
            let local = match param.kind {
                ParamKind::Value(_) => Local::Value,
                ParamKind::Buffer(_, mode) => {
                    buffers += 1;
                    Local::Buffer(buffers - 1, mode)
                }
            };
            scopes.bind(&param.name, local);
        }
        Self {
            form,
            function,
            scopes,
            uses: vec![Use::default(); buffers],
            known,
            errors: None,
            returns: false,
            loops: Vec::new(),
            in_closure: false,
            shared_name: None,
            axes: function.cube.as_ref().map(Vec::len),
        }
    }

    /// Rewrites the function's body.
    pub(crate) fn rewrite(&mut self) -> syn::Result<TokenStream> {
        if self.function.is_broken {
            return Ok(quote!({ ::core::unreachable!() }));
        }
        let block = self.block(&self.function.item.block);
        match self.errors.take() {
            Some(errors) => Err(errors),
            None => Ok(block),
        }
    }

    fn is_traced(&self) -> bool {
        self.form == Form::Traced
    }

    /// Records an error, and returns tokens in place of what is wrong.
    fn refuse(&mut self, at: impl At, why: impl Display) -> TokenStream {
        let error = at.error(why);
        match &mut self.errors {
            Some(errors) => errors.combine(error),
            None => self.errors = Some(error),
        }
        TokenStream::new()
    }

    /// Returns the path of a function of `plain` or `traced`.
    fn path(&self, span: Span, name: &str) -> TokenStream {
        let name = syn::Ident::new(name, span);
        match self.form {
            Form::Plain => quote_spanned!(span=> ::millstream::__kernel::plain::#name),
            Form::Traced => quote_spanned!(span=> ::millstream::__kernel::traced::#name),
        }
    }

    /// Returns a call of an operator, which structs may have.
    fn operate(&self, span: Span, name: &str, values: &[&TokenStream]) -> TokenStream {
        let function = self.path(span, name);
        match self.form {
            Form::Plain => quote_spanned!(span=> #function(#(#values),*)),
            Form::Traced => quote_spanned!(span=> #function(__k, #(#values),*)),
        }
    }

    /// Returns a call of a binary operator.
    fn apply(&self, op: &BinOp, a: &TokenStream, b: &TokenStream) -> TokenStream {
        let (span, name) = (op.span(), operator(op));
        if matches!(name, "plus" | "minus" | "times" | "over" | "remainder") {
            return self.operate(span, name, &[a, b]);
        }
        let function = self.path(span, name);
        quote_spanned!(span=> #function(#a, #b))
    }

    /// Rewrites a block, with its braces.
    fn block(&mut self, block: &Block) -> TokenStream {
        self.scopes.open();
        let inside = self.statements(&block.stmts);
        self.scopes.close();
        quote_spanned!(block.span()=> { #inside })
    }

    fn statements(&mut self, statements: &[Stmt]) -> TokenStream {
        let mut inside = TokenStream::new();
        for (index, statement) in statements.iter().enumerate() {
            if self.is_traced() {
                let line = line_of(statement.span());
                inside.extend(quote!(__k.line(#line);));
            }
            // Only the last expression of a block is its value.
            if let (true, Stmt::Expr(Expr::Loop(it), None)) =
                (index + 1 < statements.len(), statement)
            {
                inside.extend(self.endless(it, true));
                inside.extend(quote!(;));
                continue;
            }
            // A block that ends with a jump has any type. Traced, its last value does.
            if let (true, true, Stmt::Expr(jump, Some(_))) =
                (self.is_traced(), index + 1 == statements.len(), statement)
                && matches!(jump, Expr::Return(_) | Expr::Break(_) | Expr::Continue(_))
            {
                inside.extend(self.jump(jump, false));
                continue;
            }
            inside.extend(self.statement(statement));
            // Traced, a loop is a call.
            if index + 1 < statements.len() && matches!(statement, Stmt::Expr(_, None)) {
                inside.extend(quote!(;));
            }
        }
        inside
    }

    fn statement(&mut self, statement: &Stmt) -> TokenStream {
        match statement {
            Stmt::Local(local) => self.declare(local),
            // A constant or an import means the same in both forms.
            Stmt::Item(item @ (Item::Const(_) | Item::Use(_))) => {
                if let Item::Const(of) = item {
                    self.scopes.hide(&of.ident);
                }
                quote!(#item)
            }
            Stmt::Item(item) => self.refuse(
                item,
                "a kernel has only constants of its own: put the item beside the kernel",
            ),
            Stmt::Expr(expression, semicolon) => {
                let is_statement = semicolon.is_some();
                let expression = match is_statement {
                    true => self.as_statement(expression),
                    false => self.expression(expression),
                };
                quote!(#expression #semicolon)
            }
            Stmt::Macro(call) => {
                let (call, semicolon) = (self.macro_call(&call.mac), call.semi_token);
                quote!(#call #semicolon)
            }
        }
    }

    /// Rewrites an expression whose value is not used.
    fn as_statement(&mut self, expression: &Expr) -> TokenStream {
        match expression {
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => self.jump(expression, true),
            Expr::Loop(it) => self.endless(it, true),
            other => self.expression(other),
        }
    }

    /// Returns whether threads have numbers that no other has: not where the threads of a cube work together, which run
    /// as a program on every device; nor in helper functions, which get numbers from their callers.
    fn has_numbers(&self) -> bool {
        self.function.is_kernel() && self.function.cube.is_none()
    }

    /// Returns a type as the body has it.
    pub(crate) fn type_of(&mut self, of: &Type) -> TokenStream {
        if let Err(error) = refuse_type(of) {
            return self.refuse(of, error);
        }
        if !self.is_traced() {
            return quote!(#of);
        }
        match of {
            Type::Infer(_) => quote!(#of),
            Type::Tuple(tuple) => {
                let parts = tuple.elems.iter().map(|part| self.type_of(part));
                let parts: Vec<_> = parts.collect();
                quote_spanned!(of.span()=> (#(#parts,)*))
            }
            Type::Array(array) => {
                let (element, len) = (&array.elem, &array.len);
                quote_spanned!(of.span()=> ::millstream::__kernel::traced::Array<'_, #element, { #len }>)
            }
            Type::Paren(inner) => self.type_of(&inner.elem),
            Type::Group(inner) => self.type_of(&inner.elem),
            Type::Path(path) if path.path.is_ident("Self") => quote!(#of),
            Type::Path(path) if self.is_generic(&path.path) => {
                quote_spanned!(of.span()=> ::millstream::__kernel::traced::V<'_, #of>)
            }
            other => quote_spanned!(of.span()=> ::millstream::__kernel::traced::Of<'_, #other>),
        }
    }
}

impl Body<'_> {
    /// Returns `true` for a generic type of the function.
    fn is_generic(&self, path: &syn::Path) -> bool {
        self.function
            .generic_types()
            .any(|name| path.is_ident(name))
    }
}

/// Where an error is.
trait At {
    fn error(self, why: impl Display) -> Error;
}

/// At a token.
impl At for Span {
    fn error(self, why: impl Display) -> Error {
        Error::new(self, why)
    }
}

/// From the first token of some syntax to its last. The span of syntax in Rust without `Span::join` has its first token only.
impl<T: ToTokens> At for &T {
    fn error(self, why: impl Display) -> Error {
        Error::new_spanned(self, why)
    }
}

/// Returns the line of a span in its file, zero if there is no compiler, as in a test.
fn line_of(span: Span) -> u32 {
    if !proc_macro::is_available() {
        return 0;
    }
    u32::try_from(span.unwrap().line()).unwrap_or(u32::MAX)
}

/// Returns `true` for a path of this one name.
fn is_named(expression: &Expr, name: &str) -> bool {
    matches!(expression, Expr::Path(path) if path.path.segments.len() == 1 && path.path.segments[0].ident == name)
}
