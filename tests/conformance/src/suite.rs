//! How the list of facts becomes tests: the macro [`suite!`](crate::suite!).

/// Registers every fact as a test on a device, once for each way in which it is opened: `threads`, `one_queue`, `driven`.
///
/// ```ignore
/// millstream_conformance::suite!(yours: Yours; threads, driven);
/// ```
/// expands to the module `yours` with `yours::threads::memory::cleanup_gives_unused_pages_back` and so on. The subject
/// is a constant expression: a unit struct, for one.
#[macro_export]
macro_rules! suite {
    ($name:ident: $subject:expr; $($way:ident),+ $(,)?) => {
        mod $name {
            #[allow(unused_imports, reason = "the subject may have a path of its own")]
            use super::*;

            fn on(way: $crate::Way) -> $crate::On {
                $crate::On::new(&$subject, way)
            }

            $($crate::__facts! { __tests ($way) })+
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __way {
    (threads) => {
        $crate::Way::Threads
    };
    (one_queue) => {
        $crate::Way::OneQueue
    };
    (driven) => {
        $crate::Way::Driven
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    (($way:ident) $($module:ident { $($fact:ident $([$($need:ident),+])?;)+ })+) => {
        mod $way {
            #[test]
            fn skipped_facts() {
                $crate::list::tell_skipped(super::on($crate::__way!($way)));
            }

            $(mod $module {
                $(#[test]
                fn $fact() {
                    let on = super::super::on($crate::__way!($way));
                    $crate::list::test(on, stringify!($module), stringify!($fact));
                })+
            })+
        }
    };
}
