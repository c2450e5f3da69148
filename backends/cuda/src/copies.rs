//! Copies: to the GPU, from it, and within it.

use std::sync::Arc;

use cudarc::driver::sys::{CUDA_MEMCPY2D, CUdeviceptr, CUmemorytype};
use millstream_protocol::backend::{BoundSlice, HostData};
use millstream_protocol::error::Refused;
use millstream_protocol::id::QueueId;
use millstream_protocol::landing::Landing;
use millstream_protocol::layout::Strided;
use millstream_protocol::message::HostBytes;

use crate::completer::Returning;
use crate::device::{CudaDevice, host_len};
use crate::driver::Code;
use crate::parts::{Part, parts};
use crate::replay::{Action, Taking};
use crate::staging::{BLOCK_BYTES, Staged};

/// More parts than these are better not given to the driver one by one. Not measured yet.
const PARTS_MANY: usize = 64;

/// Which way a part goes.
#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

impl CudaDevice {
    /// Copies these bytes to `target` in the queue's order.
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
        let parts = self.parts(layout, bytes.len() as u64, target, BLOCK_BYTES)?;
        let room = self.room(bytes.len())?;
        let copied = self.copy_parts(queue, Way::In, address, &parts, &room, bytes);
        // Kept all the same: what was given to the stream before a refusal reads from its blocks yet.
        let of = &mut self.queues[queue.index()];
        room.into_iter().for_each(|staged| of.keep(staged));
        if let (Ok(()), HostData::Owned(mut owned)) = (&copied, source) {
            owned.let_go();
            of.keep_source(owned);
        }
        copied
    }

    /// Copies bytes that lie in pinned memory already: the GPU reads them there.
    fn upload_pinned(
        &mut self,
        queue: QueueId,
        address: CUdeviceptr,
        target: &BoundSlice,
        layout: Option<&Strided>,
        source: Box<dyn HostBytes>,
    ) -> Result<(), Refused> {
        let bytes = source.bytes();
        let parts = self.parts(layout, bytes.len() as u64, target, bytes.len())?;
        let start = bytes.as_ptr().cast_mut();
        let mut copied = Ok(());
        for (nth, part) in parts.iter().enumerate() {
            // SAFETY: a part lies within the bytes (`is_within`), which are only read.
            let host = unsafe { start.add(part.dense as usize) };
            copied = self
                .copy_part(queue, Way::In, address + part.strided, host, part)
                .map_err(|refused| self.cut_short(nth > 0, refused));
            if copied.is_err() {
                break;
            }
        }
        // Kept all the same: what was given to the stream before a refusal reads from there yet.
        self.queues[queue.index()].keep_source(source);
        copied
    }

    /// Copies the bytes of `source` to where the landing has room for them.
    pub(crate) fn download(
        &mut self,
        queue: QueueId,
        source: &BoundSlice,
        layout: Option<&Strided>,
        landing: Arc<dyn Landing>,
    ) -> Result<(), Refused> {
        let address = self.pages.resolve(source)?;
        let dense = layout.map_or(source.len, Strided::dense_bytes);
        let parts = self.parts(layout, dense, source, BLOCK_BYTES)?;
        // Many short runs with few gaps come whole, and the thread that lands them picks what was asked for.
        let picked = layout.filter(|_| parts.len() > PARTS_MANY && source.len / 2 <= dense);
        let (parts, bytes) = match picked {
            Some(_) => (
                self.parts(None, source.len, source, BLOCK_BYTES)?,
                source.len,
            ),
            None => (parts, dense),
        };
        let from = self.room(host_len(bytes)?)?;
        let copied = self.copy_parts(queue, Way::Out, address, &parts, &from, &[]);
        let of = &mut self.queues[queue.index()];
        match copied {
            Ok(()) => of.bring_back(Returning {
                landing,
                from,
                picked: picked.cloned(),
            }),
            // What was given to the stream before writes to its blocks yet.
            Err(_) => from.into_iter().for_each(|staged| of.keep(staged)),
        }
        copied
    }

    /// Copies `source` to `target`, or adds that to a replay that is taken down.
    pub(crate) fn move_bytes(
        &mut self,
        queue: QueueId,
        source: &BoundSlice,
        target: &BoundSlice,
        taking: Option<Taking<'_>>,
    ) -> Result<(), Refused> {
        let (from, to) = (source.len, target.len);
        if from != to {
            return Err(Refused::Task(format!(
                "the source has {from} bytes and the target {to}"
            )));
        }
        let bytes = host_len(from)?;
        let (from, to) = (self.pages.resolve(source)?, self.pages.resolve(target)?);
        if bytes == 0 {
            return Ok(());
        }
        if from.abs_diff(to) < bytes as u64 {
            return Err(Refused::Task(
                "its source and its target overlap".to_owned(),
            ));
        }
        if let Some(Taking { steps, task }) = taking {
            steps.push(task, Action::Copy { to, from, bytes });
            return Ok(());
        }
        // SAFETY: both ranges are within pages, and apart.
        let answer = unsafe { (self.api().copy)(to, from, bytes, self.stream(queue)) };
        self.check("cuMemcpyDtoDAsync", answer)
    }

    /// The parts of a copy, none of which lies in two blocks of `block` bytes on the host.
    fn parts(
        &self,
        layout: Option<&Strided>,
        dense: u64,
        binding: &BoundSlice,
        block: usize,
    ) -> Result<Vec<Part>, Refused> {
        parts(layout, dense, binding.len, block as u64, self.pitch_max)
    }

    /// Blocks for so many bytes, all before the first of them is used: a copy is refused whole or not at all.
    fn room(&mut self, bytes: usize) -> Result<Vec<Staged>, Refused> {
        let starts = (0..bytes).step_by(BLOCK_BYTES);
        let taken = starts.map(|start| self.staging.take((bytes - start).min(BLOCK_BYTES)));
        let taken: Result<Vec<_>, Code> = taken.collect();
        taken.map_err(|code| self.refusal("cuMemHostAlloc", code))
    }

    /// Gives the parts of a copy to the queue's stream: between these blocks and memory from `address` on. A block is
    /// filled with its share of `bytes`, if there are any, once those before it are on their way.
    fn copy_parts(
        &mut self,
        queue: QueueId,
        way: Way,
        address: CUdeviceptr,
        parts: &[Part],
        blocks: &[Staged],
        bytes: &[u8],
    ) -> Result<(), Refused> {
        let mut to_fill = bytes.chunks(BLOCK_BYTES).zip(blocks);
        let mut filled = 0;
        for (nth, part) in parts.iter().enumerate() {
            let place = (part.dense / BLOCK_BYTES as u64) as usize;
            while filled <= place {
                if let Some((bytes, staged)) = to_fill.next() {
                    // SAFETY: the part of the block is ours alone until a copy of it is given to the stream, and has room
                    // for so many bytes.
                    unsafe {
                        std::ptr::copy_nonoverlapping(bytes.as_ptr(), staged.start(), bytes.len());
                    }
                }
                filled += 1;
            }
            let block = blocks[place].start();
            // SAFETY: a part lies within one block (`is_within`, `cut`).
            let host = unsafe { block.add((part.dense % BLOCK_BYTES as u64) as usize) };
            self.copy_part(queue, way, address + part.strided, host, part)
                .map_err(|refused| self.cut_short(nth > 0, refused))?;
        }
        Ok(())
    }

    fn copy_part(
        &self,
        queue: QueueId,
        way: Way,
        address: CUdeviceptr,
        host: *mut u8,
        part: &Part,
    ) -> Result<(), Refused> {
        let (api, stream, width) = (self.api(), self.stream(queue), host_len(part.width)?);
        if part.rows == 1 {
            // SAFETY: the GPU's bytes are within a page (`resolve`, `parts`), the block is kept until the copy has passed.
            let (call, answer) = unsafe {
                match way {
                    Way::In => (
                        "cuMemcpyHtoDAsync",
                        (api.copy_in)(address, host.cast(), width, stream),
                    ),
                    Way::Out => (
                        "cuMemcpyDtoHAsync",
                        (api.copy_out)(host.cast(), address, width, stream),
                    ),
                }
            };
            return self.check(call, answer);
        }
        let (rows, pitch) = (host_len(part.rows)?, host_len(part.pitch)?);
        let rows = match way {
            Way::In => rows_of(
                (Side::Host(host), width),
                (Side::Gpu(address), pitch),
                width,
                rows,
            ),
            Way::Out => rows_of(
                (Side::Gpu(address), pitch),
                (Side::Host(host), width),
                width,
                rows,
            ),
        };
        // SAFETY: as above, for every row; the structure is read during the call.
        let answer = unsafe { (api.copy_rows)(&raw const rows, stream) };
        self.check("cuMemcpy2DAsync", answer)
    }
}

/// An end of a copy.
enum Side {
    Host(*mut u8),
    Gpu(CUdeviceptr),
}

impl Side {
    /// As the driver takes it; what is not of its kind is nothing.
    fn parts(&self) -> (CUmemorytype, *mut u8, CUdeviceptr) {
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

/// A copy of `height` rows of `width` bytes, between sides with a pitch each.
fn rows_of(
    (source, source_pitch): (Side, usize),
    (target, target_pitch): (Side, usize),
    width: usize,
    height: usize,
) -> CUDA_MEMCPY2D {
    let (source_type, source_host, source_gpu) = source.parts();
    let (target_type, target_host, target_gpu) = target.parts();
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
