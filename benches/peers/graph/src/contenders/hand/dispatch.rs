//! Compiles a loop for several processors, and chooses one version at run time.

/// Defines a function from a body that is generic over whether the processor has a fused multiply-add.
///
/// The body must be inlined: then it is compiled with the instructions of the function that it is inlined into.
macro_rules! dispatched {
    ($(#[$doc:meta])* $name:ident = $body:ident($($argument:ident: $kind:ty),*)) => {
        $(#[$doc])*
        pub(crate) fn $name($($argument: $kind),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn widest($($argument: $kind),*) {
                    $body::<true>($($argument),*);
                }
                #[target_feature(enable = "avx2,fma")]
                fn wide($($argument: $kind),*) {
                    $body::<true>($($argument),*);
                }
                let fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
                let of_512 = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl");
                if fma && of_512 {
                    // SAFETY: the processor has all that the function is compiled for.
                    return unsafe { widest($($argument),*) };
                }
                if fma {
                    // SAFETY: the processor has all that the function is compiled for.
                    return unsafe { wide($($argument),*) };
                }
            }
            $body::<false>($($argument),*);
        }
    };
}

pub(super) use dispatched;
