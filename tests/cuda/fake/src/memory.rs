//! Blocks of memory, of the "GPU" and pinned ones of the host.
//!
//! Addresses of the GPU are numbers of our own, of which none is used twice, so that a use after the end is always
//! seen. Pinned blocks have real addresses, and are kept until the session ends for the same reason. Whatever is
//! new is full of a pattern that is no likely value.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;

use crate::access::{Step, Touches};
use crate::clock::Clock;
use crate::code::Code;
use ptx::Kind;
use ptx::Window;

/// Where addresses of the GPU begin: no process has memory there.
const ADDRESS_FIRST: u64 = 0x0a00_0000_0000;
/// The driver aligns so.
const ALIGNMENT: u64 = 512;
/// Between two blocks, so that a step across the end of one is not in the next.
const GAP: u64 = 4096;
/// What new memory of the GPU is full of.
const NEW_DEVICE: u8 = 0xCB;
/// What new pinned memory is full of.
const NEW_PINNED: u8 = 0xA7;
/// What a freed pinned block is full of.
const FREED: u8 = 0xDD;

/// Bytes of a block, which stay where they are.
struct Storage {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory, which is used under the lock of the state.
unsafe impl Send for Storage {}

impl Storage {
    fn new(bytes: usize, pattern: u8) -> Option<Self> {
        let layout = Layout::from_size_align(bytes.max(1), 4096).ok()?;
        // SAFETY: the layout has a size.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        let storage = Self { start, layout };
        storage.set(pattern);
        Some(storage)
    }

