//! Copies to the GPU, from the GPU, and within its memory.

use std::sync::Arc;

use cudarc::driver::sys::{CUDA_MEMCPY2D, CUdeviceptr, CUmemorytype};
use millstream_gpu::{
    BLOCK_BYTES, Readback, Segment, Staged, check_copy, host_len, readback_segments, segments,
};
use millstream_protocol::{BoundSlice, HostData, Landing, QueueId, Refused, Strided};

use crate::device::CudaDevice;
use crate::driver::{Code, Pinned};
use crate::replay::{Action, StepSink};

/// The direction of a copy, as the GPU sees it.
#[derive(Clone, Copy)]
enum Direction {
    In,
    Out,
}

impl CudaDevice {
    /// Copies bytes of the host to `target`, in the queue's order.
    pub(crate) fn upload(
        &mut self,
        queue: QueueId,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: HostData,
    ) -> Result<(), Refused> {
        let address = self.address(target)?;
        let bytes = source.bytes();
        // The GPU reads pinned memory directly.
        let is_pinned = matches!(&source, HostData::Owned(owned) if owned.host_block().is_some());
        let block = if is_pinned { bytes.len() } else { BLOCK_BYTES };
        let (dense, pitch_max) = (bytes.len() as u64, self.pitch_max);
        let segments = segments(layout, dense, target.len, block as u64, pitch_max)?;
        let blocks = match is_pinned {
            true => Vec::new(),
            false => self.take_blocks(bytes.len())?,
        };
        let mut to_fill = bytes.chunks(BLOCK_BYTES).zip(&blocks);
        let mut filled = 0;
        let copied = self.copy_segments(queue, Direction::In, address, &segments, |dense| {
            if is_pinned {
                // SAFETY: a segment lies within the bytes (`segments`), which are only read.
                return unsafe { bytes.as_ptr().cast_mut().add(dense as usize) };
            }
            // Fills each block after the segments of the blocks before it were submitted.
            while filled <= dense / BLOCK_BYTES as u64 {
                if let Some((bytes, staged)) = to_fill.next() {
                    // SAFETY: nothing else uses the staging range until its copy is submitted, and it has as many
                    // bytes.
                    unsafe {
                        std::ptr::copy_nonoverlapping(bytes.as_ptr(), staged.start(), bytes.len());
                    }
                }
                filled += 1;
            }
            staged_at(&blocks, dense)
        });
        // Keep the blocks and a pinned source even on an error: copies submitted before it still read from them.
        let memory = self.queues[queue.index()].memory();
        memory.staged.extend(blocks);
        if let HostData::Owned(mut owned) = source
            && (is_pinned || copied.is_ok())
        {
            if !is_pinned {
                owned.release();
            }
            memory.sources.push(owned);
        }
        copied
    }

    /// Copies the bytes of `source` to a landing.
    pub(crate) fn download(
        &mut self,
        queue: QueueId,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        let address = self.address(source)?;
        let (segments, selected) = readback_segments(layout, source.len, self.pitch_max, |_| 1)?;
        let blocks = self.take_blocks(host_len(segments.iter().map(Segment::bytes).sum())?)?;
        let at = |dense| staged_at(&blocks, dense);
        let copied = self.copy_segments(queue, Direction::Out, address, &segments, at);
        let memory = self.queues[queue.index()].memory();
        match copied {
            Ok(()) => memory.readbacks.push(Readback {
                landing,
                blocks,
                layout: selected.cloned(),
            }),
            // Copies submitted before the error still write to the blocks.
            Err(_) => memory.staged.extend(blocks),
        }
        copied
    }

