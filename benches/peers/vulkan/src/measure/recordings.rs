//! The time of a replay of a plan of dependent launches: until the calls have returned, and until the wait for it has.
//!
//! Millstream executes a secondary command buffer from the third replay with the same arguments on. The raw side records
//! the launches of each replay anew, and beside it executes a secondary command buffer that is recorded once, with the
//! arguments of the launches in a buffer.
//! Dispatches have no cubes, so that the rows show the host's part.

use millstream_harness::Summary;

use super::launches::sample;
use super::{Rig, in_us};
use crate::WORDS;
use crate::error::BenchError;
use crate::ours::Ours;
use crate::raw::{Memory, Place, Plan, Recorder, counting, set_empty_dispatches};
use crate::report::Row;

/// The launches of a plan.
const PLANS: [usize; 3] = [10, 100, 1000];
/// The replays by which the sides are checked.
const CHECKED: u32 = 2;

pub(super) fn measure(rig: &Rig) -> Result<Vec<Row>, BenchError> {
    check(rig)?;
    let device = counting(&rig.gpu);
    let ours = Ours::adopt(&rig.gpu, &device)?;
    let stream = ours.stream();
    let values = stream.create(&[0_u32; WORDS])?;
    let memory = Memory::new(&rig.gpu, 4 * WORDS, Place::Device)?;
    let recorder = Recorder::through(&rig.gpu, &device, 0)?;
    let recorder = std::cell::RefCell::new(recorder);
    let wait = |value| recorder.borrow_mut().wait(value);
    let mut rows = Vec::new();
    set_empty_dispatches(true);
    for launches in PLANS {
        let recording = ours.record(&stream, launches, &values)?;
        let plan = Plan::new(&rig.gpu, &device, launches)?;
        let [ours, anew, once] = rig.alternate_pairs([
            &mut || {
                let replay = || Ok(recording.replay(&stream)?);
                sample(launches, replay, |()| Ok(stream.sync().wait()?))
            },
            &mut || {
                let replay = || {
                    let recorder = &mut *recorder.borrow_mut();
                    for _ in 0..launches {
                        recorder.barrier()?;
                        recorder.launch(memory.address)?;
                    }
                    recorder.submit()
                };
                sample(launches, replay, wait)
            },
            &mut || {
                let replay = || {
                    let recorder = &mut *recorder.borrow_mut();
                    plan.replay(recorder, memory.address)?;
                    recorder.submit()
                };
                sample(launches, replay, wait)
            },
        ])?;
        let each = |of: Summary| in_us(of.map(|ns| ns * launches as f64));
        for (part, name) in ["submit", "with wait"].into_iter().enumerate() {
            let name = format!("replay of {launches} tasks, {name}, empty");
            let row = Row::cost(name.as_str(), "us", each(ours[part]));
            rows.push(row.raw(each(anew[part])));
            let row = Row::raw_only(format!("{name}: secondary"), "us", each(once[part]));
            rows.push(row);
        }
    }
    set_empty_dispatches(false);
    Ok(rows)
}

/// Checks that a plan computes what its launches do.
fn check(rig: &Rig) -> Result<(), BenchError> {
    let memory = Memory::new(&rig.gpu, 4 * WORDS, Place::Upload)?;
    memory.write(&[0; 4 * WORDS]);
    let mut recorder = Recorder::new(&rig.gpu, 0)?;
    let plan = Plan::new(&rig.gpu, &rig.gpu.device, PLANS[0])?;
    for _ in 0..CHECKED {
        plan.replay(&mut recorder, memory.address)?;
        recorder.visible_to_host()?;
        recorder.submit()?;
        recorder.finish()?;
    }
    let (got, expected) = (super::last_word(&memory.read()), CHECKED * PLANS[0] as u32);
    match got == expected {
        true => Ok(()),
        false => Err(BenchError::Wrong {
            side: "the plan in a secondary command buffer",
            got,
            expected,
        }),
    }
}
