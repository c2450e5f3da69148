//! Work handed over between two queues: launches on the two in turn, each after the one before. wgpu has one queue.

use millstream_harness::time_each;

use super::{Rig, in_us};
use crate::WORDS;
use crate::error::BenchError;
use crate::raw::{Memory, Place, Recorder};
use crate::report::Row;

/// The hand-overs of a sample.
const HOPS: usize = 200;

pub(super) fn measure(rig: &Rig) -> Result<Vec<Row>, BenchError> {
    let streams = rig.ours.streams();
    let values = streams[0].create(&[0_u32; WORDS])?;
    let memory = Memory::new(&rig.gpu, 4 * WORDS, Place::Device)?;
    let mut recorders = [Recorder::new(&rig.gpu, 0)?, Recorder::new(&rig.gpu, 1)?];
    let mut rows = Vec::new();
    for (name, waited) in [
        ("launch handed over, 200 in a row", HOPS),
        ("launch handed over once, with wait", 1),
    ] {
        let [ours, raw] = rig.alternate([
            &mut || {
                let hop = |hop: usize| {
                    rig.ours.launch(&streams[hop % 2], &values)?;
                    match (hop + 1) % (2 * waited) {
                        0 => Ok(streams[1].sync().wait()?),
                        _ => Ok(()),
                    }
                };
                time_each(HOPS, hop, || Ok(streams[1].sync().wait()?))
            },
            &mut || {
                for recorder in &mut recorders {
                    recorder.finish()?;
                }
                let start = std::time::Instant::now();
                for hop in 0..HOPS {
                    // The wait of the submission also makes the other queue's writes visible.
                    let other = recorders[(hop + 1) % 2].point();
                    let here = &mut recorders[hop % 2];
                    here.launch(memory.address)?;
                    here.submit_after(Some(other), None)?;
                    if (hop + 1) % (2 * waited) == 0 {
                        here.finish()?;
                    }
                }
                recorders[1].finish()?;
                Ok(millstream_harness::ns_each(start, HOPS))
            },
        ])?;
        rows.push(Row::cost(name, "us each", in_us(ours)).raw(in_us(raw)));
    }
    Ok(rows)
}
