//! What this rank waits for, as the application sees it.

use std::fmt;

/// A call of this rank that waits, or the making of a group: see [`World::waiting`](crate::World::waiting).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Waiting {
    /// What was called, and where.
    pub call: String,
    /// Whether the data of the call is ready on this rank.
    pub is_ready: bool,
    /// The ranks that have not joined the call: they have not made it, or its data is not ready there, or they do not run.
    /// Counted in the group; of a group that is being made, in the world. Empty if all have joined it, or if this is not
    /// known.
    pub missing: Vec<usize>,
}

/// The number of ranks that a text lists.
const LISTED: usize = 8;

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            call,
            is_ready,
            missing,
        } = self;
        write!(f, "{call} waits")?;
        if !is_ready {
            f.write_str(": its data is not ready on this rank")?;
        }
        let and = if *is_ready { ":" } else { ", and" };
        let listed: Vec<_> = missing
            .iter()
            .take(LISTED)
            .map(ToString::to_string)
            .collect();
        let listed = listed.join(", ");
        let more = match missing.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match missing.len() {
            0 => return Ok(()),
            1 => write!(f, "{and} rank {listed} has"),
            _ => write!(f, "{and} the ranks {listed}{more} have"),
        }?;
        f.write_str(" not joined it (not called, or its data is not ready there)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_the_ranks_that_are_missing() {
        let mut waiting = Waiting {
            call: "`all_gather` of 4 f32 each at a.rs:1:2".to_owned(),
            is_ready: true,
            missing: Vec::new(),
        };
        assert_eq!(
            waiting.to_string(),
            "`all_gather` of 4 f32 each at a.rs:1:2 waits"
        );
        waiting.missing = vec![3];
        assert_eq!(
            waiting.to_string(),
            "`all_gather` of 4 f32 each at a.rs:1:2 waits: rank 3 has not joined it (not called, or its data is not ready there)"
        );
        waiting.missing = (1..12).collect();
        waiting.is_ready = false;
        assert_eq!(
            waiting.to_string(),
            "`all_gather` of 4 f32 each at a.rs:1:2 waits: its data is not ready on this rank, and the ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 more have not joined it (not called, or its data is not ready there)"
        );
    }
}
