//! Measures replays: launches that are recorded once and replayed as one message.

use millstream_client::arguments::{CubeCount, read, write};

use super::Ours;
use crate::contender::Contender;
use crate::measures::{Effort, Figures, timed};

/// The tasks of the recording: as many as make a stream flush.
const TASKS: u64 = 32;

/// Bytes of each buffer that a launch binds.
const BUFFER_BYTES: usize = 1024;

/// Replays launches without arguments. Returns `ns` per task, both sides.
pub(crate) fn bare(effort: Effort) -> Figures {
    let ours = Ours::open();
    let recording = ours.stream.record(|recorder| {
        (0..TASKS).try_for_each(|_| recorder.launch(&ours.kernels.bare, CubeCount::single(), ()))
    });
    replays(&ours, &recording.expect("the launches fit"), effort)
}

/// Replays launches over three buffers. Returns `ns` per task, both sides.
pub(crate) fn three(effort: Effort) -> Figures {
    let ours = Ours::open();
    let [a, b, c] = [(); 3].map(|()| ours.empty(BUFFER_BYTES));
    let recording = ours.stream.record(|recorder| {
        (0..TASKS).try_for_each(|_| {
            let arguments = (read(&a), read(&b), write(&c));
            recorder.launch(&ours.kernels.three, CubeCount::single(), arguments)
        })
    });
    replays(&ours, &recording.expect("the launches fit"), effort)
}

fn replays(ours: &Ours, recording: &millstream_client::Recording, effort: Effort) -> Figures {
    let ns = timed(effort, |count| {
        for _ in 0..count {
            recording.replay(&ours.stream).expect("the device is open");
        }
        ours.sync();
    });
    vec![("ns", ns / TASKS as f64)]
}
