//! The algorithms of Rodinia (Che and others, 2009), a suite of benchmarks for GPUs.

pub mod back_propagation;
pub mod breadth_first;
pub mod hotspot;
pub mod k_means;
pub mod lu;
pub mod needle;
