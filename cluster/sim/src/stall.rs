//! The report of ranks that wait for calls which were not made.

/// A call that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Waiting {
    /// What was called, and where.
    pub call: String,
    /// A rank whose part has begun, counted in the call's group.
    pub rank: usize,
    /// A rank that has not made the call; `None` if all have, and the data of one is not ready.
    pub missing: Option<usize>,
}

/// Nothing more can happen, but calls wait for each other or for ranks that have not made them.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", describe(.waiting))]
pub struct Stalled {
    /// The calls that wait, of all ranks.
    pub waiting: Vec<Waiting>,
}

/// The number of calls that a text lists.
const LISTED: usize = 8;

fn describe(waiting: &[Waiting]) -> String {
    let mut text = match waiting.len() {
        1 => "1 call waits, and nothing more can happen:".to_owned(),
        calls => format!("{calls} calls wait, and nothing more can happen:"),
    };
    for Waiting {
        call,
        rank,
        missing,
    } in waiting.iter().take(LISTED)
    {
        let why = match missing {
            Some(rank) => format!("rank {rank} has not made the call"),
            None => "all ranks have made it, but the data of one is not ready".to_owned(),
        };
        text += &format!("\n  rank {rank} waits in {call}: {why}");
    }
    if waiting.len() > LISTED {
        text += &format!("\n  and {} more", waiting.len() - LISTED);
    }
    text + "\nevery rank must make the same collectives of a group in the same order, and each send needs its receive"
}
