//! Blocks of GPU memory and pinned host memory.
//!
//! GPU addresses are virtual numbers that are never reused, so that a use after free is always found. Pinned blocks
//! have real addresses and are kept until the session ends, for the same reason. New memory is filled with a pattern
//! that is an unlikely value.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;

use crate::access::{AccessLog, Step};
use crate::clock::Clock;
use crate::code::Code;
use ptx::Kind;
use ptx::Window;

/// The first GPU address. No process has memory there.
const ADDRESS_FIRST: u64 = 0x0a00_0000_0000;
/// The alignment of allocations, as the driver has it.
const ALIGNMENT: u64 = 512;
/// The gap between blocks, so that an access past the end of a block is not in the next one.
const GAP: u64 = 4096;
/// The pattern of new GPU memory.
const NEW_DEVICE: u8 = 0xCB;
/// The pattern of new pinned memory.
const NEW_PINNED: u8 = 0xA7;
/// The pattern of freed pinned memory.
const FREED: u8 = 0xDD;

/// The bytes of a block, at a stable address.
struct Storage {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory, accessed under the lock of the state.
unsafe impl Send for Storage {}

impl Storage {
    fn new(bytes: usize, pattern: u8) -> Option<Self> {
        let layout = Layout::from_size_align(bytes.max(1), 4096).ok()?;
        // SAFETY: the layout has a non-zero size.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        let storage = Self { start, layout };
        storage.set(pattern);
        Some(storage)
    }

