//! Copies to the device, from the device, and within its memory.

use std::sync::Arc;

use ash::vk;
use millstream_gpu::{
    BLOCK_BYTES, Readback, Segment, Staged, check_copy, host_len, readback_segments, segments,
};
use millstream_protocol::{BoundSlice, HostData, Landing, QueueId, Refused, Strided};
use smallvec::SmallVec;

use crate::device::VulkanDevice;
use crate::driver::{Code, Mapped, Purpose};
use crate::pages::Location;
use crate::upload::UploadBlock;

/// The most regions of one copy command; longer copies take several.
const REGIONS_MAX: usize = 1024;

impl VulkanDevice {
    /// Copies bytes of the host to `target`, in the queue's order.
    pub(crate) fn upload(
        &mut self,
        queue: QueueId,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        let to = Location::of(target, &self.pages)?;
        let bytes = source.bytes();
        if bytes.is_empty() {
            return segments(layout, 0, target.len, 1, u64::MAX).map(|_| ());
        }
        let own = match &source {
            HostData::Owned(owned) => owned.host_block(),
            _ => None,
        };
        let own = own.and_then(|block| block.downcast_ref::<UploadBlock>());
        let own = own.and_then(|block| block.place_in(&self.context));
        let block = own.map_or(BLOCK_BYTES as u64, |_| bytes.len() as u64);
        let segments = segments(layout, bytes.len() as u64, target.len, block, u64::MAX)?;
        let staged = match own {
            Some(_) => Vec::new(),
            None => self.take_blocks(bytes.len(), Purpose::Upload)?,
        };
        for (bytes, staged) in bytes.chunks(BLOCK_BYTES).zip(&staged) {
            // SAFETY: nothing else uses the staging range until its copy is submitted, and it has as many bytes.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), staged.start(), bytes.len()) };
        }
        let commands = self.queues[queue.index()].record([target].into_iter())?.raw;
        let mut written_to = 0;
        for segment in &segments {
            // Regions of one command must not overlap, and neither must commands without a barrier between them.
            if segment.strided < written_to {
                self.queues[queue.index()].separate()?;
            }
            written_to = written_to.max(segment.end());
            let (from, offset) = match own {
                Some((buffer, offset)) => (buffer, offset + segment.dense),
                None => staged_at(&staged, segment.dense),
            };
            let region = |row| vk::BufferCopy {
                src_offset: offset + row * segment.width,
                dst_offset: to.offset + segment.strided + row * segment.pitch,
                size: segment.width,
            };
            self.copy_rows(commands, (from, to.buffer), segment, region);
        }
        let memory = self.queues[queue.index()].memory();
        memory.staged.extend(staged);
        if let HostData::Owned(mut owned) = source {
            if own.is_none() {
                owned.release();
            }
            memory.sources.push(owned);
        }
        Ok(())
    }

    /// Copies the bytes of `source` to a landing.
    pub(crate) fn download(
        &mut self,
        queue: QueueId,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        let from = Location::of(source, &self.pages)?;
        let (cut, selected) =
            readback_segments(layout, source.len, u64::MAX, |segment| segment.rows)?;
        if cut.is_empty() {
            return Ok(());
        }
        let bytes = host_len(cut.iter().map(Segment::bytes).sum())?;
        let blocks = self.take_blocks(bytes, Purpose::Readback)?;
        let commands = self.queues[queue.index()].record([source].into_iter())?.raw;
        for segment in &cut {
            let (to, offset) = staged_at(&blocks, segment.dense);
            let region = |row| vk::BufferCopy {
                src_offset: from.offset + segment.strided + row * segment.pitch,
                dst_offset: offset + row * segment.width,
                size: segment.width,
            };
            self.copy_rows(commands, (from.buffer, to), segment, region);
        }
        self.queues[queue.index()].add_readback(Readback {
            landing,
            blocks,
            layout: selected.cloned(),
        });
        Ok(())
    }

    /// Copies `source` to `target`.
    pub(crate) fn copy_within(
        &mut self,
        queue: QueueId,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Result<(), Refused> {
        let size = check_copy(source, target)?;
        let (from, to) = (
            Location::of(source, &self.pages)?,
            Location::of(target, &self.pages)?,
        );
        if size == 0 {
            return Ok(());
        }
        let commands = self.queues[queue.index()]
            .record([source, target].into_iter())?
            .raw;
        let region = vk::BufferCopy {
            src_offset: from.offset,
            dst_offset: to.offset,
            size,
        };
        self.copy_regions(commands, from.buffer, to.buffer, &[region]);
        Ok(())
    }

    /// Takes the staging blocks for `bytes` bytes.
    pub(crate) fn take_blocks(
        &mut self,
        bytes: usize,
        purpose: Purpose,
    ) -> Result<Vec<Staged<Mapped>>, Code> {
        let context = self.context.clone();
        let staging = match purpose {
            Purpose::Readback => &mut self.readbacks,
            _ => &mut self.staging,
        };
        staging.take_all(bytes, || Mapped::new(&context, BLOCK_BYTES, purpose))
    }

    /// Records the copies of the rows of a segment. `region` returns that of a row.
    fn copy_rows(
        &self,
        commands: vk::CommandBuffer,
        (from, to): (vk::Buffer, vk::Buffer),
        segment: &Segment,
        region: impl Fn(u64) -> vk::BufferCopy,
    ) {
        for start in (0..segment.rows).step_by(REGIONS_MAX) {
            let rows = start..segment.rows.min(start + REGIONS_MAX as u64);
            let regions: SmallVec<[_; 4]> = rows.map(&region).collect();
            self.copy_regions(commands, from, to, &regions);
        }
    }

    /// Records a copy command.
    pub(crate) fn copy_regions(
        &self,
        commands: vk::CommandBuffer,
        from: vk::Buffer,
        to: vk::Buffer,
        regions: &[vk::BufferCopy],
    ) {
        // SAFETY: this thread records the command buffer. The regions lie within pages (`resolve`, `segments`) and
        // staging blocks, which are kept until the batch has completed, and do not overlap.
        unsafe {
            self.context
                .device
                .cmd_copy_buffer(commands, from, to, regions);
        };
    }
}

/// Returns the buffer and the offset of a byte of staged data.
fn staged_at(staged: &[Staged<Mapped>], dense: u64) -> (vk::Buffer, u64) {
    let block = BLOCK_BYTES as u64;
    let (mapped, offset) = staged[(dense / block) as usize].place();
    (mapped.buffer.raw, offset as u64 + dense % block)
}
