//! Per-thread flags. A model's threads share one thread of the system, so they need flags of their own.

/// Declares a per-thread flag, initially `false`: a type with `get`, `set` and `replace`.
///
/// ```
/// millstream_sync::thread_flag! {
///     /// Whether the thread is at work.
///     AtWork
/// }
/// let before = AtWork::replace(true);
/// assert!(AtWork::get() && !before);
/// ```
#[macro_export]
macro_rules! thread_flag {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        struct $name;

        impl $name {
            #[inline]
            fn with<R>(f: impl FnOnce(&::std::cell::Cell<bool>) -> R) -> R {
                $crate::__thread_local! {
                    static FLAG: ::std::cell::Cell<bool> = ::std::cell::Cell::new(false)
                }
                if !$crate::facade::THREADS && ::std::thread::panicking() {
                    // A model that has failed is torn down, its threads' flags with it.
                    return f(&::std::cell::Cell::new(false));
                }
                FLAG.with(f)
            }

            #[inline]
            #[allow(dead_code, reason = "not every flag uses each method")]
            fn get() -> bool {
                Self::with(::std::cell::Cell::get)
            }

            #[inline]
            #[allow(dead_code, reason = "not every flag uses each method")]
            fn set(value: bool) {
                Self::with(|flag| flag.set(value));
            }

            #[inline]
            #[allow(dead_code, reason = "not every flag uses each method")]
            fn replace(value: bool) -> bool {
                Self::with(|flag| flag.replace(value))
            }
        }
    };
}

#[cfg(all(loom, any(feature = "loom", feature = "model")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __thread_local {
    ($(#[$meta:meta])* static $name:ident: $type:ty = $init:expr) => {
        $crate::facade::checker::thread_local! {
            $(#[$meta])*
            static $name: $type = $init;
        }
    };
}

#[cfg(not(all(loom, any(feature = "loom", feature = "model"))))]
#[doc(hidden)]
#[macro_export]
macro_rules! __thread_local {
    ($(#[$meta:meta])* static $name:ident: $type:ty = $init:expr) => {
        $crate::facade::checker::thread_local! {
            $(#[$meta])*
            static $name: $type = const { $init };
        }
    };
}