    fn set(&self, pattern: u8) {
        // SAFETY: the allocation has this size.
        unsafe { self.start.as_ptr().write_bytes(pattern, self.layout.size()) };
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// The functions that allocate and free a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AllocKind {
    /// `cuMemAllocFromPoolAsync`, `cuMemFreeAsync`
    Pool,
    /// `cuMemAlloc`, `cuMemFree`
    Device,
    /// `cuMemHostAlloc`, `cuMemFreeHost`
    Pinned,
}

/// The context, GPU and pool that a block was allocated in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) context: u64,
    pub(crate) gpu: usize,
    pub(crate) pool: Option<u64>,
}

struct Block {
    bytes: u64,
    kind: AllocKind,
    origin: Origin,
    /// The call that allocated it, for reports.
    allocated_by: String,
    /// `None` once GPU memory is freed.
    storage: Option<Storage>,
    accesses: AccessLog,
    /// The call that freed it. The bytes are released when the free is executed.
    freed_by: Option<String>,
    released: bool,
    /// For pinned blocks, the number of queued operations that use it, and the ranges that they write.
    pending: usize,
    expected_writes: Vec<Range<u64>>,
}

/// An invalid use of memory: the report, and the code that the call returns.
pub(crate) struct Violation {
    pub(crate) report: String,
    pub(crate) code: Code,
}

/// All blocks of a session.
#[derive(Default)]
pub(crate) struct Memory {
    blocks: BTreeMap<u64, Block>,
    next: u64,
    /// The memory of each GPU in bytes.
    pub(crate) bytes: u64,
    used: BTreeMap<usize, u64>,
    /// The freed bytes that each pool with a release threshold keeps, and its GPU.
    kept: BTreeMap<u64, (usize, u64)>,
}

impl Memory {
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            next: ADDRESS_FIRST,
            bytes,
            ..Self::default()
        }
    }

    /// Makes a pool keep the memory that is freed to it.
    pub(crate) fn keep(&mut self, pool: u64, gpu: usize) {
        self.kept.entry(pool).or_insert((gpu, 0));
    }

    /// Returns all but `keep` of the bytes that a pool keeps to its GPU.
    pub(crate) fn trim(&mut self, pool: u64, keep: u64) {
        if let Some((_, bytes)) = self.kept.get_mut(&pool) {
            *bytes = keep.min(*bytes);
        }
    }

    /// Ends a pool, with everything that it keeps.
    pub(crate) fn end_pool(&mut self, pool: u64) {
        self.kept.remove(&pool);
    }

    /// Returns the freed bytes that the pools of a GPU keep.
    fn kept_of(&self, gpu: usize) -> u64 {
        let of = self.kept.values().filter(|(of, _)| *of == gpu);
        of.map(|(_, bytes)| bytes).sum()
    }

    /// Returns the freed bytes that all pools keep.
    pub(crate) fn kept(&self) -> u64 {
        self.kept.values().map(|(_, bytes)| bytes).sum()
    }

    /// Returns the free bytes of a GPU.
    pub(crate) fn free_of(&self, gpu: usize) -> u64 {
        let taken = self.used(gpu) + self.kept_of(gpu);
        self.bytes.saturating_sub(taken)
    }

    /// Removes all blocks. Addresses are not reused.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.used.clear();
        self.kept.clear();
    }

    /// Returns the allocated bytes of a GPU.
    pub(crate) fn used(&self, gpu: usize) -> u64 {
        self.used.get(&gpu).copied().unwrap_or(0)
    }

    /// Returns the most allocated bytes of any GPU.
    pub(crate) fn used_max(&self) -> u64 {
        self.used.values().copied().max().unwrap_or(0)
    }

    pub(crate) fn allocate(
        &mut self,
        bytes: usize,
        kind: AllocKind,
        origin: Origin,
        allocated_by: String,
    ) -> Result<u64, Code> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let on_gpu = kind != AllocKind::Pinned;
        // A pool uses what it keeps first.
        let of_pool = origin.pool.and_then(|pool| self.kept.get(&pool));
        let reused = of_pool.map_or(0, |(_, kept)| (bytes as u64).min(*kept));
        if on_gpu && bytes as u64 - reused > self.free_of(origin.gpu) {
            return Err(Code::OUT_OF_MEMORY);
        }
        if let Some((_, kept)) = origin.pool.and_then(|pool| self.kept.get_mut(&pool)) {
            *kept -= reused;
        }
        let pattern = if on_gpu { NEW_DEVICE } else { NEW_PINNED };
        let storage = Storage::new(bytes, pattern).ok_or(Code::OUT_OF_MEMORY)?;
        let address = if on_gpu {
            *self.used.entry(origin.gpu).or_default() += bytes as u64;
            let address = self.next;
            self.next = (address + bytes as u64 + GAP).next_multiple_of(ALIGNMENT);
            address
        } else {
            storage.start.as_ptr() as u64
        };
        let block = Block {
            bytes: bytes as u64,
            kind,
            origin,
            allocated_by,
            storage: Some(storage),
            accesses: AccessLog::default(),
            freed_by: None,
            released: false,
            pending: 0,
            expected_writes: Vec::new(),
        };
        self.blocks.insert(address, block);
        Ok(address)
    }

    fn find(&mut self, address: u64) -> Option<(u64, &mut Block)> {
        let (start, block) = self.blocks.range_mut(..=address).next_back()?;
        let known = address - start < block.bytes.max(1);
        known.then_some((*start, block))
    }

    /// Returns the origin of the GPU memory at this address.
    pub(crate) fn origin(&mut self, address: u64) -> Option<Origin> {
        let (_, block) = self.find(address)?;
        (block.kind != AllocKind::Pinned).then_some(block.origin)
    }

    /// Returns `true` if the address is within a pinned block.
    pub(crate) fn is_pinned(&mut self, address: u64) -> bool {
        self.find(address)
            .is_some_and(|(_, block)| block.kind == AllocKind::Pinned)
    }

    /// Returns a pointer to bytes of a block. The block must exist, and its free must not have been executed.
    pub(crate) fn at(&mut self, name: &str, range: Range<u64>) -> Result<NonNull<u8>, Violation> {
        let start = range.start;
        let window = self.window(name, range)?;
        // SAFETY: `window` checked that the range is within the block.
        Ok(unsafe { window.at.add((start - window.start) as usize) })
    }

    /// Returns the block with these bytes, with the same checks.
    pub(crate) fn window(&mut self, name: &str, range: Range<u64>) -> Result<Window, Violation> {
        let (start, len) = (range.start, range.end - range.start);
        let illegal = |report| {
            Err(Violation {
                report,
                code: Code::ILLEGAL_ADDRESS,
            })
        };
        let before = self.blocks.range_mut(..=start).next_back();
        let near = before.filter(|(base, block)| start - **base < block.bytes + GAP);
        let Some((&base, block)) = near else {
            return illegal(format!(
                "no such memory: {name} accesses {len} bytes at {start:#x}, where no block was allocated"
            ));
        };
        let allocated_by = &block.allocated_by;
        if range.end - base > block.bytes {
            return illegal(format!(
                "out of bounds: {name} accesses {len} bytes at offset {} of the {} bytes that {allocated_by} allocated",
                start - base,
                block.bytes
            ));
        }
        match (&block.storage, &block.freed_by) {
            (Some(storage), _) if !block.released => Ok(Window {
                start: base,
                bytes: block.bytes,
                at: storage.start,
            }),
            (_, by) => illegal(format!(
                "use after free: {name} accesses {len} bytes at {start:#x}, allocated by {allocated_by} and freed by {}",
                by.as_deref().unwrap_or("an unknown call")
            )),
        }
    }

    /// Records an access to existing bytes. Returns a report for each race.
    pub(crate) fn record_access(
        &mut self,
        step: &Step,
        kind: Kind,
        range: Range<u64>,
    ) -> Vec<String> {
        match self.find(range.start) {
            Some((_, block)) => block.accesses.record(step, kind, range),
            None => Vec::new(),
        }
    }

    /// Returns `true` if the access log of the block at this address should be pruned.
    pub(crate) fn is_log_full(&mut self, address: u64) -> bool {
        self.find(address)
            .is_some_and(|(_, block)| block.accesses.is_full())
    }

    /// Removes the accesses that every actor knows from the log of a block.
    pub(crate) fn prune_log(&mut self, address: u64, known: &Clock) {
        if let Some((_, block)) = self.find(address) {
            block.accesses.prune(known);
        }
    }

    /// Marks the block at exactly this address as freed by the call `by`. [`Memory::release`] releases it.
    pub(crate) fn begin_free(
        &mut self,
        address: u64,
        kind: AllocKind,
        by: &str,
    ) -> Result<Range<u64>, Violation> {
        let invalid = |report| {
            Err(Violation {
                report,
                code: Code::INVALID_VALUE,
            })
        };
        let Some(block) = self.blocks.get_mut(&address) else {
            return invalid(format!(
                "invalid free: {by} frees {address:#x}, which is not the start of a block"
            ));
        };
        let allocated_by = &block.allocated_by;
        if let Some(first) = &block.freed_by {
            return invalid(format!(
                "double free: {by} frees {address:#x}, allocated by {allocated_by} and freed by {first}"
            ));
        }
        if block.kind != kind {
            return invalid(format!(
                "invalid free: {by} frees {address:#x}, allocated by {allocated_by}; use the matching function"
            ));
        }
        block.freed_by = Some(by.to_owned());
        if block.kind != AllocKind::Pinned {
            // Counted as free from the call on, because backends allocate again in the order of the same stream.
            let used = self.used.entry(block.origin.gpu).or_default();
            *used = used.saturating_sub(block.bytes);
            if let Some((_, kept)) = block.origin.pool.and_then(|pool| self.kept.get_mut(&pool)) {
                *kept += block.bytes;
            }
        }
        Ok(address..address + block.bytes)
    }

    /// Releases the bytes of a block that [`Memory::begin_free`] marked.
    pub(crate) fn release(&mut self, address: u64) {
        let Some(block) = self.blocks.get_mut(&address) else {
            return;
        };
        block.released = true;
        if block.kind == AllocKind::Pinned {
            // A late access to the real address must not hit other memory of the process.
            if let Some(storage) = &block.storage {
                storage.set(FREED);
            }
        } else {
            block.storage = None;
        }
    }

    /// Adds or removes one queued operation that uses the pinned block at this address.
    pub(crate) fn adjust_pending(&mut self, address: u64, more: bool) {
        if let Some((_, block)) = self.find(address)
            && block.kind == AllocKind::Pinned
        {
            block.pending = match more {
                true => block.pending + 1,
                false => block.pending.saturating_sub(1),
            };
        }
    }

    /// Adds a queued operation that writes these bytes of a pinned block.
    pub(crate) fn expect_write(&mut self, range: Range<u64>) {
        self.adjust_pending(range.start, true);
        if let Some((_, block)) = self.find(range.start)
            && block.kind == AllocKind::Pinned
        {
            block.expected_writes.push(range);
        }
    }

    /// Removes the operation, which has written the bytes or is about to.
    pub(crate) fn finish_write(&mut self, range: Range<u64>) {
        self.adjust_pending(range.start, false);
        if let Some((_, block)) = self.find(range.start)
            && let Some(place) = block
                .expected_writes
                .iter()
                .position(|other| *other == range)
        {
            block.expected_writes.swap_remove(place);
        }
    }

    /// Returns `true` if a queued operation writes any of these pinned bytes.
    pub(crate) fn has_expected_write(&mut self, range: &Range<u64>) -> bool {
        let overlaps = |other: &Range<u64>| other.start < range.end && range.start < other.end;
        self.find(range.start)
            .is_some_and(|(_, block)| block.expected_writes.iter().any(overlaps))
    }

    /// Returns the number of queued operations that use the pinned block at this address.
    pub(crate) fn pending(&mut self, address: u64) -> usize {
        self.find(address).map_or(0, |(_, block)| block.pending)
    }

    /// Returns a report for each block that was never freed.
    pub(crate) fn leaks(&self) -> Vec<String> {
        let living = self
            .blocks
            .values()
            .filter(|block| block.freed_by.is_none());
        living
            .map(|block| {
                let kind = match block.kind {
                    AllocKind::Pinned => "pinned memory",
                    _ => "GPU memory",
                };
                format!(
                    "leak: {} bytes of {kind} were never freed, allocated by {}",
                    block.bytes, block.allocated_by
                )
            })
            .collect()
    }
}
