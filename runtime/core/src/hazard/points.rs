//! Points that still use a range.