    fn set(&self, pattern: u8) {
        // SAFETY: all of it is ours.
        unsafe { self.start.as_ptr().write_bytes(pattern, self.layout.size()) };
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Which functions make and end a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// `cuMemAllocFromPoolAsync`, `cuMemFreeAsync`
    Pool,
    /// `cuMemAlloc`, `cuMemFree`
    Device,
    /// `cuMemHostAlloc`, `cuMemFreeHost`
    Pinned,
}

/// Where memory of a GPU is: in which context it was made, on which GPU, and out of which pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Home {
    pub(crate) context: u64,
    pub(crate) gpu: usize,
    pub(crate) pool: Option<u64>,
}

struct Block {
    bytes: u64,
    place: Place,
    home: Home,
    /// Who made it, as a report says.
    maker: String,
    /// None once memory of the GPU is freed.
    storage: Option<Storage>,
    touches: Touches,
    /// Who has asked for its end. Its bytes go once that has been executed.
    freed_by: Option<String>,
    gone: bool,
    /// Operations that are to use it, for pinned ones, and what some of them are to write.
    pending: usize,
    awaited: Vec<Range<u64>>,
}

/// What is wrong with a use of memory.
pub(crate) struct Wrong {
    pub(crate) report: String,
    pub(crate) code: Code,
}

/// All blocks of a session.
pub(crate) struct Memory {
    blocks: BTreeMap<u64, Block>,
    next: u64,
    /// Bytes that there are of each GPU.
    pub(crate) bytes: u64,
    used: BTreeMap<usize, u64>,
}

impl Memory {
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            blocks: BTreeMap::new(),
            next: ADDRESS_FIRST,
            bytes,
            used: BTreeMap::new(),
        }
    }

    /// As new; addresses go on.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.used.clear();
    }

    /// Bytes of a GPU that are in use.
    pub(crate) fn used(&self, gpu: usize) -> u64 {
        self.used.get(&gpu).copied().unwrap_or(0)
    }

    /// The greatest of that.
    pub(crate) fn used_most(&self) -> u64 {
        self.used.values().copied().max().unwrap_or(0)
    }

    pub(crate) fn allocate(
        &mut self,
        bytes: usize,
        place: Place,
        home: Home,
        maker: String,
    ) -> Result<u64, Code> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let on_gpu = place != Place::Pinned;
        if on_gpu && bytes as u64 > self.bytes - self.used(home.gpu) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let pattern = if on_gpu { NEW_DEVICE } else { NEW_PINNED };
        let storage = Storage::new(bytes, pattern).ok_or(Code::OUT_OF_MEMORY)?;
        let address = if on_gpu {
            *self.used.entry(home.gpu).or_default() += bytes as u64;
            let address = self.next;
            self.next = (address + bytes as u64 + GAP).next_multiple_of(ALIGNMENT);
            address
        } else {
            storage.start.as_ptr() as u64
        };
        let block = Block {
            bytes: bytes as u64,
            place,
            home,
            maker,
            storage: Some(storage),
            touches: Touches::default(),
            freed_by: None,
            gone: false,
            pending: 0,
            awaited: Vec::new(),
        };
        self.blocks.insert(address, block);
        Ok(address)
    }

    fn find(&mut self, address: u64) -> Option<(u64, &mut Block)> {
        let (start, block) = self.blocks.range_mut(..=address).next_back()?;
        let known = address - start < block.bytes.max(1);
        known.then_some((*start, block))
    }

    /// Where the memory of a GPU at this address is.
    pub(crate) fn home(&mut self, address: u64) -> Option<Home> {
        let (_, block) = self.find(address)?;
        (block.place != Place::Pinned).then_some(block.home)
    }

    /// How many blocks that were made in a context are there yet.
    pub(crate) fn made_in(&self, context: u64) -> usize {
        let blocks = self.blocks.values();
        let left = |block: &&Block| block.freed_by.is_none() && block.home.context == context;
        blocks.filter(left).count()
    }

    /// Is this address within a pinned block?
    pub(crate) fn is_pinned(&mut self, address: u64) -> bool {
        self.find(address)
            .is_some_and(|(_, block)| block.place == Place::Pinned)
    }

    /// Bytes of a block, which must be there and not be freed, not even by what is still to be executed before.
    pub(crate) fn at(&mut self, name: &str, range: Range<u64>) -> Result<NonNull<u8>, Wrong> {
        let start = range.start;
        let window = self.window(name, range)?;
        // SAFETY: within the block, as was looked at.
        Ok(unsafe { window.at.add((start - window.start) as usize) })
    }

    /// The block of these bytes, of which the same holds.
    pub(crate) fn window(&mut self, name: &str, range: Range<u64>) -> Result<Window, Wrong> {
        let (start, len) = (range.start, range.end - range.start);
        let illegal = |report| {
            Err(Wrong {
                report,
                code: Code::ILLEGAL_ADDRESS,
            })
        };
        let before = self.blocks.range_mut(..=start).next_back();
        let near = before.filter(|(base, block)| start - **base < block.bytes + GAP);
        let Some((&base, block)) = near else {
            return illegal(format!(
                "no such memory: {name} touches {len} bytes at {start:#x}, where nothing was ever allocated"
            ));
        };
        let maker = &block.maker;
        if range.end - base > block.bytes {
            return illegal(format!(
                "out of bounds: {name} touches {len} bytes at {} of the {} that {maker} made",
                start - base,
                block.bytes
            ));
        }
        match (&block.storage, &block.freed_by) {
            (Some(storage), _) if !block.gone => Ok(Window {
                start: base,
                bytes: block.bytes,
                at: storage.start,
            }),
            (_, by) => illegal(format!(
                "use after the end: {name} touches {len} bytes at {start:#x}, made by {maker} and freed by {}",
                by.as_deref().unwrap_or("nobody")
            )),
        }
    }

    /// Notes that a step touches these bytes, which are there, and says with what it races.
    pub(crate) fn touch(&mut self, step: &Step, kind: Kind, range: Range<u64>) -> Vec<String> {
        match self.find(range.start) {
            Some((_, block)) => block.touches.note(step, kind, range),
            None => Vec::new(),
        }
    }

    /// Is it time to forget touches of the block at this address?
    pub(crate) fn is_crowded(&mut self, address: u64) -> bool {
        self.find(address)
            .is_some_and(|(_, block)| block.touches.are_many())
    }

    /// Forgets touches that everybody knows.
    pub(crate) fn forget(&mut self, address: u64, known: &Clock) {
        if let Some((_, block)) = self.find(address) {
            block.touches.forget(known);
        }
    }

    /// Asks for the end of the block at exactly this address, which goes with [`Memory::release`].
    pub(crate) fn ask_end(
        &mut self,
        address: u64,
        place: Place,
        by: &str,
    ) -> Result<Range<u64>, Wrong> {
        let invalid = |report| {
            Err(Wrong {
                report,
                code: Code::INVALID_VALUE,
            })
        };
        let Some(block) = self.blocks.get_mut(&address) else {
            return invalid(format!(
                "wrong free: {by} frees {address:#x}, where no memory begins"
            ));
        };
        let maker = &block.maker;
        if let Some(first) = &block.freed_by {
            return invalid(format!(
                "double free: {by} frees {address:#x}, made by {maker}, which {first} has freed"
            ));
        }
        if block.place != place {
            return invalid(format!(
                "wrong free: {by} frees {address:#x}, made by {maker}: never mix the kinds"
            ));
        }
        block.freed_by = Some(by.to_owned());
        if block.place != Place::Pinned {
            // From here on there is room for who allocates after it in the same stream, as backends do.
            let used = self.used.entry(block.home.gpu).or_default();
            *used = used.saturating_sub(block.bytes);
        }
        Ok(address..address + block.bytes)
    }

    /// The end of a block that [`Memory::ask_end`] was told.
    pub(crate) fn release(&mut self, address: u64) {
        let Some(block) = self.blocks.get_mut(&address) else {
            return;
        };
        block.gone = true;
        if block.place == Place::Pinned {
            // A real address: who still uses it must not meet memory of somebody else.
            if let Some(storage) = &block.storage {
                storage.set(FREED);
            }
        } else {
            block.storage = None;
        }
    }

    /// One more operation, or one less, is to use the pinned block at this address.
    pub(crate) fn pend(&mut self, address: u64, more: bool) {
        if let Some((_, block)) = self.find(address)
            && block.place == Place::Pinned
        {
            block.pending = match more {
                true => block.pending + 1,
                false => block.pending.saturating_sub(1),
            };
        }
    }

    /// An operation is to write these bytes of a pinned block.
    pub(crate) fn await_write(&mut self, range: Range<u64>) {
        self.pend(range.start, true);
        if let Some((_, block)) = self.find(range.start)
            && block.place == Place::Pinned
        {
            block.awaited.push(range);
        }
    }

    /// It has, or is about to.
    pub(crate) fn written(&mut self, range: Range<u64>) {
        self.pend(range.start, false);
        if let Some((_, block)) = self.find(range.start)
            && let Some(place) = block.awaited.iter().position(|other| *other == range)
        {
            block.awaited.swap_remove(place);
        }
    }

    /// Is an operation to write any of these pinned bytes?
    pub(crate) fn is_awaited(&mut self, range: &Range<u64>) -> bool {
        let overlaps = |other: &Range<u64>| other.start < range.end && range.start < other.end;
        self.find(range.start)
            .is_some_and(|(_, block)| block.awaited.iter().any(overlaps))
    }

    /// How many operations are to use the pinned block at this address.
    pub(crate) fn pending(&mut self, address: u64) -> usize {
        self.find(address).map_or(0, |(_, block)| block.pending)
    }

    /// What was never freed, each as a sentence.
    pub(crate) fn leaks(&self) -> Vec<String> {
        let living = self
            .blocks
            .values()
            .filter(|block| block.freed_by.is_none());
        living
            .map(|block| {
                let kind = match block.place {
                    Place::Pinned => "pinned memory",
                    _ => "memory of the GPU",
                };
                format!(
                    "leak: {} bytes of {kind} were never freed, made by {}",
                    block.bytes, block.maker
                )
            })
            .collect()
    }
}
