//! Copies between the host and the device, each with its wait. The host's bytes are a slice, and a new vector. The raw
//! side has a staging buffer for each direction, created before.

use std::hint::black_box;

use millstream_harness::time_each;
use wgpu::BufferUsages;

use super::{Rig, in_us};
use crate::error::BenchError;
use crate::raw::{Memory, Place, Recorder};
use crate::report::Row;

const SIZES: [(&str, usize, usize); 2] = [("4 KiB", 4 << 10, 100), ("64 MiB", 64 << 20, 1)];

pub(super) fn measure(rig: &Rig) -> Result<Vec<Row>, BenchError> {
    let stream = rig.ours.stream();
    let mut recorder = Recorder::new(&rig.gpu, 0)?;
    let mut rows = Vec::new();
    for (size, bytes, count) in SIZES {
        let data = vec![7_u8; bytes];
        let handle = stream.create(&data)?;
        let memory = Memory::new(&rig.gpu, bytes, Place::Device)?;
        let upload = Memory::new(&rig.gpu, bytes, Place::Upload)?;
        let readback = Memory::new(&rig.gpu, bytes, Place::Readback)?;
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        let buffer = rig.peer.buffer(bytes, usage);
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let target = rig.peer.buffer(bytes, usage);

        let sample = |work: &mut dyn FnMut() -> Result<(), BenchError>| {
            time_each(count, |_| work(), || Ok(()))
        };
        let up = rig.alternate([
            &mut || {
                sample(&mut || {
                    stream.write(&handle, &data)?;
                    Ok(stream.sync().wait()?)
                })
            },
            &mut || {
                sample(&mut || {
                    upload.write(&data);
                    recorder.barrier()?;
                    recorder.copy(upload.buffer, memory.buffer, bytes)?;
                    recorder.submit()?;
                    recorder.finish()
                })
            },
            &mut || {
                sample(&mut || {
                    rig.peer.queue.write_buffer(&buffer, 0, &data);
                    let index = rig.peer.queue.submit([]);
                    rig.peer.wait(Some(index))
                })
            },
        ])?;
        let down = rig.alternate([
            &mut || {
                sample(&mut || {
                    black_box(stream.read(&handle).wait()?);
                    Ok(())
                })
            },
            &mut || {
                sample(&mut || {
                    recorder.barrier()?;
                    recorder.copy(memory.buffer, readback.buffer, bytes)?;
                    recorder.visible_to_host()?;
                    recorder.submit()?;
                    recorder.finish()?;
                    black_box(readback.read());
                    Ok(())
                })
            },
            &mut || {
                sample(&mut || {
                    black_box(rig.peer.read(&buffer, &target)?);
                    Ok(())
                })
            },
        ])?;
        for (way, [ours, raw, peer]) in [("up", up), ("down", down)] {
            let row = Row::cost(format!("{size} {way}, with wait"), "us", in_us(ours));
            rows.push(row.raw(in_us(raw)).peer(in_us(peer)));
        }
    }
    Ok(rows)
}
