//! Bounds that nothing fulfils: what the macro writes has them where a call is a mistake, for their messages.

/// Of helper functions that only kernels with a cube call.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is a helper function of threads that work together",
    label = "the threads here do not",
    note = "declare their number, `#[kernel(cube = 256)]`; for a helper function write `#[kernel(in_cube)]`"
)]
pub trait InCube {}

/// Of what calls a helper function `F`: of a tracer, whose type rustc does not know if it has shown the same mistake of the
/// plain form.
#[diagnostic::on_unimplemented(
    message = "`{F}` is a kernel whose threads have numbers, and no helper function",
    label = "only a launch gives threads numbers",
    note = "a helper function gets numbers from its caller: pass `thread()` as a parameter"
)]
pub trait Calls<F> {}
