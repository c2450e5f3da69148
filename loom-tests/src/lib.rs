//! Loom models of millstream's primitives.
