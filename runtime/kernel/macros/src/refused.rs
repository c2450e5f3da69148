//! Names that Rust has and kernels do not, and what to write instead.
//!
//! Only names that no helper function or struct of a user is likely to have: of others rustc says that they do not exist.

use syn::Path;

const ALLOCATION: &str =
    "kernels allocate nothing: use an array, `[0.0; 8]`, or a buffer that the caller passes";
const ENUM: &str = "kernels have no enums: use a number, and a value of it that means none";
const FAILURE: &str = "kernels do not panic: write `debug_assert!(false, ..)`, or return from the thread and store a code in a buffer";
const CLOSED: &str =
    "kernels pass no closures: write a loop, or a helper function with `#[kernel]`";
const OF_INTEGERS: &str = "arithmetic of kernels wraps: compute in a wider type, or compare before";

/// Types that allocate.
const ALLOCATED: &[&str] = &[
    "Arc", "BTreeMap", "BTreeSet", "Box", "HashMap", "HashSet", "Rc", "String", "Vec", "VecDeque",
];

/// Returns `true` for the name of a type that allocates.
pub(crate) fn is_allocated(name: &str) -> bool {
    ALLOCATED.contains(&name)
}

/// Returns why kernels have no macro of this name.
pub(crate) fn macro_named(path: &Path) -> String {
    let name = last(path);
    let instead = match name.as_str() {
        "vec" | "format" => return ALLOCATION.to_owned(),
        "panic" | "todo" | "unimplemented" | "unreachable" => FAILURE,
        "assert" | "assert_eq" | "assert_ne" => {
            "kernels do not panic: write `debug_assert!`, or store a code in a buffer"
        }
        "eprint" | "eprintln" | "dbg" | "write" | "writeln" => {
            "kernels print with `println!`, whose lines `Stream::printed` returns"
        }
        "env" | "include" | "include_str" | "line" | "concat" => {
            return format!(
                "kernels have no `{name}!`: put its value in a `const` beside the kernel"
            );
        }
        _ => return format!("kernels have no macro `{name}!`: write what it stands for"),
    };
    instead.to_owned()
}

/// Returns why kernels have no method of this name.
pub(crate) fn method(name: &str) -> Option<&'static str> {
    Some(match name {
        "clone" | "copied" | "cloned" | "to_owned" | "borrow" | "borrow_mut" | "as_ref"
        | "as_mut" => "values of kernels are copied: remove the call",
        "iter" | "iter_mut" | "into_iter" | "zip" | "enumerate" | "chunks" | "chunks_exact"
        | "windows" | "for_each" | "par_iter" => {
            "kernels have no iterators: loop over indices, `for i in 0..x.len()`"
        }
        "step_by" | "rev" => "a loop has its range in parentheses: `for i in (0..n).step_by(2)`",
        "map" | "filter" | "fold" | "and_then" | "then" | "then_some" => CLOSED,
        "unwrap" | "expect" | "unwrap_or" | "unwrap_or_default" | "ok" | "is_some" | "is_none" => {
            "kernels have no enums: compare an index with the length, cast a number with `as`"
        }
        "push" | "pop" | "to_vec" | "collect" | "to_string" | "extend" | "insert" => ALLOCATION,
        "get" | "get_mut" | "get_unchecked" | "get_unchecked_mut" | "as_ptr" | "as_mut_ptr" => {
            "a buffer is accessed by index, `x[i]`: use `#[kernel(unsafe(unchecked))]` for unchecked accesses"
        }
        "fill" | "swap" | "sort" | "reverse" | "copy_from_slice" | "split_at" | "split_at_mut" => {
            "kernels have no functions of whole buffers: write a loop over indices"
        }
        "try_into" => "kernels cast with `as`: `x as f32`",
        "checked_add" | "checked_sub" | "checked_mul" | "checked_div" | "saturating_mul"
        | "overflowing_add" | "overflowing_sub" | "overflowing_mul" => OF_INTEGERS,
        "await" => "kernels are not `async`: their launch is",
        "load" | "store" => {
            "an atomic is an element of a buffer `&[Atomic<T>]` or of a shared array: `x[i].load()`"
        }
        "compare_exchange_weak" | "compare_and_swap" => {
            "kernels have `x[i].compare_exchange(expected, new)`, which returns the value before"
        }
        "fetch_update" | "fetch_nand" => {
            "kernels have no `fetch_update` and `fetch_nand`: loop with `x[i].compare_exchange(expected, new)`"
        }
        _ => return None,
    })
}

/// Returns why kernels do not call a function.
pub(crate) fn function(path: &Path) -> Option<String> {
    let (name, owner) = (last(path), owner(path));
    let of_type = owner.as_deref();
    let first = path.segments.first().map(|first| first.ident.to_string());
    Some(match (of_type, name.as_str()) {
        (None, "Some" | "Ok" | "Err") => ENUM.to_owned(),
        (None, "drop") => "kernels have nothing to drop: remove the call".to_owned(),
        (None, "size_of" | "align_of" | "size_of_val") => {
            format!("kernels have no `{name}`: put its value in a `const` beside the kernel")
        }
        (_, "swap") if path.segments.len() > 1 => {
            "kernels have no references to values: swap by a variable, `let t = a; a = b; b = t;`"
                .to_owned()
        }
        (Some("Default"), _) => "kernels know no default of a value: write it, `0.0`".to_owned(),
        (Some(of), _) if is_allocated(of) => ALLOCATION.to_owned(),
        (Some(of), "try_from") if is_number(of) => {
            format!("kernels cast with `as`: `x as {of}`")
        }
        (Some(of), _) if is_number(of) => {
            format!("kernels call it as a method: `x.{name}(..)`")
        }
        _ if matches!(first.as_deref(), Some("std" | "core" | "alloc")) => {
            "kernels call only functions with `#[kernel]`, and methods of numbers such as `x.sqrt()`"
                .to_owned()
        }
        _ => return None,
    })
}

/// Returns why kernels have no constant of this name.
pub(crate) fn constant(path: &Path) -> Option<&'static str> {
    path.is_ident("None").then_some(ENUM)
}

fn last(path: &Path) -> String {
    let last = path.segments.last();
    last.map_or_else(String::new, |last| last.ident.to_string())
}

/// Returns `Vec` of `Vec::new`, if a path has two segments.
fn owner(path: &Path) -> Option<String> {
    let owner = path.segments.iter().rev().nth(1)?;
    Some(owner.ident.to_string())
}

/// Returns `true` for the name of a number's type.
pub(crate) fn is_number(name: &str) -> bool {
    let all = [
        "f64", "f32", "f16", "bf16", "i64", "u64", "i32", "u32", "i16", "u16", "i8", "u8", "isize",
        "usize", "bool", "char",
    ];
    all.contains(&name)
}
