//! Submission logs of a program without the feature `journal`: there are none.

/// The log of a device, which no device writes.
pub enum SubmissionLog {}
