//! Values that cost less than a branch.

use syn::{BinOp, Expr, Stmt};

/// Returns the value of a block that is only a cheap value.
pub(super) fn cheap_value(statements: &[Stmt]) -> Option<&Expr> {
    match statements {
        [Stmt::Expr(value, None)] if is_cheap(value) => Some(value),
        _ => None,
    }
}

/// Returns the value of an `else` that is only a cheap value.
pub(super) fn cheap_arm(otherwise: &Expr) -> Option<&Expr> {
    match otherwise {
        Expr::Block(block) if block.label.is_none() => cheap_value(&block.block.stmts),
        _ => None,
    }
}

/// Returns `true` if a value costs less than a branch: it accesses no memory, calls nothing, and jumps nowhere.
pub(super) fn is_cheap(value: &Expr) -> bool {
    match value {
        Expr::Lit(_) | Expr::Path(_) => true,
        Expr::Paren(inner) => is_cheap(&inner.expr),
        Expr::Unary(unary) => is_cheap(&unary.expr),
        Expr::Cast(cast) => is_cheap(&cast.expr),
        Expr::Field(field) => is_cheap(&field.base),
        Expr::Binary(binary) => {
            is_cheap(&binary.left) && is_cheap(&binary.right) && !is_assignment(&binary.op)
        }
        Expr::MethodCall(call) => {
            let cheap = [
                "abs", "min", "max", "mul_add", "sqrt", "len", "floor", "ceil",
            ];
            cheap.iter().any(|name| call.method == name)
                && is_cheap(&call.receiver)
                && call.args.iter().all(is_cheap)
        }
        _ => false,
    }
}

/// Returns `true` for `+=` and the like.
pub(super) fn is_assignment(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}
