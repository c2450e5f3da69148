//! Facts about the pools, one by one, and their rig. The crate's `tests/memory` checks arbitrary sequences of requests
//! against an oracle.

mod pages;
mod reuse;

use std::collections::HashMap;

use millstream_protocol::{Point, QueueId};

use super::*;

const A: QueueId = QueueId(0);
const B: QueueId = QueueId(1);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A device with a memory limit that counts its pages.
struct Source {
    pages: HashMap<PageId, u64>,
    limit: u64,
    requested: Vec<u64>,
    error: Option<PageError>,
}

impl Source {
    fn new(limit: u64) -> Self {
        Self {
            pages: HashMap::new(),
            limit,
            requested: Vec::new(),
            error: None,
        }
    }

    fn used(&self) -> u64 {
        self.pages.values().sum()
    }
}

impl PageSource for Source {
    fn allocate_page(&mut self, bytes: u64) -> Result<PageId, PageError> {
        self.requested.push(bytes);
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.used() + bytes > self.limit {
            return Err(PageError::OutOfMemory {
                free: Some(self.limit - self.used()),
            });
        }
        let id = PageId(self.requested.len() as u32);
        self.pages.insert(id, bytes);
        Ok(id)
    }

    fn free_page(&mut self, page: PageId) {
        assert!(self.pages.remove(&page).is_some(), "{page} is freed once");
    }
}

fn point(queue: QueueId, cursor: u64) -> Points {
    Points::from(Point::new(queue, cursor))
}

/// The points of `queue` are covered, others are not.
fn own(queue: QueueId) -> impl Fn(Point) -> bool {
    move |point| point.queue == queue
}

/// Pools and their device.
struct Rig {
    pools: Pools,
    source: Source,
}

impl Rig {
    fn new(options: MemoryOptions, limit: u64) -> Self {
        Self {
            pools: Pools::new(options, 256),
            source: Source::new(limit),
        }
    }

    fn try_reserve(
        &mut self,
        bytes: u64,
        mode: AllocationMode,
        queue: QueueId,
    ) -> Result<(Reservation, Points), PageError> {
        self.pools
            .reserve(&mut self.source, bytes, mode, queue, &own(queue))
    }

    /// Returns `true` if a range became clean.
    fn pass(&mut self, queue: QueueId, cursor: u64) -> bool {
        let mut any = false;
        self.pools.passed(queue, cursor, |_| any = true);
        any
    }

    fn reserve(&mut self, bytes: u64, queue: QueueId) -> (Reservation, Points) {
        self.try_reserve(bytes, AllocationMode::Automatic, queue)
            .unwrap()
    }
}

fn rig() -> Rig {
    Rig::new(MemoryOptions::default(), u64::MAX)
}
