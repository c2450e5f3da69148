//! Branches, loops and jumps.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Expr, ExprBreak, ExprForLoop, ExprIf, ExprLoop, ExprMatch, ExprWhile, Label, Lifetime, Pat,
    RangeLimits,
};

use super::cheap::{cheap_arm, cheap_value};
use super::{Body, Form};
use crate::scope::Local;

/// The range of a loop.
struct Range {
    /// The function that loops over it.
    function: &'static str,
    /// Its bounds, and the step if there is one.
    bounds: Vec<TokenStream>,
}

/// A loop around what is being rewritten.
pub(super) struct OpenLoop {
    label: Option<Lifetime>,
    /// The variable of its value.
    result: Ident,
    /// Whether a `break` has a value, and whether there is a `break` at all.
    has_value: bool,
    ends: bool,
}

impl Body<'_> {
    /// Rewrites `if`.
    pub(super) fn conditional(&mut self, it: &ExprIf) -> TokenStream {
        let span = it.if_token.span;
        if let Expr::Let(pattern) = &*it.cond {
            return self.refuse(
                pattern,
                "kernels have no enums, so a pattern always fits: write `let` and then `if`",
            );
        }
        let condition = self.expression(&it.cond);
        // A traced `if` whose arms are cheap values computes both and chooses.
        if let (Form::Traced, Some((_, otherwise))) = (self.form, &it.else_branch)
            && let (Some(a), Some(b)) = (cheap_value(&it.then_branch.stmts), cheap_arm(otherwise))
        {
            let (a, b) = (self.expression(a), self.expression(b));
            let choose = self.path(span, "choose");
            return quote_spanned!(span=> #choose(__k, #condition, #a, #b));
        }
        let then = self.block(&it.then_branch);
        let otherwise = it
            .else_branch
            .as_ref()
            .map(|(_, otherwise)| self.expression(otherwise));
        match (self.form, otherwise) {
            (Form::Plain, None) => quote_spanned!(span=> if #condition #then),
            (Form::Plain, Some(otherwise)) => {
                quote_spanned!(span=> if #condition #then else { #otherwise })
            }
            (Form::Traced, None) => {
                let when = self.path(span, "when");
                quote_spanned!(span=> #when(__k, #condition, || #then))
            }
            (Form::Traced, Some(otherwise)) => {
                let branch = self.path(span, "branch");
                quote_spanned!(span=> #branch(__k, #condition, || #then, || { #otherwise }))
            }
        }
    }

    /// Rewrites `match`; traced as branches, the arms in order. The plain one checks that the arms cover all values.
    pub(super) fn choice(&mut self, it: &ExprMatch) -> TokenStream {
        let span = it.match_token.span;
        let value = self.expression(&it.expr);
        let (mut plain, mut traced) = (Vec::new(), Vec::new());
        for arm in &it.arms {
            self.scopes.open();
            let (pattern, guard) = match &arm.pat {
                Pat::Guard(guarded) => (&*guarded.pat, Some(&*guarded.guard)),
                pattern => (pattern, None),
            };
            let mut lets = TokenStream::new();
            let fits = self.fits(&quote!(__chosen), pattern, &mut lets);
            let guard = guard.map(|guard| self.expression(guard));
            let body = self.expression(&arm.body);
            self.scopes.close();
            match self.form {
                Form::Plain => {
                    let guard = guard.map(|guard| quote!(if #guard));
                    plain.push(quote_spanned!(span=> #pattern #guard => { #body }));
                }
                Form::Traced => {
                    let all = self.path(span, "all");
                    let condition = match (fits, guard) {
                        (fits, None) => fits,
                        (None, Some(guard)) => Some(quote!({ #lets #guard })),
                        (Some(fits), Some(guard)) => {
                            Some(quote!(#all(__k, #fits, || { #lets #guard })))
                        }
                    };
                    traced.push((condition, quote!({ #lets #body })));
                }
            }
        }
        if self.form == Form::Plain {
            return quote_spanned!(span=> match #value { #(#plain)* });
        }
        let (branch, never) = (self.path(span, "branch"), self.path(span, "never"));
        let mut chain = quote!(#never(__k));
        for (condition, body) in traced.into_iter().rev() {
            chain = match condition {
                None => body,
                Some(condition) => {
                    quote_spanned!(span=> #branch(__k, #condition, || #body, || { #chain }))
                }
            };
        }
        quote_spanned!(span=> { let __chosen = ::millstream::__kernel::traced::Traced::load(#value); #chain })
    }

    /// Rewrites `for`.
    pub(super) fn for_loop(&mut self, it: &ExprForLoop) -> TokenStream {
        let span = it.for_token.span;
        let (label, k) = self.label(it.label.as_ref());
        let Some(Range { function, bounds }) = self.range(&it.expr) else {
            return TokenStream::new();
        };
        self.scopes.open();
        let name = match &*it.pat {
            Pat::Ident(name) if name.mutability.is_none() && name.by_ref.is_none() => {
                self.scopes.bind(&name.ident, Local::Value);
                let name = &name.ident;
                quote!(#name)
            }
            Pat::Wild(_) => quote!(_),
            other => self.refuse(
                other,
                "the index of a loop is a name that does not change: copy it, `let mut j = i;`",
            ),
        };
        self.open_loop(it.label.as_ref());
        let body = self.block(&it.body);
        self.loops.pop();
        self.scopes.close();
        let function = self.path(span, function);
        match self.form {
            Form::Plain => {
                quote_spanned!(span=> #label for #name in #function(#(#bounds),*) #body)
            }
            Form::Traced => quote_spanned!(span=> #function(#k, #(#bounds,)* |#name| #body)),
        }
    }

    /// Rewrites `while`.
    pub(super) fn while_loop(&mut self, it: &ExprWhile) -> TokenStream {
        let span = it.while_token.span;
        let (label, k) = self.label(it.label.as_ref());
        if let Expr::Let(pattern) = &*it.cond {
            let why = "kernels have no enums, so a pattern always fits: write `loop`";
            return self.refuse(pattern, why);
        }
        let condition = self.expression(&it.cond);
        self.open_loop(it.label.as_ref());
        let body = self.block(&it.body);
        self.loops.pop();
        match self.form {
            Form::Plain => quote_spanned!(span=> #label while #condition #body),
            Form::Traced => {
                let while_loop = self.path(span, "while_loop");
                quote_spanned!(span=> #while_loop(#k, || #condition, || #body))
            }
        }
    }

    /// Rewrites `loop`. `is_statement`: its value is not used.
    pub(super) fn endless(&mut self, it: &ExprLoop, is_statement: bool) -> TokenStream {
        let span = it.loop_token.span;
        let (label, k) = self.label(it.label.as_ref());
        self.open_loop(it.label.as_ref());
        let body = self.block(&it.body);
        let closed = self.loops.pop();
        if self.form == Form::Plain {
            return quote_spanned!(span=> #label loop #body);
        }
        let repeat = self.path(span, "repeat");
        let repeat = quote_spanned!(span=> #repeat(#k, || #body));
        match closed {
            Some(OpenLoop {
                result,
                has_value: true,
                ..
            }) => quote_spanned!(span=> {
                let #result = ::millstream::__kernel::traced::Traced::unset(__k);
                #repeat;
                ::millstream::__kernel::traced::Traced::load(#result)
            }),
            Some(OpenLoop { ends: false, .. }) if !is_statement => {
                let never = self.path(span, "never");
                quote_spanned!(span=> { #repeat; #never(__k) })
            }
            _ => repeat,
        }
    }

    fn open_loop(&mut self, label: Option<&Label>) {
        self.loops.push(OpenLoop {
            label: label.map(|label| label.name.clone()),
            result: format_ident!("__broken_{}", self.loops.len()),
            has_value: false,
            ends: false,
        });
    }

    /// Rewrites `break`. Returns the statement that gives its loop a value, if it has one.
    fn leave(&mut self, it: &ExprBreak) -> (Option<TokenStream>, TokenStream) {
        let (span, label) = (it.span(), &it.label);
        let value = it.expr.as_ref().map(|value| self.expression(value));
        let mut open = self.loops.iter_mut().rev();
        // rustc refuses a label that is not there.
        let target = open.find(|open| label.is_none() || open.label == *label);
        let result = target.map(|open| {
            open.ends = true;
            open.has_value |= value.is_some();
            open.result.clone()
        });
        match self.form {
            Form::Plain => (None, quote_spanned!(span=> break #label #value)),
            Form::Traced => {
                let assign = value.zip(result).map(|(value, result)| {
                    quote_spanned!(span=> {
                        let __value = #value;
                        ::millstream::__kernel::traced::Traced::assign(#result, __value);
                    })
                });
                (assign, jump_of(label.as_ref(), &quote!(Break), span))
            }
        }
    }

    /// Returns the range that a loop runs over: `a..b`, `a..=b`, `(a..b).step_by(s)`, `(a..b).rev()`.
    fn range(&mut self, over: &Expr) -> Option<Range> {
        let is_traced = self.is_traced();
        let of = |plain, traced| match is_traced {
            true => traced,
            false => plain,
        };
        match over {
            Expr::Paren(inner) => self.range(&inner.expr),
            Expr::Range(range) => {
                let (Some(start), Some(end)) = (&range.start, &range.end) else {
                    self.refuse(
                        range,
                        "a loop has both bounds, `0..n`: use `loop` for one without end",
                    );
                    return None;
                };
                let (start, end) = (self.expression(start), self.expression(end));
                let function = match range.limits {
                    RangeLimits::HalfOpen(_) => of("range", "for_range"),
                    RangeLimits::Closed(_) => of("inclusive", "for_inclusive"),
                };
                let bounds = vec![start, end];
                Some(Range { function, bounds })
            }
            Expr::MethodCall(call) if call.method == "step_by" && call.args.len() == 1 => {
                let mut range = self.half_open(&call.receiver)?;
                range.bounds.push(self.expression(&call.args[0]));
                range.function = of("steps", "for_steps");
                Some(range)
            }
            Expr::MethodCall(call) if call.method == "rev" && call.args.is_empty() => {
                let mut range = self.half_open(&call.receiver)?;
                range.function = of("reversed", "for_reversed");
                Some(range)
            }
            other => {
                self.refuse(
                    other,
                    "a loop of a kernel runs over a range, `a..b`, `(a..b).step_by(s)` or `(a..b).rev()`: loop over indices, `for i in 0..x.len()`",
                );
                None
            }
        }
    }

    fn half_open(&mut self, over: &Expr) -> Option<Range> {
        let range = self.range(over)?;
        if matches!(range.function, "range" | "for_range") {
            return Some(range);
        }
        self.refuse(
            over,
            "only a range `a..b` has steps and a reverse here: write `a..b + 1`",
        );
        None
    }

    /// Rewrites `return`, `break` and `continue`. `is_statement`: their value is not used.
    pub(super) fn jump(&mut self, it: &Expr, is_statement: bool) -> TokenStream {
        let span = it.span();
        if self.leaves_closure(it, span) {
            return TokenStream::new();
        }
        let jump = match it {
            Expr::Return(it) => {
                self.returns = true;
                let value = it.expr.as_ref().map(|value| self.expression(value));
                match (self.form, self.function.is_kernel()) {
                    (Form::Plain, _) if self.function.is_method => {
                        return quote_spanned!(span=> return #value);
                    }
                    // A pair, as `gate` has it.
                    (Form::Plain, _) => {
                        let value = value.unwrap_or_else(|| quote!(()));
                        return quote_spanned!(span=> return (#value, ()));
                    }
                    (Form::Traced, true) => quote_spanned!(span=> __k.end_thread()),
                    (Form::Traced, false) => {
                        let value = value.unwrap_or_else(|| quote!(()));
                        quote_spanned!(span=> { let __value = #value; __exit.with(__value) })
                    }
                }
            }
            Expr::Break(it) => {
                let (assign, jump) = self.leave(it);
                if self.form == Form::Plain {
                    return jump;
                }
                quote_spanned!(span=> { #assign #jump })
            }
            Expr::Continue(it) => {
                let label = &it.label;
                match self.form {
                    Form::Plain => return quote_spanned!(span=> continue #label),
                    Form::Traced => jump_of(label.as_ref(), &quote!(Continue), span),
                }
            }
            other => return self.expression(other),
        };
        if is_statement {
            return jump;
        }
        let never = self.path(span, "never");
        quote_spanned!(span=> { #jump; #never(__k) })
    }

    /// Returns the label of a plain loop, and the tracer of a traced one.
    pub(super) fn label(&self, label: Option<&Label>) -> (TokenStream, TokenStream) {
        match label {
            Some(label) => {
                let name = label.name.ident.to_string();
                (quote!(#label), quote!(__k.label(#name)))
            }
            None => (TokenStream::new(), quote!(__k)),
        }
    }
}

/// Returns a traced `break` or `continue`.
fn jump_of(label: Option<&Lifetime>, jump: &TokenStream, span: Span) -> TokenStream {
    let jump = quote!(::millstream::__kernel::traced::Jump::#jump);
    match label {
        Some(label) => {
            let name = label.ident.to_string();
            quote_spanned!(span=> __k.jump_to(#name, #jump))
        }
        None => quote_spanned!(span=> __k.jump(#jump)),
    }
}
