//! Calls of the driver for each operation: those that record, submit and wait, not those of setup.

use millstream_harness::Summary;

use super::Rig;
use crate::WORDS;
use crate::error::BenchError;
use crate::ours::Ours;
use crate::raw::{Calls, Memory, Place, Recorder, counting};
use crate::report::Row;

const REPEATS: u64 = 50;
const BATCH: usize = 100;
const BYTES: usize = 4 << 10;

/// Returns the mean number of calls of `work`.
fn calls(mut work: impl FnMut() -> Result<(), BenchError>) -> Result<Summary, BenchError> {
    work()?;
    let calls = Calls::start();
    (0..REPEATS).try_for_each(|_| work())?;
    let mean = calls.end() as f64 / REPEATS as f64;
    Ok(Summary::of(&[mean]).expect("there is a sample"))
}

pub(super) fn measure(rig: &Rig) -> Result<Vec<Row>, BenchError> {
    let device = counting(&rig.gpu);
    let ours = Ours::adopt(&rig.gpu, &device)?;
    let streams = ours.streams();
    let values = streams[0].create(&[0_u32; WORDS])?;
    let bytes = streams[0].create(&[0_u8; BYTES])?;
    let memory = Memory::new(&rig.gpu, BYTES, Place::Device)?;
    let staging = Memory::new(&rig.gpu, BYTES, Place::Readback)?;
    let mut recorders = [
        Recorder::through(&rig.gpu, &device, 0)?,
        Recorder::through(&rig.gpu, &device, 1)?,
    ];
    let launches = |count: usize| {
        calls(|| {
            (0..count).try_for_each(|_| ours.launch(&streams[0], &values))?;
            Ok(streams[0].sync().wait()?)
        })
    };
    let mut raw_launches = |count: usize| {
        let recorder = &mut recorders[0];
        calls(|| {
            for _ in 0..count {
                recorder.barrier()?;
                recorder.launch(memory.address)?;
            }
            recorder.submit()?;
            recorder.finish()
        })
    };
    let mut rows = vec![
        ("1 launch with wait", launches(1)?, raw_launches(1)?),
        (
            "100 dependent launches with wait",
            launches(BATCH)?,
            raw_launches(BATCH)?,
        ),
    ];
    let handed = calls(|| {
        ours.launch(&streams[0], &values)?;
        ours.launch(&streams[1], &values)?;
        Ok(streams[1].sync().wait()?)
    })?;
    let raw_handed = calls(|| {
        recorders[0].launch(memory.address)?;
        recorders[0].submit()?;
        let point = recorders[0].point();
        recorders[1].launch(memory.address)?;
        recorders[1].submit_after(Some(point), None)?;
        recorders[1].finish()
    })?;
    rows.push(("launch handed over, with wait", handed, raw_handed));
    let data = [1_u8; BYTES];
    let up = calls(|| {
        streams[0].write(&bytes, &data)?;
        Ok(streams[0].sync().wait()?)
    })?;
    let down = calls(|| Ok(streams[0].read(&bytes).wait().map(drop)?))?;
    let recorder = &mut recorders[0];
    let raw_up = calls(|| {
        staging.write(&data);
        recorder.barrier()?;
        recorder.copy(staging.buffer, memory.buffer, BYTES)?;
        recorder.submit()?;
        recorder.finish()
    })?;
    let raw_down = calls(|| {
        recorder.barrier()?;
        recorder.copy(memory.buffer, staging.buffer, BYTES)?;
        recorder.visible_to_host()?;
        recorder.submit()?;
        recorder.finish()
    })?;
    rows.extend([
        ("4 KiB up, with wait", up, raw_up),
        ("4 KiB down, with wait", down, raw_down),
    ]);
    let row = |(name, ours, raw): (&str, Summary, Summary)| {
        Row::cost(format!("calls: {name}"), "calls", ours).raw(raw)
    };
    Ok(rows.into_iter().map(row).collect())
}
