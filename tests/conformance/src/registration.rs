//! The macro [`suite!`](crate::suite!), which turns the list of tests into functions with `#[test]`.

/// Registers every test of the suite for a device, once for each mode: `threads`, `one_queue`, `driven`.
///
/// ```ignore
/// millstream_conformance::suite!(yours: Yours; threads, driven);
/// ```
/// expands to the module `yours` with `yours::threads::memory::cleanup_gives_unused_pages_back` and so on. The subject
/// is a constant expression, for example a unit struct.
#[macro_export]
macro_rules! suite {
    ($name:ident: $subject:expr; $($mode:ident),+ $(,)?) => {
        mod $name {
            #[allow(unused_imports, reason = "the subject may be given by a path")]
            use super::*;

            fn on(mode: $crate::Mode) -> $crate::On {
                $crate::On::new(&$subject, mode)
            }

            $($crate::__list! { __functions ($mode) })+
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __mode {
    (threads) => {
        $crate::Mode::Threads
    };
    (one_queue) => {
        $crate::Mode::OneQueue
    };
    (driven) => {
        $crate::Mode::Driven
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __functions {
    (($mode:ident) $($module:ident { $($test:ident $([$($need:ident),+])?;)+ })+) => {
        mod $mode {
            #[test]
            fn skipped_tests() {
                $crate::list::print_skipped(super::on($crate::__mode!($mode)));
            }

            $(mod $module {
                $(#[test]
                fn $test() {
                    let on = super::super::on($crate::__mode!($mode));
                    $crate::list::run(on, stringify!($module), stringify!($test));
                })+
            })+
        }
    };
}
