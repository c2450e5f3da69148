//! What hides the errors of a traced body if rustc shows the same of the plain one (the macro's module `gate` has why).

/// Implemented for `[(); N]`: rustc knows the types [`Gate::Of`] only if it can compute `N`.
pub trait Gate {
    /// `T`.
    type Of<T>;
    /// Returns the value.
    fn open<T>(value: T) -> Self::Of<T>;
}

impl<const N: usize> Gate for [(); N] {
    type Of<T> = T;

    fn open<T>(value: T) -> T {
        value
    }
}

/// Returns the size of what a function returns.
pub const fn size_of_output<A, R, F: Fn(A) -> R>(_: &F) -> usize {
    size_of::<R>()
}
