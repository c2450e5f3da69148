//! The CUDA backend on a fake driver: tests alone, in `tests/`. See the page of the fake, `tests/cuda/fake/README.md`.
