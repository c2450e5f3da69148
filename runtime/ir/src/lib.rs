//! Element types of millstream's kernels and tensors.