    /// Copies `source` to `target`, or adds the copy to the steps of a replay.
    pub(crate) fn copy_within(
        &mut self,
        queue: QueueId,
        source: &BoundSlice,
        target: &BoundSlice,
        sink: Option<StepSink<'_>>,
    ) -> Result<(), Refused> {
        let bytes = host_len(check_copy(source, target)?)?;
        let (from, to) = (self.address(source)?, self.address(target)?);
        if bytes == 0 {
            return Ok(());
        }
        if let Some(StepSink { steps, task }) = sink {
            steps.push(task, Action::Copy { to, from, bytes });
            return Ok(());
        }
        // SAFETY: both ranges lie within pages and do not overlap.
        Ok(unsafe { self.api().copy(to, from, bytes, self.stream(queue)) }?)
    }

    /// Takes the staging blocks for `bytes` bytes.
    fn take_blocks(&mut self, bytes: usize) -> Result<Vec<Staged<Pinned>>, Code> {
        let context = self.context().clone();
        let block = || Pinned::new(&context, BLOCK_BYTES);
        self.staging.take_all(bytes, block)
    }

    /// Submits the segments of a copy between the host and memory at `address` to the queue's stream. `host` returns where
    /// the segment from a dense byte on begins.
    fn copy_segments(
        &mut self,
        queue: QueueId,
        direction: Direction,
        address: CUdeviceptr,
        segments: &[Segment],
        mut host: impl FnMut(u64) -> *mut u8,
    ) -> Result<(), Refused> {
        for (nth, segment) in segments.iter().enumerate() {
            let host = host(segment.dense);
            self.copy_segment(queue, direction, address + segment.strided, host, segment)
                .map_err(|refused| self.partial_failure(nth > 0, refused))?;
        }
        Ok(())
    }

    fn copy_segment(
        &self,
        queue: QueueId,
        direction: Direction,
        address: CUdeviceptr,
        host: *mut u8,
        segment: &Segment,
    ) -> Result<(), Refused> {
        let (api, stream, width) = (self.api(), self.stream(queue), host_len(segment.width)?);
        let (rows, pitch) = (host_len(segment.rows)?, host_len(segment.pitch)?);
        // SAFETY: the bytes lie within a page (`resolve`, `segments`), for every row; the memory of the host is kept until
        // the copy has completed. A struct is only read during the call.
        Ok(unsafe {
            match direction {
                Direction::In if rows == 1 => api.copy_in(address, host.cast(), width, stream),
                Direction::Out if rows == 1 => api.copy_out(host.cast(), address, width, stream),
                _ => {
                    let rows = copy_2d(direction, host, (address, pitch), (width, rows));
                    api.copy_rows(&raw const rows, stream)
                }
            }
        }?)
    }
}

/// Returns the place of a byte of staged data.
fn staged_at(staged: &[Staged<Pinned>], dense: u64) -> *mut u8 {
    let block = BLOCK_BYTES as u64;
    // SAFETY: a segment lies within one block (`segments`).
    unsafe {
        staged[(dense / block) as usize]
            .start()
            .add((dense % block) as usize)
    }
}

/// Describes a copy of `height` rows of `width` bytes, which are dense on the host. The driver reads the pointer that belongs
/// to the type of each side.
fn copy_2d(
    direction: Direction,
    host: *mut u8,
    (address, pitch): (CUdeviceptr, usize),
    (width, height): (usize, usize),
) -> CUDA_MEMCPY2D {
    let (on_host, on_gpu) = (
        (CUmemorytype::CU_MEMORYTYPE_HOST, width),
        (CUmemorytype::CU_MEMORYTYPE_DEVICE, pitch),
    );
    let ((source_type, source_pitch), (target_type, target_pitch)) = match direction {
        Direction::In => (on_host, on_gpu),
        Direction::Out => (on_gpu, on_host),
    };
    CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: source_type,
        srcHost: host.cast(),
        srcDevice: address,
        srcArray: std::ptr::null_mut(),
        srcPitch: source_pitch,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: target_type,
        dstHost: host.cast(),
        dstDevice: address,
        dstArray: std::ptr::null_mut(),
        dstPitch: target_pitch,
        WidthInBytes: width,
        Height: height,
    }
}
