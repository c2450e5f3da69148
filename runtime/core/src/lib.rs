//! Deciding: hazards, memory, streams and the compute server of millstream, as plain state machines.
