//! On a machine without a GPU, opening one returns an error and changes nothing else.

use millstream::{Cuda, Device, OpenError};

/// I5: if the library or the GPU is missing, the error says what to do, and nothing panics.
#[test]
fn opening_a_missing_gpu_returns_a_typed_error_i5() {
    // No machine has 4,000 GPUs.
    let error = Device::open(Cuda::ordinal(4_000)).unwrap_err();
    let OpenError::Unavailable {
        backend: "cuda",
        why,
    } = &error
    else {
        panic!("{error:?}");
    };
    assert!(
        why.contains("install") || why.contains("check") || why.contains("choose"),
        "{why}"
    );
    match millstream::cuda::gpus() {
        Ok(gpus) => assert!(!gpus.is_empty()),
        Err(again) => assert_eq!(again, error, "the second query returns another error"),
    }
}

/// Options are checked before the driver is loaded.
#[test]
fn a_queue_count_out_of_range_is_refused_with_the_valid_range() {
    for queues in [0, 17] {
        let error = Device::open(Cuda::ordinal(0).queues(queues)).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "option `queues` must be from 1 to 16, or from 1 to 14 with priority queues, got {queues}"
            )
        );
    }
}
