//! Rewrites a body: as plain Rust, or as calls that trace it.
//!
//! Both have the same names and types up to `T` and `V<T>`, so rustc infers the types of both in the same way.

mod calls;
mod cheap;
mod closure;
mod control;
mod expression;
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
use syn::{BinOp, Block, Error, Expr, Item, Local as Let, Pat, PatType, Stmt, Type};

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

    /// Rewrites `let`.
    fn declare(&mut self, local: &Let) -> TokenStream {
        let span = local.span();
        let (pattern, declared) = match &local.pat {
            Pat::Type(PatType { pat, ty, .. }) => (&**pat, Some(&**ty)),
            pattern => (pattern, None),
        };
        let of = declared.map(|of| {
            let of = self.type_of(of);
            quote!(: #of)
        });
        let Some(init) = &local.init else {
            return self.declare_later(pattern, of, span);
        };
        if let Some((_, other)) = &init.diverge {
            return self.refuse(
                other,
                "kernels have no enums, so a pattern always fits: write `let` without `else`",
            );
        }
        // `let i = thread();`
        if let (Pat::Ident(name), true) = (pattern, is_thread(&init.expr))
            && name.mutability.is_none()
            && self.has_numbers()
        {
            self.scopes.bind(&name.ident, Local::Number);
            let name = &name.ident;
            return match self.form {
                Form::Plain => quote_spanned!(span=> let #name = __thread;),
                Form::Traced => quote_spanned!(span=> let #name = __number;),
            };
        }
        if let Some(positions) = self.positions(pattern, &init.expr) {
            return positions;
        }
        if let Expr::Closure(closure) = &*init.expr {
            return self.declare_closure(pattern, closure);
        }
        if let Some(parts) = self.declare_apart(pattern, declared, &init.expr) {
            return parts;
        }
        let value = self.declared(pattern, &init.expr);
        let (bound, variables) = self.bind(pattern);
        self.bind_shared(pattern, &init.expr);
        // Plain bodies bind as the text does.
        let fresh = self.is_traced().then(|| {
            let variables = variables.iter();
            quote!(#(let #variables = ::millstream::__kernel::traced::Traced::fresh(#variables, __k);)*)
        });
        quote_spanned!(span=> let #bound #of = #value; #fresh)
    }

    /// Rewrites the value of a `let`, whose names shared arrays have.
    fn declared(&mut self, pattern: &Pat, value: &Expr) -> TokenStream {
        match (pattern, value) {
            (Pat::Tuple(names), Expr::Tuple(values)) if names.elems.len() == values.elems.len() => {
                let parts = names.elems.iter().zip(&values.elems);
                let parts: Vec<_> = parts
                    .map(|(pattern, value)| self.declared(pattern, value))
                    .collect();
                quote_spanned!(value.span()=> (#(#parts,)*))
            }
            _ => {
                self.shared_name = together::name_of_shared(pattern, value).cloned();
                self.expression(value)
            }
        }
    }

    /// Rewrites `let [row, column] = position();`, and likewise those of cubes.
    fn positions(&mut self, pattern: &Pat, value: &Expr) -> Option<TokenStream> {
        let Expr::Call(call) = value else {
            return None;
        };
        let all = ["position", "position_in_cube", "cube_position"];
        let function = all.into_iter().find(|name| is_named(&call.func, name))?;
        let span = call.span();
        let in_cube = function != "position";
        let refused = match pattern {
            _ if in_cube && !self.function.works_together() => Some(format!(
                "`{function}` is for threads that work together: {}",
                self.how_to_work_together("[16, 16]")
            )),
            _ if !in_cube && !self.function.is_kernel() => {
                Some("a helper function gets numbers from its caller: pass the position".to_owned())
            }
            Pat::Slice(names) if (1..=3).contains(&names.elems.len()) => {
                let axes = names.elems.len();
                let declared = *self.axes.get_or_insert(axes);
                (declared != axes).then(|| {
                    format!(
                        "the launch has {declared} axes, and the pattern {axes}: name each axis"
                    )
                })
            }
            _ => Some(format!(
                "a position is taken apart, the slowest axis first: `let [row, column] = {function}();`"
            )),
        };
        if let Some(why) = refused {
            return Some(self.refuse(span, why));
        }
        let Pat::Slice(names) = pattern else {
            return None;
        };
        let mut variables = Vec::new();
        let parts = names
            .elems
            .iter()
            .map(|name| self.bind_into(name, &mut variables));
        let parts: Vec<_> = parts.collect();
        if let Some(variable) = variables.first() {
            let why = "a position does not change: copy it, `let mut column = column;`";
            return Some(self.refuse(variable.span(), why));
        }
        let position = self.path(span, function);
        Some(match self.form {
            Form::Plain => quote_spanned!(span=> let [#(#parts),*] = __thread.position();),
            Form::Traced => quote_spanned!(span=> let [#(#parts),*] = #position(__k);),
        })
    }

    /// Rewrites `let x;`, which is set later.
    fn declare_later(&mut self, pattern: &Pat, of: Option<TokenStream>, span: Span) -> TokenStream {
        let Pat::Ident(name) = pattern else {
            return self.refuse(pattern, "a pattern needs a value: `let (a, b) = ..;`");
        };
        let (name, mutability) = (&name.ident, name.mutability);
        self.scopes.bind(name, Local::Variable);
        match self.form {
            Form::Plain => quote_spanned!(span=> let #mutability #name #of;),
            Form::Traced => {
                quote_spanned!(span=> let #name #of = ::millstream::__kernel::traced::Traced::unset(__k);)
            }
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

/// Returns `true` for `thread()`.
fn is_thread(expression: &Expr) -> bool {
    matches!(expression, Expr::Call(call) if is_named(&call.func, "thread") && call.args.is_empty())
}
