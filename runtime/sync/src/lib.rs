//! The door to threads and atomics, and the primitives that millstream builds on it.
