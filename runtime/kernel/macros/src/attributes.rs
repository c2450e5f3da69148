//! Which attributes a kernel, its parameters and its statements may have: those that mean the same in all that the macro
//! writes. Any other would have no effect, and `#[cfg]` would leave what it removes.

use syn::visit_mut::VisitMut;
use syn::{Attribute, Error, Item, ItemFn, Result};

/// Refuses attributes without effect.
pub(crate) fn refuse(item: &mut ItemFn) -> Result<()> {
    let mut found = Found {
        why: |_| OF_FUNCTION,
        error: None,
    };
    item.attrs
        .iter()
        .for_each(|attribute| found.look_at(attribute));
    found.why = |path| match path {
        "whole" => "`#[whole]` is for buffers: `#[whole] y: &mut [T]`",
        "cfg" => "parameters of kernels have no `#[cfg]`: write two kernels",
        _ => "remove it: parameters of kernels have the attribute `#[whole]`",
    };
    for param in &item.sig.inputs {
        let syn::FnArg::Typed(param) = param else {
            continue;
        };
        let others = param.attrs.iter().filter(|it| !it.path().is_ident("whole"));
        others.for_each(|attribute| found.look_at(attribute));
    }
    found.why = |_| OF_STATEMENT;
    found.visit_block_mut(&mut item.block);
    found.error.map_or(Ok(()), Err)
}

const OF_FUNCTION: &str =
    "this attribute has no effect on a kernel: remove it; `#[cfg]` stands above `#[kernel]`";
const OF_STATEMENT: &str = "this attribute has no effect in a kernel: remove it; instead of `#[cfg]`, test a `const` beside the kernel, \
    `const FAST: bool = cfg!(feature = \"fast\");`";

/// The errors.
struct Found {
    why: fn(&str) -> &'static str,
    error: Option<Error>,
}

impl Found {
    fn look_at(&mut self, attribute: &Attribute) {
        let path = attribute.path();
        let first = path.segments.first().map(|first| first.ident.to_string());
        let first = first.unwrap_or_default();
        let is_known = matches!(
            first.as_str(),
            "allow" | "clippy" | "deny" | "doc" | "expect" | "rustfmt" | "warn"
        );
        if is_known {
            return;
        }
        let error = Error::new_spanned(attribute, (self.why)(&first));
        match &mut self.error {
            Some(all) => all.combine(error),
            None => self.error = Some(error),
        }
    }
}

impl VisitMut for Found {
    fn visit_attribute_mut(&mut self, attribute: &mut Attribute) {
        self.look_at(attribute);
    }

    // An item is an error itself.
    fn visit_item_mut(&mut self, _: &mut Item) {}
}
