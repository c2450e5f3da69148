//! How urgent work is.

/// How urgent a client's work is.
///
/// Streams of different priorities sit on different queues where there are enough; on a queue that they
/// share, of 13 turns 8 go to high, 4 to normal and 1 to low, as long as all have work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Priority {
    /// Work that can wait: a batch job beside a service.
    Low,
    /// Everything that says nothing.
    #[default]
    Normal,
    /// Work whose result a user waits for.
    High,
}

impl Priority {
    /// Number of priorities.
    pub const COUNT: usize = 3;
    /// The least urgent first.
    pub const ALL: [Self; Self::COUNT] = [Self::Low, Self::Normal, Self::High];
}
