//! What a device did: profiles, timelines, and the log of its submissions.

pub(crate) mod log;
pub(crate) mod profile;
pub(crate) mod timeline;
