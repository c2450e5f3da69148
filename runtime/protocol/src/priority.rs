//! The priority of a client.

/// The priority of a client's streams.
///
/// Streams of different priorities are assigned to different queues if there are enough. On a queue that they share,
/// 8 of 13 turns go to high, 4 to normal and 1 to low, as long as all three have tasks.
// The order of the variants is their code in a submission log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub enum Priority {
    /// Work that can wait: a batch job beside a service.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Work whose result a user waits for.
    High,
}

impl Priority {
    /// The number of priorities.
    pub const COUNT: usize = 3;
    /// All priorities, the lowest first.
    pub const ALL: [Self; Self::COUNT] = [Self::Low, Self::Normal, Self::High];
}
