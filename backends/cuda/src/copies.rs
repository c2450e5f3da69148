//! Copies to the GPU, from the GPU, and within its memory.

use std::sync::Arc;

use cudarc::driver::sys::{CUDA_MEMCPY2D, CUdeviceptr, CUmemorytype};
use millstream_gpu::{BLOCK_BYTES, Readback, Segment, segments};
use millstream_protocol::backend::{BoundSlice, HostData};
use millstream_protocol::error::Refused;
use millstream_protocol::id::QueueId;
use millstream_protocol::landing::Landing;
use millstream_protocol::layout::Strided;
use millstream_protocol::message::OwnedBytes;

use crate::completer::Staged;
use crate::device::{CudaDevice, host_len};
use crate::driver::{Code, Pinned};
use crate::replay::{Action, StepSink};

/// A readback of more segments than this copies the whole range if it can. Not measured yet.
const SEGMENTS_MAX: usize = 64;

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
        let address = self.pages.resolve(target)?;
        let source = match source {
            HostData::Owned(owned) if owned.is_of_host_memory() => {
                return self.upload_pinned(queue, address, target, layout, owned);
            }
            source => source,
        };
        let bytes = source.bytes();
        let segments = self.segments(layout, bytes.len() as u64, target, BLOCK_BYTES)?;
        let blocks = self.take_blocks(bytes.len())?;
        let copied = self.copy_segments(queue, Direction::In, address, &segments, &blocks, bytes);
        // Keep the blocks even on an error: copies submitted before it still read from them.
        let to = &mut self.queues[queue.index()];
        blocks.into_iter().for_each(|staged| to.keep_staged(staged));
        if let (Ok(()), HostData::Owned(mut owned)) = (&copied, source) {
            owned.release();
            to.keep_source(owned);
        }
        copied
    }

    /// Copies bytes that lie in pinned memory, which the GPU reads directly.
    fn upload_pinned(
        &mut self,
        queue: QueueId,
        address: CUdeviceptr,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: OwnedBytes,
    ) -> Result<(), Refused> {
        let bytes = source.bytes();
        let segments = self.segments(layout, bytes.len() as u64, target, bytes.len())?;
        let start = bytes.as_ptr().cast_mut();
        let mut copied = Ok(());
        for (nth, segment) in segments.iter().enumerate() {
            // SAFETY: a segment lies within the bytes (`is_within`), which are only read.
            let host = unsafe { start.add(segment.dense as usize) };
            copied = self
                .copy_segment(
                    queue,
                    Direction::In,
                    address + segment.strided,
                    host,
                    segment,
                )
                .map_err(|refused| self.partial_failure(nth > 0, refused));
            if copied.is_err() {
                break;
            }
        }
        // Keep the source even on an error: copies submitted before it still read from it.
        self.queues[queue.index()].keep_source(source);
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
        let address = self.pages.resolve(source)?;
        let dense = layout.map_or(source.len, Strided::dense_bytes);
        let segments = self.segments(layout, dense, source, BLOCK_BYTES)?;
        // For many short runs with few gaps, copy the whole range; `Readback::land` then selects the requested bytes.
        let selected = layout.filter(|_| segments.len() > SEGMENTS_MAX && source.len / 2 <= dense);
        let (segments, bytes) = match selected {
            Some(_) => (
                self.segments(None, source.len, source, BLOCK_BYTES)?,
                source.len,
            ),
            None => (segments, dense),
        };
        let blocks = self.take_blocks(host_len(bytes)?)?;
        let copied = self.copy_segments(queue, Direction::Out, address, &segments, &blocks, &[]);
        let from = &mut self.queues[queue.index()];
        match copied {
            Ok(()) => from.add_readback(Readback {
                landing,
                blocks,
                layout: selected.cloned(),
            }),
            // Copies submitted before the error still write to the blocks.
            Err(_) => blocks
                .into_iter()
                .for_each(|staged| from.keep_staged(staged)),
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
        let (from, to) = (source.len, target.len);
        if from != to {
            return Err(Refused::Task(format!(
                "the source has {from} bytes and the target {to}, expected equal lengths"
            )));
        }
        let bytes = host_len(from)?;
        let (from, to) = (self.pages.resolve(source)?, self.pages.resolve(target)?);
        if bytes == 0 {
            return Ok(());
        }
        if from.abs_diff(to) < bytes as u64 {
            return Err(Refused::Task(format!(
                "the source and the target of a copy of {bytes} bytes overlap; copy through another slice"
            )));
        }
        if let Some(StepSink { steps, task }) = sink {
            steps.push(task, Action::Copy { to, from, bytes });
            return Ok(());
        }
        // SAFETY: both ranges lie within pages and do not overlap.
        let answer = unsafe { (self.api().copy)(to, from, bytes, self.stream(queue)) };
        self.check("cuMemcpyDtoDAsync", answer)
    }

    /// Returns the segments of a copy. None crosses a boundary of the host blocks, which have `block` bytes.
    fn segments(
        &self,
        layout: Option<&Strided>,
        dense: u64,
        binding: &BoundSlice,
        block: usize,
    ) -> Result<Vec<Segment>, Refused> {
        segments(layout, dense, binding.len, block as u64, self.pitch_max)
    }

    /// Takes the staging blocks for `bytes` bytes, all before the first copy, so that a lack of memory refuses the
    /// whole task.
    fn take_blocks(&mut self, bytes: usize) -> Result<Vec<Staged>, Refused> {
        let starts = (0..bytes).step_by(BLOCK_BYTES);
        let context = self.context().clone();
        let taken = starts.map(|start| {
            let block = || Pinned::new(&context, BLOCK_BYTES);
            self.staging.take((bytes - start).min(BLOCK_BYTES), block)
        });
        let taken: Result<Vec<_>, Code> = taken.collect();
        taken.map_err(|code| self.refusal("cuMemHostAlloc", code))
    }

    /// Submits the segments of a copy between staging blocks and memory at `address` to the queue's stream. For an
    /// upload fills each block with its share of `bytes` after submitting the segments of the blocks before it.
    fn copy_segments(
        &mut self,
        queue: QueueId,
        direction: Direction,
        address: CUdeviceptr,
        segments: &[Segment],
        blocks: &[Staged],
        bytes: &[u8],
    ) -> Result<(), Refused> {
        let mut to_fill = bytes.chunks(BLOCK_BYTES).zip(blocks);
        let mut filled = 0;
        for (nth, segment) in segments.iter().enumerate() {
            let place = (segment.dense / BLOCK_BYTES as u64) as usize;
            while filled <= place {
                if let Some((bytes, staged)) = to_fill.next() {
                    // SAFETY: nothing else uses the staging range until its copy is submitted, and it has as many
                    // bytes.
                    unsafe {
                        std::ptr::copy_nonoverlapping(bytes.as_ptr(), staged.start(), bytes.len());
                    }
                }
                filled += 1;
            }
            let block = blocks[place].start();
            // SAFETY: a segment lies within one block (`is_within`, `cut_at_blocks`).
            let host = unsafe { block.add((segment.dense % BLOCK_BYTES as u64) as usize) };
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
        if segment.rows == 1 {
            // SAFETY: the bytes lie within a page (`resolve`, `segments`); the block is kept until the copy has
            // completed.
            let (call, answer) = unsafe {
                match direction {
                    Direction::In => (
                        "cuMemcpyHtoDAsync",
                        (api.copy_in)(address, host.cast(), width, stream),
                    ),
                    Direction::Out => (
                        "cuMemcpyDtoHAsync",
                        (api.copy_out)(host.cast(), address, width, stream),
                    ),
                }
            };
            return self.check(call, answer);
        }
        let (rows, pitch) = (host_len(segment.rows)?, host_len(segment.pitch)?);
        let rows = match direction {
            Direction::In => copy_2d(
                (Side::Host(host), width),
                (Side::Gpu(address), pitch),
                width,
                rows,
            ),
            Direction::Out => copy_2d(
                (Side::Gpu(address), pitch),
                (Side::Host(host), width),
                width,
                rows,
            ),
        };
        // SAFETY: as above, for every row; the struct is only read during the call.
        let answer = unsafe { (api.copy_rows)(&raw const rows, stream) };
        self.check("cuMemcpy2DAsync", answer)
    }
}

/// The source or target of a copy.
enum Side {
    Host(*mut u8),
    Gpu(CUdeviceptr),
}

impl Side {
    /// Returns the fields of the driver's struct for this side; the pointer of the other kind is null.
    fn fields(&self) -> (CUmemorytype, *mut u8, CUdeviceptr) {
        match *self {
            Side::Host(start) => (CUmemorytype::CU_MEMORYTYPE_HOST, start, 0),
            Side::Gpu(start) => (
                CUmemorytype::CU_MEMORYTYPE_DEVICE,
                std::ptr::null_mut(),
                start,
            ),
        }
    }
}

/// Describes a copy of `height` rows of `width` bytes. Each side has its own pitch.
fn copy_2d(
    (source, source_pitch): (Side, usize),
    (target, target_pitch): (Side, usize),
    width: usize,
    height: usize,
) -> CUDA_MEMCPY2D {
    let (source_type, source_host, source_gpu) = source.fields();
    let (target_type, target_host, target_gpu) = target.fields();
    CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: source_type,
        srcHost: source_host.cast(),
        srcDevice: source_gpu,
        srcArray: std::ptr::null_mut(),
        srcPitch: source_pitch,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: target_type,
        dstHost: target_host.cast(),
        dstDevice: target_gpu,
        dstArray: std::ptr::null_mut(),
        dstPitch: target_pitch,
        WidthInBytes: width,
        Height: height,
    }
}
