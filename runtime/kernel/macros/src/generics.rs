//! Which generic parameters a kernel may have: numbers, by a bound that makes them so, and constants.

use syn::{Error, GenericParam, Generics, Result, Type, TypeParamBound, WherePredicate};

use crate::types::refuse_type;

/// Bounds of the standard library, none of which makes a type a number.
const NO_NUMBER: &[&str] = &[
    "Add",
    "AddAssign",
    "Clone",
    "Copy",
    "Debug",
    "Default",
    "Display",
    "Div",
    "Eq",
    "From",
    "Into",
    "Mul",
    "MulAssign",
    "Neg",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Rem",
    "Send",
    "Sized",
    "Sub",
    "SubAssign",
    "Sum",
    "Sync",
];

/// Refuses generic parameters that are no numbers.
pub(crate) fn refuse(generics: &Generics) -> Result<()> {
    let mut unbound = Vec::new();
    for param in &generics.params {
        match param {
            GenericParam::Lifetime(lifetime) => {
                let why = "a kernel has no lifetimes: its buffers live as long as the launch; write `&[T]`";
                return Err(Error::new_spanned(lifetime, why));
            }
            GenericParam::Type(of) if of.bounds.iter().all(is_no_number) => unbound.push(of),
            GenericParam::Type(of) => of.bounds.iter().try_for_each(refuse_bound)?,
            GenericParam::Const(of) => refuse_type(&of.ty)?,
        }
    }
    let predicates = generics.where_clause.iter();
    let predicates = predicates.flat_map(|clause| &clause.predicates);
    for predicate in predicates {
        let WherePredicate::Type(of) = predicate else {
            let why = "a kernel has no lifetimes: remove the bound";
            return Err(Error::new_spanned(predicate, why));
        };
        of.bounds.iter().try_for_each(refuse_bound)?;
        if !of.bounds.iter().all(is_no_number) {
            let bounded = &of.bounded_ty;
            unbound.retain(
                |param| !matches!(bounded, Type::Path(of) if of.path.is_ident(&param.ident)),
            );
        }
    }
    let Some(param) = unbound.first() else {
        return Ok(());
    };
    let name = &param.ident;
    let why = format!(
        "a generic type of a kernel is a number: write `{name}: Number`, or the bound `Float` or `Int`"
    );
    Err(Error::new_spanned(param, why))
}

/// Returns `true` for a bound that does not make a type a number.
fn is_no_number(bound: &TypeParamBound) -> bool {
    match bound {
        TypeParamBound::Trait(of) => {
            let last = of.path.segments.last();
            last.is_some_and(|last| NO_NUMBER.contains(&last.ident.to_string().as_str()))
        }
        _ => true,
    }
}

/// Refuses a bound that no number has.
fn refuse_bound(bound: &TypeParamBound) -> Result<()> {
    let why = match bound {
        TypeParamBound::Trait(of) => {
            let last = of.path.segments.last().map(|last| last.ident.to_string());
            match last.as_deref() {
                Some("Fn" | "FnMut" | "FnOnce") => {
                    "kernels have no closures: make the function a helper function with `#[kernel]`"
                }
                _ => return Ok(()),
            }
        }
        _ => "a kernel has no lifetimes: remove the bound",
    };
    Err(Error::new_spanned(bound, why))
}
