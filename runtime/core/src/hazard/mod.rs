//! Who must run before whom: access logs, clocks and points.

pub mod points;
