//! Tests of the CUDA backend on a fake driver. This package has only tests, in `tests/`; `tests/cuda/fake/README.md`
//! describes the fake.
