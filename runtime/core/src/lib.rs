//! Deciding: the hazards, memory, streams and compute server of millstream.
//!
//! Everything here is a plain state machine. No thread is started, no clock is read and no I/O is
//! done; the actors run these machines and backends do what they decide.

pub mod hazard;
pub mod id;
pub mod memory;
