//! Waits on a driven device: the caller's thread runs the device, and no thread of the runtime takes part.

use std::hint::black_box;

use millstream_harness::{Summary, time_each};

use super::{Rig, in_us};
use crate::WORDS;
use crate::error::BenchError;
use crate::ours::Ours;
use crate::raw::{Memory, Place, Recorder};
use crate::report::Row;

/// The waits of a sample.
const WAITS: usize = 100;
const BYTES: usize = 4 << 10;

fn sample(mut work: impl FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError> {
    time_each(WAITS, |_| work(), || Ok(()))
}

pub(super) fn measure(rig: &Rig) -> Result<Vec<Row>, BenchError> {
    let ours = Ours::open_driven()?;
    let stream = ours.stream();
    let data = vec![7_u8; BYTES];
    let (values, bytes) = (stream.create(&[0_u32; WORDS])?, stream.create(&data)?);
    let memory = Memory::new(&rig.gpu, BYTES, Place::Device)?;
    let upload = Memory::new(&rig.gpu, BYTES, Place::Upload)?;
    let readback = Memory::new(&rig.gpu, BYTES, Place::Readback)?;
    let mut recorder = Recorder::new(&rig.gpu, 0)?;
    stream.sync().wait()?;
    let sync = || Ok(stream.sync().wait()?);
    let empty = rig.alternate([&mut || sample(sync), &mut || sample(|| recorder.finish())])?;
    let launch = rig.alternate([
        &mut || {
            sample(|| {
                ours.launch(&stream, &values)?;
                sync()
            })
        },
        &mut || {
            sample(|| {
                recorder.barrier()?;
                recorder.launch(memory.address)?;
                recorder.submit()?;
                recorder.finish()
            })
        },
    ])?;
    let up = rig.alternate([
        &mut || {
            sample(|| {
                stream.write(&bytes, &data)?;
                sync()
            })
        },
        &mut || {
            sample(|| {
                upload.write(&data);
                recorder.barrier()?;
                recorder.copy(upload.buffer, memory.buffer, BYTES)?;
                recorder.submit()?;
                recorder.finish()
            })
        },
    ])?;
    let down = rig.alternate([
        &mut || {
            sample(|| {
                black_box(stream.read(&bytes).wait()?);
                Ok(())
            })
        },
        &mut || {
            sample(|| {
                recorder.barrier()?;
                recorder.copy(memory.buffer, readback.buffer, BYTES)?;
                recorder.visible_to_host()?;
                recorder.submit()?;
                recorder.finish()?;
                black_box(readback.read());
                Ok(())
            })
        },
    ])?;
    let rows = [
        ("sync, empty queue", empty),
        ("1 launch, with wait", launch),
        ("4 KiB up, with wait", up),
        ("4 KiB down, with wait", down),
    ];
    let row = |(name, [ours, raw]): (&str, [Summary; 2])| {
        Row::cost(format!("{name}, driven device"), "us", in_us(ours)).raw(in_us(raw))
    };
    Ok(rows.map(row).into())
}
