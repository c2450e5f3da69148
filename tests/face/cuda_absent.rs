//! A machine without a GPU: asking for one is an answer, and nothing else changes.

use millstream::{Cuda, Device, OpenError};

/// I5: whatever is missing, from the library to the GPU, is said with what to do, and nothing panics.
#[test]
fn a_gpu_that_is_not_there_is_a_typed_error_i5() {
    // No machine has so many.
    let told = Device::open(Cuda::ordinal(4_000)).unwrap_err();
    let OpenError::Unavailable {
        backend: "cuda",
        why,
    } = &told
    else {
        panic!("{told:?}");
    };
    assert!(
        why.contains("install") || why.contains("look at") || why.contains("choose"),
        "{why}"
    );
    match millstream::cuda::gpus() {
        Ok(gpus) => assert!(!gpus.is_empty()),
        Err(again) => assert_eq!(again, told, "asked again, it says the same"),
    }
}

/// Options are looked at before the driver is.
#[test]
fn queues_that_cannot_be_are_refused_with_what_can() {
    for queues in [0, 17] {
        let told = Device::open(Cuda::ordinal(0).queues(queues)).unwrap_err();
        assert_eq!(
            told.to_string(),
            format!(
                "option `queues` is {queues}, it must be from 1 to 16, and to 14 beside priority queues"
            )
        );
    }
}
